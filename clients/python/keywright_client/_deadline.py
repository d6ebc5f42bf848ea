"""The deadline of a call: for every attempt, pause, question and file in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from time import monotonic
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])
#: When the call that runs here has to return, on the monotonic clock.
_ends_at: ContextVar[float] = ContextVar("keywright_deadline", default=float("inf"))


def left() -> float:
    """The seconds that the call still has, at least 0."""
    return max(0.0, _ends_at.get() - monotonic())


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Give what runs within so many seconds, or what is left of those of the call around it."""
    token = _ends_at.set(min(_ends_at.get(), monotonic() + seconds))
    try:
        yield
    finally:
        _ends_at.reset(token)


def bounded(method: Method) -> Method:
    """Give each call of a method the seconds of ``self._timeout``."""

    @wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        with deadline(self._timeout):
            return method(self, *arguments, **options)

    return cast(Method, call)
