"""``keywright import lmfwc --mysql``: a shop moves in from its database, without a file between."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from keywright.core.errors import SourceUnusable
from keywright_converter.mysql import MysqlDatabase
from tests.cli.conftest import Done, run
from tests.mysql import DATABASE, PASSWORD, USER, MariaDb, a_mariadb
from tests.shop import DEFUSE, DUMP, SECRET, a_row, an_activation_row, write_dump
from tools.postgres import free_port

SECRETS = ("--defuse", str(DEFUSE), "--secret", str(SECRET))
NEEDS_MARIADB = pytest.mark.tier("rest")


def write_names(folder: Path) -> Path:
    """The dump of WordPress's own tables."""
    return write_dump(
        folder / "names.sql",
        posts=[
            {"ID": 10, "post_title": "PhotoDesk", "post_type": "product"},
            {"ID": 11, "post_type": "page"},
        ],
        users=[{"ID": 1, "user_login": "alice", "display_name": "Alice é☂"}],
    )


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    folder = tmp_path_factory.mktemp("m")
    of_dlm = write_dump(
        folder / "dlm.sql",
        dlm_licenses=[a_row(1, "DLM-0001", activations_limit=2)],
        dlm_license_activations=[an_activation_row(1, 1)],
    )
    with a_mariadb(folder, [DUMP, write_names(folder), of_dlm]) as server:
        yield server


def bring(data_dir: Path, *source: str, **variables: str) -> Done:
    place = ("--data-dir", str(data_dir))
    if not data_dir.exists():
        assert run("init", *place).status == 0
    return run("import", "lmfwc", *source, *SECRETS, *place, **variables)


def brought(data_dir: Path) -> str:
    options = ("--format", "jsonl", "--with-activations", "--data-dir", str(data_dir))
    done = run("export", "licenses", *options)
    assert done.status == 0, done.err
    return done.out


def without_lines(report: str) -> str:
    return re.sub(r"line \d+, ", "", report)


@NEEDS_MARIADB
def test_a_database_brings_the_same_as_its_dump(mariadb: MariaDb, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    for dry in (["--dry-run"], []):
        done = bring(tmp_path / "a", "--mysql", mariadb.url(), "--mysql-password", str(password), *dry)
        assert done.status == 0, done.err
    dump = tmp_path / "whole.sql"
    dump.write_text(DUMP.read_text() + write_names(tmp_path).read_text())
    assert without_lines(bring(tmp_path / "b", str(dump)).out) == done.out
    assert brought(tmp_path / "a") == brought(tmp_path / "b")
    assert brought(tmp_path / "a").count("\n") == 22


@NEEDS_MARIADB
def test_digital_license_manager_is_read_from_its_database_too(mariadb: MariaDb, tmp_path: Path) -> None:
    place = ("--data-dir", str(tmp_path / "a"))
    assert run("init", *place).status == 0
    source = ("--mysql", mariadb.url(), *SECRETS, *place)
    done = run("import", "dlm", *source, DLM_MYSQL_PASSWORD=PASSWORD)
    assert done.status == 0, done.err
    assert "DLM-0001" in brought(tmp_path / "a")


@NEEDS_MARIADB
def test_of_the_shop_itself_only_names_are_read(mariadb: MariaDb) -> None:
    rows = MysqlDatabase(mariadb.url(), PASSWORD).rows(lambda table: table in ("wp_posts", "wp_users"))
    assert [list(one.values.values()) for one in rows] == [
        ["10", "PhotoDesk", "product"],
        ["1", "alice", "Alice é☂"],
    ]


@NEEDS_MARIADB
def test_all_tables_are_read_as_they_were_at_one_moment(tmp_path: Path) -> None:
    with a_mariadb(tmp_path) as server:
        database = MysqlDatabase(server.url(), PASSWORD)
        before = list(database.rows(lambda table: "lmfwc" in table))
        reading = database.rows(lambda table: "lmfwc" in table)
        first = next(reading)
        server.execute("DELETE FROM wp_lmfwc_licenses; COMMIT", DATABASE)
        assert [first, *reading] == before
        assert len(list(database.rows(lambda table: "lmfwc" in table))) < len(before)


@NEEDS_MARIADB
def test_a_password_is_neither_shown_nor_logged(mariadb: MariaDb, tmp_path: Path) -> None:
    wrong = "wrong-CANARY"
    in_url = mariadb.url(f"{USER}:{quote(wrong, safe='')}")
    refused = [
        bring(tmp_path / "a", "--mysql", in_url, KEYWRIGHT_DEBUG="1"),
        bring(tmp_path / "a", "--mysql", mariadb.url(), LMFWC_MYSQL_PASSWORD=wrong, KEYWRIGHT_DEBUG="1"),
    ]
    for done in refused:
        assert done.status == 1
        assert "the database shop at 127.0.0.1 cannot be read: Access denied for user" in done.err
        assert "CANARY" not in done.out + done.err
    right = mariadb.url(f"{USER}:{quote(PASSWORD, safe='')}")
    assert bring(tmp_path / "a", "--mysql", right, "--dry-run").status == 0


@pytest.mark.parametrize(
    "url",
    [
        "shop",
        "mysql://host/shop",
        "mysql://user:CANARY@host",
        "mysql://user:CANARY@host:port/shop",
        "mysql://user:CANARY/1@host/shop",
        "mysql://user:CANARY@host/shop?password=CANARY",
        "postgresql://user:CANARY@host/shop",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SourceUnusable, match="mysql://user@host/database") as refused:
        MysqlDatabase(url)
    assert "CANARY" not in str(refused.value)


def test_a_server_that_is_not_there_is_said_in_a_sentence() -> None:
    database = MysqlDatabase(f"mysql://user@127.0.0.1:{free_port()}/shop")
    with pytest.raises(SourceUnusable, match="cannot be read: Can't connect"):
        list(database.rows(lambda _: True))


def test_without_the_driver_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "pymysql.py").write_text("raise ImportError")
    done = bring(tmp_path / "data", "--mysql", "mysql://user@localhost/shop", PYTHONPATH=str(tmp_path))
    assert done.status == 1
    assert "-m pip install pymysql" in done.err
