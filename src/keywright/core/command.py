"""Commands and queries: requests to change and to read, with everything that deciding them needs."""

from collections.abc import Callable, Collection
from datetime import datetime
from enum import Enum, auto
from typing import Any, ClassVar, NamedTuple

import msgspec


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The source of a command: ``actor`` is ``program``, ``api_key:7``, ``cli:root`` and the like;
    ``subject`` is the account of a user who signs in with the company's provider.
    """

    actor: str
    ip_address: str
    user_agent: str
    subject: str | None = None


class Context(msgspec.Struct, frozen=True, gc=False):
    """When a command was given, from where, and by which API key or user (its number)."""

    now: datetime
    origin: Origin
    by: int | None = None

    @property
    def api_key_id(self) -> int | None:
        """The number of the API key; None for a user of the pages."""
        return None if self.origin.actor.startswith("user:") else self.by


class Cost(Enum):
    """The amount of work in a command or query: the desk chooses its lane, thread and timeout by it."""

    #: Little: many are decided in one transaction.
    BATCHED = auto()
    #: More: decided alone, in another thread.
    ALONE = auto()
    #: Much: alone, and the database may take long.
    LONG = auto()
    #: A step of a job: alone; the desk breaks it off when it takes too long.
    STEP = auto()
    #: A question about very many licenses.
    LIST = auto()
    #: A question about the events: many may wait for them.
    FEED = auto()
    #: A question about a license with very many activations.
    LARGE = auto()


class IdempotentCall(msgspec.Struct, frozen=True):
    """The caller may send this call again: ``scope`` names the call (32 bytes), ``request_digest`` what it
    asked for, and ``write_answer`` turns an outcome into the status and body to keep; into None where the
    call changed nothing, and is decided again. Without ``keeps_refusals``, so is a refusal. ``owner`` is a
    hash of the license key where the caller has nothing else: of one owner, only so much is kept.
    """

    scope: bytes
    request_digest: bytes
    write_answer: Callable[[Any], tuple[int, bytes] | None]
    keeps_refusals: bool = True
    owner: int = 0


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request to change something."""

    cost: ClassVar[Cost] = Cost.BATCHED
    #: Whether the server gives this command itself, again and again: it does not wait for other processes,
    #: and failures are for the loop that gives it to report.
    is_internal: ClassVar[bool] = False

    context: Context
    idempotency: IdempotentCall | None = None
    #: Called with what is to be changed, as it is now; raises ``ChangedMeanwhile`` when the caller has named
    #: another version of it.
    precondition: Callable[[Any], None] | None = None

    @property
    def parts(self) -> "Collection[Command]":
        """The commands that this one is made of: itself, or the changes that it carries."""
        return (self,)

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses that deciding the command locks, by key or by id."""
        return ()


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A request to read."""

    cost: ClassVar[Cost] = Cost.BATCHED


class Rerouted(NamedTuple):
    """The outcome of a query that costs more than it promised: this one is to be asked instead."""

    query: Query
