"""Shorten or leave out the IP addresses that an import brings."""

from collections.abc import Callable
from datetime import datetime, timedelta

from keywright.config import Settings
from keywright.core import parsing
from keywright.core.parsing import IpAddresses


def address_keeper(settings: Settings, now: datetime) -> Callable[[str, datetime], str]:
    """Make the function that keeps as much of an address, used at a moment, as the settings allow."""
    return keeper_of(settings.ip_addresses, settings.keep_addresses_days, now)


def keeper_of(kept: IpAddresses, days: int, now: datetime) -> Callable[[str, datetime], str]:
    """Make the same function from these two settings."""
    oldest = now - timedelta(days=days) if days else None

    def keep(address: str, came_at: datetime) -> str:
        if oldest is not None and came_at < oldest:
            return ""
        return parsing.keep_address(address, kept)

    return keep
