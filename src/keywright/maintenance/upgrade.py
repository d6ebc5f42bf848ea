"""What the first start of this version will do to a database that an earlier one has made."""

import shutil

from sqlalchemy import Connection

from keywright.db import database_path, look_at
from keywright.db.migrate import OLDEST_COMPATIBLE, list_pending, read_size, read_state


def preview(url: str) -> dict[str, object]:
    """Look at a database, which exists, and change nothing: its ``schema``, the migrations that are
    ``pending``, its ``size`` in bytes, and whether the version before ``is_compatible`` with the new schema.
    For SQLite, also the bytes that are ``free``, and ``needed`` for a copy and for the log of the migration.

    Raises the errors of ``open_storage``.
    """
    path = database_path(url)

    def ask(connection: Connection, name: str) -> dict[str, object]:
        schema, size = read_state(connection, name).revision or "", read_size(connection)
        pending, is_compatible = list_pending(schema), schema >= OLDEST_COMPATIBLE
        found = {"schema": schema, "pending": pending, "size": size, "is_compatible": is_compatible}
        if path is not None:
            found |= {"free": shutil.disk_usage(path.parent).free, "needed": 2 * size if pending else 0}
        return found

    return look_at(url, ask)
