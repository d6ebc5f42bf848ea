"""Store the rows of a source on disk, and join activations with their licenses. The storage is a temporary,
unnamed SQLite database, which is deleted when its connection is closed.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from keywright.provisioning.importers.lmfwc import Spooled, Values

_TABLES = """
PRAGMA synchronous = OFF;
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE licenses (id INTEGER PRIMARY KEY, line INTEGER, hash TEXT, data BLOB);
CREATE TABLE activations (license_id INTEGER, id INTEGER, line INTEGER, data BLOB);
CREATE TABLE meta (license_id INTEGER, line INTEGER, name TEXT, value TEXT);
CREATE TABLE others (kind TEXT, line INTEGER, data BLOB);
CREATE TABLE names (kind TEXT, number INTEGER, rank INTEGER, name TEXT);
"""
_INDEXES = """
CREATE INDEX licenses_hash ON licenses (hash);
CREATE INDEX activations_license ON activations (license_id, id);
CREATE INDEX meta_license ON meta (license_id);
CREATE INDEX names_number ON names (kind, number, rank);
CREATE TABLE joined (license_id INTEGER PRIMARY KEY, first_id INTEGER);
INSERT INTO joined SELECT one.id, first.id FROM licenses AS one JOIN
    (SELECT hash, min(id) AS id FROM licenses GROUP BY hash HAVING count(*) > 1) AS first USING (hash)
    WHERE one.id <> first.id;
UPDATE activations SET license_id =
    (SELECT first_id FROM joined WHERE joined.license_id = activations.license_id)
    WHERE license_id IN (SELECT license_id FROM joined);
"""
_INSERT = {
    "licenses": "INSERT OR IGNORE INTO licenses VALUES (?, ?, ?, ?)",
    "activations": "INSERT INTO activations VALUES (?, ?, ?, ?)",
    "meta": "INSERT INTO meta VALUES (?, ?, ?, ?)",
    "others": "INSERT INTO others VALUES (?, ?, ?)",
    "names": "INSERT INTO names VALUES (?, ?, ?, ?)",
}
_MAX_PENDING = 1_000


class Spool:
    """The rows of one source: add all of them, call ``finish``, then read them."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.executescript(_TABLES)
        self._pending: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _INSERT}
        self._encode, self._decode = msgspec.msgpack.encode, msgspec.msgpack.Decoder(Values).decode

    def close(self) -> None:
        """Delete everything."""
        self._connection.close()

    def add_license(self, number: int, line: int, hash: str, values: Values) -> None:
        """Add a license; licenses with the same hash are merged into the one with the lowest ID."""
        self._add("licenses", (number, line, hash, self._encode(values)))

    def add_activation(self, license_id: int, number: int, line: int, values: Values) -> None:
        """Add an activation."""
        self._add("activations", (license_id, number, line, self._encode(values)))

    def add_meta(self, license_id: int, line: int, name: str, value: str | None) -> None:
        """Add a metadata name and value to a license."""
        self._add("meta", (license_id, line, name, value))

    def add_other(self, kind: str, line: int, values: Values) -> None:
        """Add a row of a small table."""
        self._add("others", (kind, line, self._encode(values)))

    def add_name(self, kind: str, number: int, rank: int, name: str) -> None:
        """Add a name of a product or customer; the one with the lowest rank is used."""
        self._add("names", (kind, number, rank, name))

    def finish(self) -> None:
        """Write all pending rows, build indexes, and merge duplicate licenses."""
        for table in _INSERT:
            self._write(table)
        self._connection.executescript(_INDEXES)

    # --- reading ----------------------------------------------------------------------------------

    def licenses(self, *, after: int, limit: int) -> list[tuple[int, Spooled]]:
        """The next licenses after this ID, without those merged into others."""
        rows = self._connection.execute(
            "SELECT id, line, data FROM licenses WHERE id > ? AND id NOT IN (SELECT license_id FROM joined) "
            "ORDER BY id LIMIT ?",
            (after, limit),
        )
        return [(row[0], Spooled(row[1], self._decode(row[2]))) for row in rows]

    def activations(self, first: int, last: int) -> dict[int, list[Spooled]]:
        """The activations of the licenses with IDs from ``first`` to ``last``, by license."""
        found: dict[int, list[Spooled]] = {}
        for row in self._connection.execute(
            "SELECT license_id, line, data FROM activations "
            "WHERE license_id BETWEEN ? AND ? ORDER BY license_id, id",
            (first, last),
        ):
            found.setdefault(row[0], []).append(Spooled(row[1], self._decode(row[2])))
        return found

    def meta(self, first: int, last: int) -> dict[int, dict[str, str | None]]:
        """The metadata of the licenses with IDs from ``first`` to ``last``, by license."""
        found: dict[int, dict[str, str | None]] = {}
        for license_id, name, value in self._connection.execute(
            "SELECT license_id, name, value FROM meta WHERE license_id BETWEEN ? AND ? ORDER BY rowid",
            (first, last),
        ):
            found.setdefault(license_id, {})[name] = value
        return found

    def others(self, kind: str) -> Iterator[Spooled]:
        """Yield the rows of a small table."""
        for row in self._connection.execute("SELECT line, data FROM others WHERE kind = ?", (kind,)):
            yield Spooled(row[0], self._decode(row[1]))

    def names(self, kind: str) -> Iterator[tuple[int, str]]:
        """Yield the IDs and names of this kind, each ID once."""
        yield from self._connection.execute(
            "SELECT number, name FROM names WHERE kind = ? GROUP BY number HAVING rank = min(rank)", (kind,)
        )

    def has_name(self, kind: str, number: int) -> bool:
        """Whether there is a name for this ID."""
        found = self._connection.execute("SELECT 1 FROM names WHERE kind = ? AND number = ?", (kind, number))
        return found.fetchone() is not None

    def joined(self) -> Iterator[tuple[int, int, int]]:
        """Yield the licenses with the same key as an earlier one: line, ID, and the earlier one's ID."""
        yield from self._connection.execute(
            "SELECT line, license_id, first_id FROM joined JOIN licenses ON id = license_id ORDER BY id"
        )

    def strays(self) -> Iterator[tuple[int, int]]:
        """Yield the activations whose license is missing: line, and the license's ID."""
        yield from self._connection.execute(
            "SELECT line, license_id FROM activations WHERE license_id NOT IN (SELECT id FROM licenses)"
        )

    def count(self, table: str) -> int:
        """The number of rows in ``licenses`` or ``activations``."""
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608

    def largest_id(self, table: str, most: int) -> int:
        """The largest ID up to ``most`` in ``licenses`` or ``activations``; 0 if there is none."""
        statement = f"SELECT coalesce(max(id), 0) FROM {table} WHERE id <= ?"  # noqa: S608
        return int(self._connection.execute(statement, (most,)).fetchone()[0])

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        pending = self._pending[table]
        pending.append(row)
        if len(pending) >= _MAX_PENDING:
            self._write(table)

    def _write(self, table: str) -> None:
        pending = self._pending[table]
        if pending:
            self._connection.execute("BEGIN")
            self._connection.executemany(_INSERT[table], pending)
            self._connection.execute("COMMIT")
            pending.clear()
