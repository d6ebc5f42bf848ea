"""Specifics of PostgreSQL: creating and opening a database, and its sessions."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine

from keywright.core.errors import (
    StoreConflict,
    StoreError,
    StoreUnavailable,
    TokenNotActive,
)
from keywright.db import Storage, has_database, open_storage
from keywright.db.migrate import HEAD
from keywright.db.schema import metadata
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import store as license_store
from keywright.registry import open_executor
from tests.databases import a_postgres_url, execute, postgres
from tests.makers import (
    KEY,
    KEY_RING,
    TOKEN,
    a_license,
    activate,
    an_activation,
    create,
    validate,
)
from tests.server import wait_until
from tests.storage.test_migrations import (
    BROKEN,
    NEXT,
    first_rows_of,
    licenses_of,
    upgrade,
    use_scripts,
)
from tools.postgres import free_port

pytestmark = [pytest.mark.tier("ordinary"), pytest.mark.of_the_database]

DATABASES = ("postgresql",)
ROOT = Path(__file__).parents[2]

#: Queries for the complete schema in the server's catalog.
CATALOG = (
    """SELECT table_name, column_name, ordinal_position, data_type, character_maximum_length, is_nullable,
              collation_name, column_default, is_identity, identity_generation
       FROM information_schema.columns WHERE table_schema = 'public'""",
    """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
       WHERE connamespace = 'public'::regnamespace""",
    "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    """SELECT sequencename, data_type::text, start_value, increment_by, cycle, cache_size FROM pg_sequences
       WHERE schemaname = 'public'""",
)


@pytest.fixture
def empty_url() -> Iterator[str]:
    """The URL of a database without tables."""
    with a_postgres_url(empty=True) as url:
        yield url


@contextmanager
def an_engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


def schema_of(url: str) -> list[set[tuple[object, ...]]]:
    """The schema, as the catalog describes it."""
    return [set(execute(url, query)) for query in CATALOG]


def contents_of(url: str) -> list[tuple[object, ...]]:
    """The tables in the database, and the contents of Keywright's metadata tables."""
    names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    found = execute(url, names)
    for table in ("alembic_version", "installation"):
        if (table,) in found:
            found += execute(url, f"SELECT * FROM {table}")  # noqa: S608
    return found


# --- the schema -----------------------------------------------------------------------------------


def test_the_migrations_make_what_the_schema_declares(url: str, empty_url: str) -> None:
    with an_engine(empty_url) as engine, engine.begin() as connection:
        upgrade(connection)
    assert schema_of(url) == schema_of(empty_url)
    with an_engine(url) as first, an_engine(empty_url) as second:
        assert first_rows_of(first.connect()) == first_rows_of(second.connect())


def test_alembic_finds_no_difference_either(empty_url: str) -> None:
    with an_engine(empty_url) as engine, engine.begin() as connection:
        upgrade(connection)
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


MIGRATE = """
import sys
from keywright.db import open_storage
from tests.makers import KEY_RING
print("ready", flush=True)
sys.stdin.readline()
open_storage(sys.argv[1], KEY_RING).close()
print("open", flush=True)
"""


def test_of_many_processes_that_make_the_tables_at_once_one_does_it(empty_url: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, empty_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(6)
    ]
    for one in processes:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in processes:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    assert [one.communicate(timeout=60)[0] for one in processes] == ["open\n"] * 6
    assert execute(empty_url, "SELECT version_num FROM alembic_version") == [(HEAD,)]
    assert execute(empty_url, "SELECT id, secret_id FROM installation") == [(1, KEY_RING.secret_id)]


def test_a_migration_changes_an_existing_database_and_keeps_what_is_in_it(
    url: str, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    storage.close()
    use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
    assert licenses_of(open_storage(url, KEY_RING)) == [KEY]
    assert execute(url, "SELECT note FROM licenses") == [("migrated",)]
    assert execute(url, "SELECT version_num FROM alembic_version") == [("9000",)]


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (schema_of(url), contents_of(url))
    use_scripts(tmp_path / "scripts", BROKEN, monkeypatch)
    with pytest.raises(StoreError, match="no_such_table"):
        open_storage(url, KEY_RING)
    assert (schema_of(url), contents_of(url)) == before


WAITING = """SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
             AND wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE alembic_version%'"""


def test_who_comes_during_a_long_migration_waits_for_its_end(url: str) -> None:
    with ThreadPoolExecutor(1) as thread:
        with closing(psycopg.connect(url)) as migrating:
            migrating.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
            coming = thread.submit(open_storage, url, KEY_RING)
            # By then, its first check has failed twice to get the lock.
            wait_until(lambda: execute(url, WAITING), "the other instance to wait for the lock")
            assert not coming.done()
            migrating.rollback()
        coming.result().close()


def test_a_first_start_that_fails_leaves_nothing(empty_url: str) -> None:
    execute(empty_url, "CREATE SEQUENCE customer_id_seq")
    with pytest.raises(StoreError, match=r"cannot be created.*customer_id_seq"):
        open_storage(empty_url, KEY_RING)
    assert contents_of(empty_url) == []
    assert not has_database(empty_url)


# --- which databases are opened -------------------------------------------------------------------


@contextmanager
def a_role(url: str) -> Iterator[str]:
    """The URL with a role that may use the database, but not create tables in it."""
    name = f"guest_{url.rpartition('/')[2]}"
    execute(url, f"CREATE ROLE {name} LOGIN")
    try:
        yield url.replace("keywright@", f"{name}@")
    finally:
        execute(url, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_a_role_that_may_not_make_tables_is_told_what_it_needs(empty_url: str) -> None:
    with a_role(empty_url) as url:
        with pytest.raises(StoreError, match="needs permission to create tables"):
            open_storage(url, KEY_RING)
        assert contents_of(empty_url) == []


def test_a_role_that_may_only_read_and_write_can_use_a_database_that_is_up_to_date(url: str) -> None:
    with a_role(url) as guest:
        role = guest.partition("://")[2].partition("@")[0]
        execute(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
        execute(url, f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}")
        with closing(open_storage(guest, KEY_RING)) as storage:
            outcomes = open_executor(storage).execute([create(), activate()])
            assert [type(one) for one in outcomes] == [LicenseRecord, LicenseRecord]


def test_a_role_without_rights_is_told_so(url: str) -> None:
    with a_role(url) as guest, pytest.raises(StoreError, match="permission denied"):
        open_storage(guest, KEY_RING)


def test_a_database_may_hold_other_programs_tables_beside_ours(empty_url: str) -> None:
    execute(empty_url, "CREATE TABLE recipes (name TEXT)")
    open_storage(empty_url, KEY_RING).close()
    open_storage(empty_url, KEY_RING).close()


def test_a_database_is_there_when_it_has_tables(url: str, empty_url: str) -> None:
    assert has_database(url)
    assert not has_database(empty_url)


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="refused"):
        open_storage(f"postgresql://alice:secret@127.0.0.1:{free_port()}/db", KEY_RING)


def test_a_database_that_is_not_there_is_unavailable_without_its_password_being_told() -> None:
    url = postgres().url("no_such_database").replace("keywright@", "keywright:the-password@")
    with pytest.raises(StoreUnavailable, match="does not exist") as refused:
        open_storage(url, KEY_RING)
    assert "the-password" not in str(refused.value)


# --- its sessions ---------------------------------------------------------------------------------


def show_setting(storage: Storage, name: str) -> str:
    """Show a setting of the writing session."""
    with storage.write() as tx:
        return str(tx.connection.exec_driver_sql(f"SHOW {name}").scalar_one())


@pytest.mark.parametrize(
    ("default", "in_force"),
    [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
def test_what_is_acknowledged_is_durable_whatever_the_servers_default(
    url: str, default: str, in_force: str
) -> None:
    execute(url, f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = {default}")
    with closing(open_storage(url, KEY_RING)) as storage:
        assert show_setting(storage, "synchronous_commit") == in_force


def test_nothing_is_waited_for_or_held_for_ever(storage: Storage) -> None:
    for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
        assert show_setting(storage, name) not in ("0", "")


def test_a_reader_cannot_write(storage: Storage) -> None:
    with pytest.raises(StoreConflict, match="read-only"), storage.read() as tx:
        tx.connection.exec_driver_sql("UPDATE sequences SET last_id = 99")


def end_sessions(url: str) -> int:
    """Let the server terminate all sessions; return their number."""
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    return len(execute(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))  # noqa: S608


def test_connections_that_the_server_closed_are_made_again_unnoticed(
    url: str, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    executor = open_executor(storage)
    executor.execute([create()])
    for number in (1, 2, 3):
        executor.query([validate()])
        assert end_sessions(url) >= 2
        assert executor.query([validate()])[0].license.times_activated == number - 1
        (outcome,) = executor.execute([activate()])
        assert outcome.license.times_activated == number
    assert caplog.records == []


def test_a_connection_that_the_server_closes_within_a_transaction_is_a_conflict_and_leaves_nothing(
    url: str, storage: Storage
) -> None:
    def write_and_be_cut_off() -> None:
        with storage.write() as tx:
            license_store.save_new_licenses(tx, [a_license()])
            end_sessions(url)
            license_store.find_licenses(tx, [KEY])

    with pytest.raises(StoreConflict, match="terminating connection"):
        write_and_be_cut_off()
    with storage.read() as tx:
        assert license_store.find_licenses(tx, [KEY]) == {}


@pytest.mark.parametrize("token", ["\0", f"{TOKEN}\0", f"\0{TOKEN}", f"{TOKEN[:20]}\0{TOKEN[20:]}"])
def test_a_token_that_no_database_can_hold_is_nobodys(storage: Storage, token: str) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(times_activated=1)])
        activation_store.save_new_activations(tx, [an_activation()])
        assert activation_store.find_activations(tx, [(1, token)]) == []
    executor = open_executor(storage)
    assert isinstance(executor.query([validate(token=token)])[0], TokenNotActive)
    answers = executor.query([validate(token=token), validate(token=TOKEN)])
    assert [type(one) for one in answers] == [TokenNotActive, LicenseRecord]


def test_a_database_can_be_named_by_its_socket_too(url: str) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    by_socket = (
        f"postgresql:///{parts['dbname']}?host={postgres().folder}&port={parts['port']}&user=keywright"
    )
    with closing(open_storage(by_socket, KEY_RING)) as storage:
        assert isinstance(open_executor(storage).execute([create()])[0], LicenseRecord)
