"""Commands that Keywright gives itself: forget what is old, follow the events, keep counters and notes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keywright.commands.root import Command


class ForgetAnswers(Command, frozen=True, kw_only=True):
    """Delete the answers that were kept for repeated calls before this moment."""

    before: datetime


class ForgetEvents(Command, frozen=True, kw_only=True):
    """Delete some events that happened before this moment (None: none is too old), or find licenses that may
    have too many; with a license, delete some of those that it has too many.
    """

    before: datetime | None = None
    license_id: int | None = None


class Note(Command, frozen=True, kw_only=True):
    """Write down, as an event of this name, what was done outside the database: a backup was made."""

    name: str
    details: Mapping[str, Any] | None = None


class ForgetAddresses(Command, frozen=True, kw_only=True):
    """Forget from where these places (the license's number, the token) were taken, if they were given up
    before this moment; and the addresses of some earlier events.
    """

    before: datetime
    places: tuple[tuple[int, str], ...] = ()


class Follow(Command, frozen=True, kw_only=True):
    """Bring what follows the events nearer to them: at most ``limit`` events are read, or as much of what was
    there before following began.
    """

    limit: int


class Tally(Command, frozen=True, kw_only=True):
    """Keep what was counted since the last time: how many validations there were, which license keys met
    their limit how often, when which API key was last used, and how many calls came through a proxy that is
    not trusted.
    """

    validations: int = 0
    forwarded_blindly: int = 0
    refused: Mapping[str, int] = {}
    used_api_keys: Mapping[int, datetime] = {}
