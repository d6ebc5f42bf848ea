"""The command, and what every command has."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Where a command came from: ``actor`` is ``program``, ``api_key:7``, ``cli:root`` and the like."""

    actor: str
    ip_address: str
    user_agent: str


class IdempotentCall(msgspec.Struct, frozen=True):
    """The caller may send this call again: ``scope`` names the call (32 bytes), ``request_digest``
    what it asked for, and ``write_answer`` turns an outcome into the status and body to be kept. Without
    ``keeps_refusals``, only a success is kept: a refusal changed nothing, and is decided again.
    """

    scope: bytes
    request_digest: bytes
    write_answer: Callable[[Any], tuple[int, bytes]]
    keeps_refusals: bool = True


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request to change something. ``by`` is the number of the API key or user who asks."""

    now: datetime
    origin: Origin
    by: int | None = None
    retry: IdempotentCall | None = None

    @property
    def parts(self) -> "tuple[Command, ...]":
        """The commands that this one is made of: itself, or the changes that it carries."""
        return (self,)

    @property
    def api_key_id(self) -> int | None:
        """The number of the API key that asks; None for a user of the pages."""
        return None if self.origin.actor.startswith("user:") else self.by


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A request to read."""
