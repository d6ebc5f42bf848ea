"""A database of the last version before the first release, on SQLite and on PostgreSQL."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from keywright.db import database_path

_SQL = Path(__file__).with_name("schema-0007.sql")
#: The words of SQLite, and those of PostgreSQL.
_WORDS = (
    (
        r"(CREATE TABLE (\w+) \(id) INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT",
        r"\1 BIGSERIAL CONSTRAINT pk_\2 PRIMARY KEY",
    ),
    (r"\bid INTEGER", "id BIGINT"),
    (r"((?:limit_refusals \(license|second_factors \(user)_id) BIGINT", r"\1 BIGSERIAL"),
    (r"\(license_id INTEGER", "(license_id BIGINT"),
    (r"\bBLOB\b", "BYTEA"),
    (r"\bX'", r"'\\x"),
    (r"\(term VARCHAR\(300\)", r'\g<0> COLLATE "C"'),
    (r"\s+WITHOUT\s+ROWID", ""),
)
_NUMBERS = """
CREATE SEQUENCE license_numbers;
CREATE SEQUENCE activation_numbers;
SELECT setval('license_numbers', 2), setval('activation_numbers', 3);
"""
_GO_ON = "SELECT setval('{0}_id_seq', max(id)) FROM {0};"


def make(url: str) -> None:
    """Make it in the empty database that the URL names."""
    sql, path = _SQL.read_text(encoding="utf-8"), database_path(url)
    if path is not None:
        path.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(sql)
        return
    for words, others in _WORDS:
        sql = re.sub(words, others, sql)
    sql += _NUMBERS + "".join(map(_GO_ON.format, ("api_keys", "events", "generators", "jobs", "users")))
    with psycopg.connect(url) as connection:
        connection.execute(sql)
