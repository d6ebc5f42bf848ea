"""Commands that keep the search terms and counters up to date."""

from collections.abc import Mapping
from datetime import datetime

from keywright.core.command import Command, Cost


class ProjectEvents(Command, frozen=True, kw_only=True):
    """Project the next events, at most ``limit``, or as much of the data from before the first event."""

    cost = Cost.ALONE
    is_internal = True

    limit: int


class PurgeRefusals(Command, frozen=True, kw_only=True):
    """Delete some of what is kept of calls that were refused before this moment; returns how much."""

    cost = Cost.ALONE

    before: datetime


class SaveCounters(Command, frozen=True, kw_only=True):
    """Store the counters since the last time: validations, also by product, refusals at the limit by license
    key, the last use of API keys, and calls through a proxy that is not trusted.
    """

    cost = Cost.ALONE
    is_internal = True

    validations: int = 0
    product_validations: Mapping[int, int] = {}
    forwarded_blindly: int = 0
    refused: Mapping[str, int] = {}
    used_api_keys: Mapping[int, datetime] = {}
