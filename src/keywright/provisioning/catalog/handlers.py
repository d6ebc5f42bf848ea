"""Handle the commands about names."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning.catalog import store as catalog_store
from keywright.provisioning.catalog.commands import SaveName
from keywright.provisioning.catalog.store import names_of


def save_name(work: UnitOfWork, command: SaveName) -> None:
    """Change the name of a number in the shop."""
    before = names_of(work.tx, command.kind, [command.number]).get(command.number)
    if before == command.name:
        return
    catalog_store.save_name(work.tx, command.kind, command.number, command.name, command.context.now)
    details = {"kind": command.kind, "number": command.number, "name": [before, command.name]}
    work.record_event("name.saved", command, details)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {SaveName: save_name}
