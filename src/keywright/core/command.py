"""Commands and queries: requests to change and to read, with all input that their handlers need."""

from collections.abc import Callable, Collection
from datetime import datetime
from enum import Enum, auto
from typing import Any, ClassVar, NamedTuple

import msgspec


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The source of a command: ``actor`` is ``program``, ``api_key:7``, ``cli:root`` and the like;
    ``subject`` is the account of a user who signs in through the company's identity provider.
    """

    actor: str
    ip_address: str
    user_agent: str
    subject: str | None = None


class Context(msgspec.Struct, frozen=True, gc=False):
    """When and from where a command was sent, and the ID of the API key or user that sent it."""

    now: datetime
    origin: Origin
    by: int | None = None

    @property
    def api_key_id(self) -> int | None:
        """The ID of the API key; None for a user of the pages."""
        return None if self.origin.actor.startswith("user:") else self.by


class Cost(Enum):
    """The cost of a command or query, by which the desk chooses its lane, thread and timeout."""

    #: Low: many are executed in one transaction.
    BATCHED = auto()
    #: Medium: executed alone, in another thread.
    ALONE = auto()
    #: High: executed alone, with a long timeout.
    LONG = auto()
    #: A step of a job: executed alone, and interrupted if it takes too long.
    STEP = auto()
    #: A query about very many licenses.
    LIST = auto()
    #: A query of the event feed, for which many callers may wait.
    FEED = auto()
    #: A query about a license with very many activations.
    LARGE = auto()


class IdempotentCall(msgspec.Struct, frozen=True):
    """A call that its caller may repeat. ``scope`` identifies the call (32 bytes), and ``request_digest``
    what it asked for. ``write_answer`` converts an outcome to the status and body to store; None if the call
    changed nothing, so that a repeated call is executed again. The same applies to refusals without
    ``keeps_refusals``. ``owner`` is a hash of the license key if the caller has no other credential; the size
    of an owner's stored answers is limited.
    """

    scope: bytes
    request_digest: bytes
    write_answer: Callable[[Any], tuple[int, bytes] | None]
    keeps_refusals: bool = True
    owner: int = 0


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request to change something."""

    cost: ClassVar[Cost] = Cost.BATCHED
    #: Whether the server sends this command periodically: it does not wait for other processes, and the loop
    #: that sends it reports failures.
    is_internal: ClassVar[bool] = False

    context: Context
    idempotency: IdempotentCall | None = None
    #: Called with the current state of what is to be changed; raises ``ChangedMeanwhile`` if the caller named
    #: another version.
    precondition: Callable[[Any], None] | None = None

    @property
    def parts(self) -> "Collection[Command]":
        """The commands that this one consists of: itself, or the changes that it wraps."""
        return (self,)

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses that the command locks, by key or ID."""
        return ()


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A request to read."""

    cost: ClassVar[Cost] = Cost.BATCHED


class Rerouted(NamedTuple):
    """The outcome of a query that is more expensive than its cost states; execute this query instead."""

    query: Query
