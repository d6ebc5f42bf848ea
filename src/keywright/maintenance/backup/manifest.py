"""The manifest of a backup, and the description of a database, with which it is compared."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from sqlalchemy import Connection, func, inspect, select

from keywright.core.errors import StoreError
from keywright.core.parsing import format_count, write_time
from keywright.db.migrate import HEAD, DatabaseState, read_state
from keywright.db.rows import to_datetime
from keywright.db.schema import (
    activations,
    api_keys,
    events,
    installation,
    licenses,
    metadata,
    policies,
    users,
)

_COUNTED = (licenses, activations, events, policies, api_keys, users)
_NEWEST_EVENT = select(events.c.occurred_at).order_by(events.c.id.desc()).limit(1)

Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Contents(msgspec.Struct, frozen=True):
    """The number of rows in each table."""

    licenses: int
    activations: int
    events: int
    policies: int
    api_keys: int
    users: int
    newest_event_at: Moment | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is lost when the database is replaced."""
        return not any(getattr(self, table.name) for table in _COUNTED)


class Description(msgspec.Struct, frozen=True):
    """A database at one moment."""

    state: DatabaseState
    installed_at: datetime
    contents: Contents


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a backup."""

    format: int
    #: The moment whose state the backup holds.
    made_at: Moment
    #: The versions of Keywright and of pg_dump that made it.
    made_by: str
    dumped_by: str | None
    database: Literal["sqlite", "postgresql"]
    #: The schema's.
    revision: str
    #: Tells which secret the license keys are sealed with, without revealing it.
    secret_id: str
    #: While the secret is rotated: the secret that some of them are still sealed with.
    previous_secret_id: str | None = None
    has_secret: bool
    installed_at: Moment
    contents: Contents


def describe(connection: Connection, name: str) -> Description | None:
    """Describe the database at the moment of this transaction; None when it has no tables of Keywright.

    Raises ``StoreError`` for a database of another program, or of a newer Keywright.
    """
    state = read_state(connection, name)
    if state.revision is None or state.secret_id is None:
        return None
    if state.revision > HEAD:
        raise StoreError(
            f"{name} was made by a newer Keywright (its schema is {state.revision!r}, this version knows up "
            f"to {HEAD!r}). Install that version, and try again."
        )
    installed_at = connection.execute(select(installation.c.created_at)).scalar_one()
    return Description(state, to_datetime(installed_at), _count_rows(connection))


def list_tables(connection: Connection) -> list[str]:
    """List Keywright's tables in this database, the table of the schema's revision included."""
    ours = {*metadata.tables, "alembic_version"}
    return sorted(ours & set(inspect(connection).get_table_names()))


def require_match(database: Description | None, manifest: Manifest, file: Path) -> None:
    """Raise ``StoreError`` unless the database is as the manifest of the backup in this file says."""
    expected = (manifest.revision, manifest.secret_id, manifest.previous_secret_id, manifest.contents)
    if database is not None:
        state = database.state
        ids = (state.secret_id, state.previous_secret_id)
        if (state.revision, *ids, database.contents) == expected:
            return
    raise StoreError(f"the manifest of {file} does not match its database. Take another backup.")


def require_replaceable(
    existing: Description | None, manifest: Manifest, name: str, consequence: str, *, is_overwriting: bool
) -> None:
    """Raise ``StoreError`` with the ``consequence`` if there are contents, unless ``is_overwriting``."""
    if existing is None or existing.contents.is_empty or is_overwriting:
        return
    raise StoreError(
        f"there is an installation in {name} already: {summarize(existing.contents)}. The backup, which is "
        f"of {write_time(manifest.made_at)} (UTC), would replace all of that; {consequence}. If you want "
        "that, use --overwrite."
    )


def summarize(contents: Contents) -> str:
    """Summarize the contents for a sentence: ``2 licenses, 1 activation and 3 events …``."""
    licenses, activations, events = (
        format_count(number, noun)
        for number, noun in (
            (contents.licenses, "license"),
            (contents.activations, "activation"),
            (contents.events, "event"),
        )
    )
    words = f"{licenses}, {activations} and {events}"
    newest = contents.newest_event_at
    return words if newest is None else f"{words}, the newest of {write_time(newest)} (UTC)"


def _count_rows(connection: Connection) -> Contents:
    counts = {
        table.name: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
        for table in _COUNTED
    }
    newest: Any = connection.execute(_NEWEST_EVENT).scalar()
    return Contents(**counts, newest_event_at=None if newest is None else to_datetime(newest))
