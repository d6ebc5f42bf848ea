"""Commands that keep the search terms and counters up to date."""

from collections.abc import Mapping
from datetime import datetime

from keywright.core.command import Command, Cost


class ProjectEvents(Command, frozen=True, kw_only=True):
    """Bring what follows the events nearer to them: at most ``limit`` events are read, or as much of what was
    there before following began.
    """

    cost = Cost.ALONE
    is_internal = True

    limit: int


class SaveCounters(Command, frozen=True, kw_only=True):
    """Keep what was counted since the last time: how many validations there were, which license keys met
    their limit how often, when which API key was last used, and how many calls came through a proxy that is
    not trusted.
    """

    cost = Cost.ALONE
    is_internal = True

    validations: int = 0
    forwarded_blindly: int = 0
    refused: Mapping[str, int] = {}
    used_api_keys: Mapping[int, datetime] = {}
