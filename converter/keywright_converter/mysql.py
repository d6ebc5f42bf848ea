"""Read a snapshot of a shop's tables from its MySQL or MariaDB server.

The driver, PyMySQL, is an optional dependency: most shops provide a dump.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from keywright.core.errors import SourceUnusable
from keywright_converter.mysqldump import Row

#: The queries for WordPress's own tables: only names, no texts, passwords or addresses.
_PARTS = {
    "posts": "ID, post_title, post_type FROM {} WHERE post_type IN ('product', 'product_variation')",
    "users": "ID, user_login, display_name FROM {}",
    "wc_customer_lookup": "user_id, first_name, last_name FROM {}",
}
#: Use UTC, as mysqldump does, and read one snapshot.
_SETUP = (
    "SET time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)
_PORT = 3306
#: The timeouts for connecting and for reading, in seconds.
_CONNECT_TIMEOUT, _TIMEOUT = 10, 120
_UNUSABLE = (
    "--mysql is not a database URL. Write mysql://user@host/database; in a name or a password, "
    "percent-encode special characters: @ as %40, / as %2F, % as %25."
)


class MysqlDatabase:
    """The tables of one database."""

    def __init__(self, url: str, password: str | None = None) -> None:
        """``password`` is for a URL without one. Raises ``SourceUnusable``; its text contains neither."""
        try:
            parts = urlsplit(url)
            options = parse_qs(parts.query, strict_parsing=bool(parts.query))
            port = parts.port or _PORT
        except ValueError:
            raise SourceUnusable(_UNUSABLE) from None
        database = unquote(parts.path.removeprefix("/"))
        is_known = options.keys() <= {"socket", "ssl_ca"}
        if parts.scheme not in ("mysql", "mariadb") or not database or not parts.username or not is_known:
            raise SourceUnusable(_UNUSABLE)
        self._arguments: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": port,
            "user": unquote(parts.username),
            "password": unquote(parts.password) if parts.password is not None else password or "",
            "database": database,
        }
        if "socket" in options:
            self._arguments["unix_socket"] = options["socket"][0]
        if "ssl_ca" in options:
            self._arguments |= {"ssl_ca": options["ssl_ca"][0], "ssl_verify_identity": True}
        #: The name of the database, for messages.
        self.name = f"the database {database} at {self._arguments['host']}"

    def rows(self, is_wanted: Callable[[str], bool]) -> Iterator[Row]:
        """Yield the rows of the wanted tables, by table, with line 0. Raises ``SourceUnusable``."""
        try:
            driver = importlib.import_module("pymysql")
            cursors = importlib.import_module("pymysql.cursors")
        except ImportError:
            raise SourceUnusable(
                f"--mysql needs the driver PyMySQL: {sys.executable} -m pip install pymysql"
            ) from None
        try:
            with closing(self._connect(driver, cursors.SSCursor)) as connection:
                yield from _read(connection, is_wanted)
        except (driver.MySQLError, OSError, RuntimeError) as problem:
            # A traceback would show the arguments of the connection.
            text = str(problem.args[-1]) if problem.args else type(problem).__name__
            raise SourceUnusable(f"{self.name} cannot be read: {text}. Nothing was imported.") from None

    def _connect(self, driver: Any, cursor_class: Any) -> Any:
        # Without decoders, values are the bytes of their text form, as in a dump.
        return driver.connect(
            **self._arguments,
            charset="utf8mb4",
            use_unicode=False,
            conv=driver.converters.encoders,
            cursorclass=cursor_class,
            connect_timeout=_CONNECT_TIMEOUT,
            read_timeout=_TIMEOUT,
        )


def _read(connection: Any, is_wanted: Callable[[str], bool]) -> Iterator[Row]:
    with connection.cursor() as cursor:
        for statement in _SETUP:
            cursor.execute(statement)
        cursor.execute("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")
        tables = sorted(name.decode() for name, _ in cursor.fetchall())
        # The first pass finds the prefix of the plugin's tables, which determines WordPress's own tables.
        for table in tables:
            is_wanted(table)
        for table in filter(is_wanted, tables):
            cursor.execute(_select(table))
            columns = [one[0] for one in cursor.description]
            for values in iter(cursor.fetchone, None):
                texts = [None if one is None else one.decode(errors="replace") for one in values]
                yield Row(table, 0, dict(zip(columns, texts, strict=True)))


def _select(table: str) -> str:
    part = next((part for suffix, part in _PARTS.items() if table.endswith(suffix)), "* FROM {}")
    quoted = table.replace("`", "``")
    return "SELECT " + part.format(f"`{quoted}`")
