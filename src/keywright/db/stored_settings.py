"""The settings that administrators changed in the pages: names and sealed values."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, delete, select

from keywright.core.crypto import KeyRing
from keywright.db import look_at
from keywright.db.bulk import insert_or
from keywright.db.migrate import read_state
from keywright.db.rows import to_seconds
from keywright.db.schema import stored_settings
from keywright.db.sealed_columns import setting_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction

_FIRST_REVISION = "0029"
_ALL = select(stored_settings.c.name, stored_settings.c.sealed_value).order_by(stored_settings.c.name)


def list_stored(tx: ReadTransaction) -> dict[str, str]:
    """Every setting that was changed in the pages, as text; a damaged one as an invalid text."""
    return {name: _unseal(tx.key_ring, name, value) for name, value in tx.connection.execute(_ALL)}


def _unseal(key_ring: KeyRing, name: str, value: bytes) -> str:
    try:
        return key_ring.unseal(value, setting_associated_data(name)).decode()
    except ValueError:
        return "\0"


def look_at_stored(url: str, key_ring: KeyRing) -> dict[str, str]:
    """These settings of a database of any version, unmigrated. Raises the errors of ``open_storage``."""

    def read(connection: Connection, name: str) -> dict[str, str]:
        is_known = (read_state(connection, name).revision or "") >= _FIRST_REVISION
        return list_stored(ReadTransaction(connection, key_ring)) if is_known else {}

    return look_at(url, read)


def save_stored(tx: WriteTransaction, changes: Mapping[str, str | None], now: datetime) -> None:
    """Insert or replace settings; None deletes one."""
    # In order, so that two transactions cannot deadlock.
    for name, text in sorted(changes.items()):
        if text is None:
            tx.connection.execute(delete(stored_settings).where(stored_settings.c.name == name))
            continue
        sealed = tx.sealing.seal(text.encode(), setting_associated_data(name))
        values = {"sealed_value": sealed, "updated_at": to_seconds(now)}
        row = insert_or(stored_settings, is_postgres=tx.is_postgres).values(name=name, **values)
        tx.connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=values))
