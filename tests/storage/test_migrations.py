"""The schema: the migrations lead to what the code declares, and a database is copied before it changes."""

import logging
import re
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, insert, inspect, select, text

from keywright.core.errors import StoreUnavailable
from keywright.db import Storage, migrations
from keywright.db.migrate import HEAD, read_file_state
from keywright.db.schema import metadata, name_terms
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from tests.makers import KEY, KEY_RING, a_license, a_storage
from tests.server import wait_until

# The package's function of this name hides the module.
MIGRATE = sys.modules["keywright.db.migrate"]
SCRIPTS = Path(next(iter(migrations.__path__)))
#: What a later version could bring: a column and a filled table.
LATER = "9000"
NEXT = f"""\
'''Notes.'''

import sqlalchemy as sa
from alembic import op

revision = "{LATER}"
down_revision = "{HEAD}"


def upgrade() -> None:
    op.add_column("licenses", sa.Column("note", sa.Text))
    op.execute("UPDATE licenses SET note = 'migrated'")
"""  # noqa: S608
BROKEN = f"""{NEXT}
    op.drop_table("no_such_table")
"""


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations up to this revision."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes |= {"connection": connection, "key_ring": KEY_RING}
    command.upgrade(config, revision)


def first_rows_of(connection: Connection) -> list[tuple[object, ...]]:
    """What a new database holds, but for the row about the installation."""
    tables = ("alembic_version", *(name for name in metadata.tables if name != "installation"))
    return sorted(
        (name, *row)
        for name in tables
        for row in connection.execute(text(f"SELECT * FROM {name}"))  # noqa: S608
    )


@pytest.fixture
def migrated(tmp_path: Path) -> Iterator[Engine]:
    """A database that all migrations have made."""
    engine = create_engine(f"sqlite:///{tmp_path}/migrated.db")
    with engine.begin() as connection:
        upgrade(connection)
    yield engine
    engine.dispose()


@pytest.fixture
def declared(tmp_path: Path) -> Iterator[Engine]:
    """A database as a first start makes it, from the declarations of the tables."""
    a_storage(tmp_path).close()
    engine = create_engine(f"sqlite:///{tmp_path}/keywright.db")
    yield engine
    engine.dispose()


def statements_of(engine: Engine) -> dict[str, str]:
    """The schema as SQLite keeps it, by name, without white space that says nothing."""
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {row.name: "".join(row.sql.split()).replace("IFNOTEXISTS", "") for row in found}


def parts_of(statement: str) -> list[str]:
    """The parts of a CREATE TABLE; its constraints, unlike its columns, may stand in any order."""
    start, _, rest = statement.partition("(")
    body, _, end = rest.rpartition(")")
    return [start, end, *sorted(body.split(","))]


def test_the_migrations_make_what_the_schema_declares(migrated: Engine, declared: Engine) -> None:
    by_migration, by_declaration = statements_of(migrated), statements_of(declared)
    assert {name: parts_of(sql) for name, sql in by_migration.items()} == {
        name: parts_of(sql) for name, sql in by_declaration.items()
    }


def test_alembic_finds_no_difference_either(migrated: Engine) -> None:
    with migrated.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_the_tables_have_their_columns_in_the_same_order(migrated: Engine, declared: Engine) -> None:
    orders = [
        {
            table: [column["name"] for column in inspect(engine).get_columns(table)]
            for table in metadata.tables
        }
        for engine in (migrated, declared)
    ]
    assert orders[0] == orders[1]


def test_a_first_start_makes_the_rows_that_the_migrations_make(migrated: Engine, declared: Engine) -> None:
    with migrated.connect() as first, declared.connect() as second:
        assert first_rows_of(first) == first_rows_of(second)


def test_head_is_the_newest_revision_and_there_is_one_line_of_them() -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_every_table_of_the_activation_path_leads_with_the_license() -> None:
    for name in ("licenses", "activations"):
        primary_key = [column.name for column in metadata.tables[name].primary_key]
        assert primary_key[0] == ("id" if name == "licenses" else "license_id")


def use_scripts(folder: Path, later: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the newest revision is this one, after those that there are."""
    shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "9000_later.py").write_text(later)
    monkeypatch.setattr(MIGRATE, "_SCRIPTS", str(folder))
    monkeypatch.setattr(MIGRATE, "HEAD", LATER)


@pytest.fixture
def sold(tmp_path: Path) -> Path:
    """A folder with a database of this version that holds a license, not all of it moved out of the log."""
    folder = tmp_path / "data"
    storage = a_storage(folder)
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    storage.close()
    return folder


def licenses_of(storage: Storage) -> list[str]:
    with closing(storage), storage.read() as tx:
        return [one.key for one in license_store.list_licenses(tx, LicenseFilter(), after_id=0, limit=9)]


def test_a_migration_changes_an_existing_database_and_keeps_what_is_in_it(
    sold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
    assert licenses_of(a_storage(sold)) == [KEY]
    assert read_file_state(sold / "keywright.db").revision == LATER
    with closing(sqlite3.connect(sold / "keywright.db")) as connection:
        assert connection.execute("SELECT note FROM licenses").fetchall() == [("migrated",)]


def test_a_database_is_copied_before_a_migration_changes_it(
    sold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
    a_storage(sold).close()
    (copy,) = (sold / "backups").iterdir()
    assert copy.name.startswith(f"keywright-schema-{HEAD}-")
    assert copy.suffix == ".db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    assert read_file_state(copy).revision == HEAD
    monkeypatch.undo()
    restored = tmp_path / "restored"
    restored.mkdir()
    shutil.copy(copy, restored / "keywright.db")
    assert licenses_of(a_storage(restored)) == [KEY]


def test_the_copy_has_also_what_still_stands_in_the_log(
    sold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = a_storage(sold)
    with closing(running):
        with running.write() as tx:
            license_store.save_new_licenses(tx, [a_license(id=2, key="in the log")])
        use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
        a_storage(sold).close()
    (copy,) = (sold / "backups").iterdir()
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM licenses").fetchone() == (2,)


def test_an_attempt_that_was_broken_off_leaves_no_other_copy_and_no_part_of_one(
    sold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scripts(tmp_path / "scripts", BROKEN, monkeypatch)
    folder = sold / "backups"
    folder.mkdir()
    left = [folder / f".keywright.db.copy{end}" for end in ("", "-journal")]
    for one in left:
        one.write_bytes(b"part of a copy")
    found = []
    for number in range(3):
        with pytest.raises(StoreUnavailable):
            a_storage(sold)
        found.append(sorted(folder.iterdir()))
        if number == 1:
            # A server of the version before was started in between, and has sold.
            with closing(sqlite3.connect(sold / "keywright.db")) as connection:
                connection.execute("UPDATE licenses SET order_id = 7")
                connection.commit()
            wait_for_another_second()
    assert found[0] == found[1]
    assert len(found[1]) == 1
    assert len(found[2]) == 2
    assert not any(one.exists() for one in left)
    assert {read_file_state(one).revision for one in found[2]} == {HEAD}


def wait_for_another_second() -> None:
    """The names of copies have whole seconds."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, "the next second")


def test_the_last_two_copies_are_kept_and_the_one_that_was_made_now_is_one_of_them(
    sold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
    folder = sold / "backups"
    folder.mkdir()
    stamps = ("20250101T000000Z", "20250201T000000Z", "29990101T000000Z")
    # The last of them was made while the clock was ahead.
    others = [folder / f"keywright-schema-000{n}-{stamp}.db" for n, stamp in enumerate(stamps, 1)]
    kept = [folder / "keywright-schema-0001.db", folder / "keywright-20250101-000000.tar"]
    for one in (*others, *kept):
        one.write_bytes(b"")
    a_storage(sold).close()
    (made,) = {*folder.iterdir()} - {*others, *kept}
    assert read_file_state(made).revision == HEAD
    assert {*folder.iterdir()} == {made, others[2], *kept}


def test_the_log_says_what_is_pending_how_large_it_is_and_how_long_it_took(
    sold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
    caplog.set_level(logging.INFO, "keywright")
    a_storage(sold).close()
    (copy,) = (sold / "backups").iterdir()
    path = re.escape(str(sold / "keywright.db"))
    wanted = (
        rf"saved a copy before the migration: {re.escape(str(copy))} \(\d+\.\d s\)",
        rf"migrating {path} \(\d+ kB\) from schema {HEAD}: {LATER} \(Notes\.\)",
        rf"migrated {path} to schema {LATER} in \d+\.\d s",
    )
    for pattern, message in zip(wanted, caplog.messages, strict=True):
        assert re.fullmatch(pattern, message), message


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    sold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scripts(tmp_path / "scripts", BROKEN, monkeypatch)
    with pytest.raises(StoreUnavailable, match="no_such_table"):
        a_storage(sold)
    monkeypatch.undo()
    assert read_file_state(sold / "keywright.db").revision == HEAD
    assert licenses_of(a_storage(sold)) == [KEY]


def test_a_database_that_is_up_to_date_is_neither_copied_nor_changed(sold: Path) -> None:
    before = (sold / "keywright.db").read_bytes()
    a_storage(sold).close()
    assert (sold / "keywright.db").read_bytes() == before
    assert not (sold / "backups").exists()


def test_terms_of_names_are_folded_as_they_are_typed(migrated: Engine) -> None:
    revision = import_module("keywright.db.migrations.versions.0030_beginnings_of_keys")
    old = [("cłukasz", 1), ("clukasz", 2), ("cłukasz", 2), ("cfoo", 3), ("c" + 23 * "a" + "æ", 4)]
    with migrated.begin() as connection:
        for term, number in old:
            connection.execute(insert(name_terms).values(term=term, number=number))
        with Operations.context(MigrationContext.configure(connection)):
            revision._fold_terms()
        found = connection.execute(select(name_terms.c.term, name_terms.c.number)).all()
    expected = [("clukasz", 1), ("clukasz", 2), ("cfoo", 3), ("c" + 23 * "a" + "a", 4)]
    assert sorted(map(tuple, found)) == sorted(expected)
