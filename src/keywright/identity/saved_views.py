"""Views that users have saved: the filter of a list under a name. Each user has their own."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.core.errors import TooManyViews
from keywright.events.unit_of_work import UnitOfWork
from keywright.identity import store
from keywright.identity.commands import DeleteView, SaveView

#: The most views of a user.
MAX_VIEWS = 20


def save_view(work: UnitOfWork, command: SaveView) -> None:
    """Store the view, in the place of one of the same name. Raises ``TooManyViews``."""
    # One form of a user after the other: their number is counted.
    store.lock_user(work.tx, command.user_id)
    names = {one.name for one in store.list_views(work.tx, command.user_id)}
    if command.name not in names and len(names) >= MAX_VIEWS:
        raise TooManyViews(MAX_VIEWS)
    store.delete_view(work.tx, command.user_id, command.name)
    store.save_view(work.tx, command.user_id, command.name, command.query)


def delete_view(work: UnitOfWork, command: DeleteView) -> None:
    """Delete the view, if there is one."""
    store.delete_view(work.tx, command.user_id, command.name)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    SaveView: save_view,
    DeleteView: delete_view,
}
