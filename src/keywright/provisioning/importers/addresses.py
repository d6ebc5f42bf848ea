"""Shorten or leave out the IP addresses that an import brings."""

from collections.abc import Callable
from datetime import datetime, timedelta

from keywright.config import Settings
from keywright.core import parsing


def address_keeper(settings: Settings, now: datetime) -> Callable[[str, datetime], str]:
    """Make the function that keeps as much of an address, used at a moment, as the settings allow."""
    days = settings.keep_addresses_days
    oldest = now - timedelta(days=days) if days else None

    def keep(address: str, came_at: datetime) -> str:
        if oldest is not None and came_at < oldest:
            return ""
        return parsing.keep_address(address, settings.ip_addresses)

    return keep
