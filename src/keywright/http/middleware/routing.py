"""The types of an interface's route table."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from keywright.core.errors import MethodNotAllowed


class Right(Enum):
    """The right that an action requires."""

    #: None; but an API key that is sent must be valid.
    NONE = "none"
    #: Any API key, whatever its permissions.
    API_KEY = "api_key"
    #: Only the license key; but an API key that is sent must be valid and not write-only.
    CORE = "core"
    #: An API key with read permission, or a client key, because the call names one license by its key.
    ONE_LICENSE = "one_license"
    READ = "read"
    WRITE = "write"


class Action(Protocol):
    """The action for a method at an address, as the middlewares see it."""

    @property
    def operation(self) -> str:
        """Its name, for the access log."""

    @property
    def right(self) -> Right:
        """The right that it requires."""

    @property
    def changes(self) -> bool:
        """Whether it may change something."""

    @property
    def answer(self) -> Callable[[Any], Awaitable[Any]]:
        """The handler of its calls."""


AnyAction = TypeVar("AnyAction", bound=Action)


class Address(Generic[AnyAction]):
    """The segments of a path and the action of each method; None stands for the key or ID in the path."""

    def __init__(self, words: tuple[str | None, ...], actions: Mapping[str, AnyAction]) -> None:
        self.words = words
        self.actions = actions
        #: Whether shipped programs call this address.
        self.is_core = any(one.right is Right.CORE for one in actions.values())
        #: Whether pages of any origin may call it (CORS).
        self.is_open = self.is_core or any(one.right is Right.NONE for one in actions.values())
        has_head = "GET" in actions and not (self.is_core and actions["GET"].changes)
        #: The allowed methods, as the header ``Allow`` lists them.
        self.methods = (*actions, *(("HEAD",) if has_head else ()), "OPTIONS")

    def find_action(self, method: str) -> AnyAction:
        """The action for the method. Raises ``MethodNotAllowed``.

        HEAD is the same as GET if that changes nothing.
        """
        action = self.actions.get("GET" if method == "HEAD" else method)
        if action is None or (method == "HEAD" and action.changes):
            raise MethodNotAllowed(self.methods)
        return action
