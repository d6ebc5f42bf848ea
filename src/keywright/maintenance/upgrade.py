"""What the first start of this version will do to a database that an earlier one has made."""

import shutil
from typing import NamedTuple

from sqlalchemy import Connection

from keywright.db import database_path, look_at
from keywright.db.migrate import OLDEST_COMPATIBLE, list_pending, read_size, read_state


class Upgrade(NamedTuple):
    """The schema of a database and its size in bytes; the migrations that are pending, and the bytes that are
    free for the copy that is made before them: None on PostgreSQL, where none is made.
    """

    schema: str
    size: int
    pending: list[str]
    free: int | None

    @property
    def has_room(self) -> bool:
        """Whether there is room for the copy, and for as much again in the log while tables are changed."""
        return self.free is None or not self.pending or self.free >= 2 * self.size

    @property
    def is_reversible(self) -> bool:
        """Whether the version that made the schema works with the new one, too."""
        return self.schema >= OLDEST_COMPATIBLE


def preview(url: str) -> Upgrade:
    """Look at a database, which exists, and change nothing. Raises the errors of ``open_storage``."""
    path = database_path(url)

    def ask(connection: Connection, name: str) -> Upgrade:
        schema = read_state(connection, name).revision or ""
        free = None if path is None else shutil.disk_usage(path.parent).free
        return Upgrade(schema, read_size(connection), list_pending(schema), free)

    return look_at(url, ask)
