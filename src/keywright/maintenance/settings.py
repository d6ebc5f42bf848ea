"""Handlers for settings that administrators change in the pages."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from keywright.config.stored import is_secret
from keywright.core.command import Command, Query
from keywright.db.stored_settings import list_stored, save_stored
from keywright.events.unit_of_work import UnitOfWork
from keywright.maintenance.tasks import ListSettings, SaveSettings


def save_settings(work: UnitOfWork, command: SaveSettings) -> None:
    """Store changed settings. The event contains each value before and after; of a mail server, only the
    host; secrets are masked.
    """
    before = list_stored(work.tx)
    changes = {name: text for name, text in command.changes.items() if text != before.get(name)}
    if changes:
        save_stored(work.tx, changes, command.context.now)
        pairs = {name: [_show(name, before.get(name)), _show(name, text)] for name, text in changes.items()}
        work.record_event("settings.changed", command, pairs)


def _show(name: str, text: str | None) -> str | None:
    if name == "smtp_url" and text is not None:
        return urlsplit(text).hostname
    return "********" if is_secret(name) and text is not None else text


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {SaveSettings: save_settings}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    ListSettings: lambda read, _: list_stored(read.tx)
}
