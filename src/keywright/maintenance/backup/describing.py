"""What a database says of itself, so that a backup can say it, and a person who is about to replace it."""

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, func, inspect, select

from keywright.core.errors import StoreError
from keywright.core.parsing import write_time
from keywright.db.migrate import HEAD, State, state_of
from keywright.db.schema import (
    activations,
    api_keys,
    events,
    generators,
    installation,
    licenses,
    metadata,
    users,
)

_COUNTED = (licenses, activations, events, generators, api_keys, users)
_NEWEST_EVENT = select(events.c.at).order_by(events.c.id.desc()).limit(1)


class Contents(msgspec.Struct, frozen=True):
    """How many rows there are."""

    licenses: int
    activations: int
    events: int
    generators: int
    api_keys: int
    users: int
    newest_event_at: datetime | None

    @property
    def is_empty(self) -> bool:
        """Whether nobody would miss anything."""
        counted = [getattr(self, table.name) for table in _COUNTED]
        return not any(counted)


class Described(msgspec.Struct, frozen=True):
    """A database at one moment."""

    state: State
    installed_at: datetime
    contents: Contents


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup says of itself."""

    format: int
    #: The moment that it shows.
    made_at: datetime
    #: The version of Keywright that made it, and of pg_dump.
    made_by: str
    dumped_by: str | None
    database: Literal["sqlite", "postgresql"]
    #: The schema's.
    revision: str
    #: Tells, without giving it away, which secret the license keys are sealed with.
    secret_mark: str
    #: While the secret was rotated: the one that some of them are still sealed with.
    previous_secret_mark: str | None = None
    has_secret: bool
    #: Whether there is a signature; there was none in format 1.
    is_signed: bool = False
    installed_at: datetime
    contents: Contents


def describe(connection: Connection, name: str) -> Described | None:
    """The database at the moment of this transaction; None when there are no tables of Keywright's in it.

    Raises ``StoreError`` for a database of another program, or of a Keywright so new that this one does not
    know its tables.
    """
    state = state_of(connection, name)
    if state.revision is None or state.secret_mark is None:
        return None
    if state.revision > HEAD:
        raise StoreError(
            f"{name} was made by a newer Keywright (its schema is {state.revision!r}, this version knows up "
            f"to {HEAD!r}). Install that version, and try again."
        )
    installed_at = connection.execute(select(installation.c.created_at)).scalar_one()
    return Described(state, _moment(installed_at), _contents(connection))


def tables_there(connection: Connection) -> list[str]:
    """The names of Keywright's tables in this database, that of the revision included."""
    ours = {*metadata.tables, "alembic_version"}
    return sorted(ours & set(inspect(connection).get_table_names()))


def _contents(connection: Connection) -> Contents:
    counted = {
        table.name: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
        for table in _COUNTED
    }
    newest: Any = connection.execute(_NEWEST_EVENT).scalar()
    return Contents(**counted, newest_event_at=None if newest is None else _moment(newest))


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def same(described: Described, manifest: Manifest) -> bool:
    """Whether a database is what a backup's manifest says."""
    state = described.state
    said = (manifest.revision, manifest.secret_mark, manifest.previous_secret_mark, manifest.contents)
    return said == (state.revision, state.secret_mark, state.previous_secret_mark, described.contents)


def require_replaceable(
    there: Described | None, manifest: Manifest, name: str, fate: str, *, is_overwriting: bool
) -> None:
    """Raise ``StoreError`` where somebody would miss what is there, unless it is to be replaced; ``fate``
    says what would become of it.
    """
    if there is None or there.contents.is_empty or is_overwriting:
        return
    raise StoreError(
        f"there is an installation in {name} already: {in_words(there.contents)}. The backup, which is of "
        f"{write_time(manifest.made_at)} (UTC), would replace all of that; {fate}. If you want that, say "
        "--overwrite."
    )


def in_words(contents: Contents) -> str:
    """How much that is."""
    licenses, activations, events = (
        _counted(number, noun)
        for number, noun in (
            (contents.licenses, "license"),
            (contents.activations, "activation"),
            (contents.events, "event"),
        )
    )
    words = f"{licenses}, {activations} and {events}"
    newest = contents.newest_event_at
    return words if newest is None else f"{words}, the newest of {write_time(newest)} (UTC)"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
