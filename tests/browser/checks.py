"""Checks of many pages in one test."""

from collections.abc import Callable
from typing import Any


class Checks:
    """Checks of many pages: the failure of one does not keep the others from being checked."""

    def __init__(self) -> None:
        self._failures: list[str] = []

    def run(self, check: Callable[..., None], *what: Any) -> None:
        """Run the check, and keep its failure for the end."""
        try:
            check(*what)
        except AssertionError as failure:
            self._failures.append(str(failure))

    def assert_passed(self) -> None:
        """Fail if any check failed."""
        assert not self._failures, "\n".join(["some pages are not as they should be:", *self._failures])
