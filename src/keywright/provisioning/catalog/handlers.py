"""Decide the commands of the catalog."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keywright.core.command import Command
from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning.catalog import store as catalog_store
from keywright.provisioning.catalog.commands import SaveName
from keywright.provisioning.catalog.store import names_of

if TYPE_CHECKING:
    pass


def save_name(work: UnitOfWork, command: SaveName) -> None:
    """Call a number of the shop by another name."""
    before = names_of(work.tx, command.kind, [command.number]).get(command.number)
    if before == command.name:
        return
    catalog_store.save_name(work.tx, command.kind, command.number, command.name)
    details = {"kind": command.kind, "number": command.number, "name": [before, command.name]}
    work.record_event("name.saved", command, details)


#: Which function decides which command.
HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {SaveName: save_name}
