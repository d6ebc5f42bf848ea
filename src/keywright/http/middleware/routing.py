"""The types of an interface's table of routes."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from keywright.core.errors import MethodNotAllowed


class Right(Enum):
    """The right that a caller needs for an action."""

    #: Nothing; an API key that is sent must be right.
    NONE = "none"
    #: An API key, whatever its permissions.
    API_KEY = "api_key"
    #: Nothing but the license key; an API key that is sent must be right, and must not be write-only.
    CORE = "core"
    #: An API key that may read, or one for programs: the license is named by its key.
    ONE_LICENSE = "one_license"
    READ = "read"
    WRITE = "write"


class Action(Protocol):
    """The action of a method at an address, as the middlewares know it."""

    @property
    def operation(self) -> str:
        """Its name, for the access log."""

    @property
    def right(self) -> Right:
        """The right that its caller needs."""

    @property
    def changes(self) -> bool:
        """Whether it may change something."""

    @property
    def answer(self) -> Callable[[Any], Awaitable[Any]]:
        """Answers a call."""


AnyAction = TypeVar("AnyAction", bound=Action)


class Address(Generic[AnyAction]):
    """The words of a path and what each method does there; None stands for the key or number in the path."""

    def __init__(self, words: tuple[str | None, ...], actions: Mapping[str, AnyAction]) -> None:
        self.words = words
        self.actions = actions
        #: Whether this is one of the addresses that shipped programs call.
        self.is_core = any(one.right is Right.CORE for one in actions.values())
        #: Whether browsers of any site may call it.
        self.is_open = self.is_core or any(one.right is Right.NONE for one in actions.values())
        has_head = "GET" in actions and not (self.is_core and actions["GET"].changes)
        #: The methods that can be used here, as ``Allow`` lists them.
        self.methods = (*actions, *(("HEAD",) if has_head else ()), "OPTIONS")

    def find_action(self, method: str) -> AnyAction:
        """The action of the method. Raises ``MethodNotAllowed``.

        HEAD does what GET does where that changes nothing.
        """
        action = self.actions.get("GET" if method == "HEAD" else method)
        if action is None or (method == "HEAD" and action.changes):
            raise MethodNotAllowed(self.methods)
        return action
