"""The root of the tree of errors."""

from typing import ClassVar


class KeywrightError(Exception):
    """The root: everything that Keywright raises on purpose."""

    code: ClassVar[str] = "error"
