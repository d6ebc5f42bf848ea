"""The proxy does what the tests of faults rely on."""

import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import psycopg
import pytest

from tests.databases import execute
from tests.faults.proxy import CHANGES, Place, Proxy
from tools.postgres import PostgresServer


@pytest.fixture(autouse=True)
def table(postgres: PostgresServer) -> Iterator[None]:
    execute(postgres.url("postgres"), "CREATE TABLE numbers (number bigint)")
    yield
    execute(postgres.url("postgres"), "DROP TABLE numbers")


def connect(postgres: PostgresServer, proxy: Proxy, **options: str) -> psycopg.Connection:
    return psycopg.connect(postgres.url("postgres", port=proxy.port), **options)  # type: ignore[arg-type]


def insert(connection: psycopg.Connection, number: int) -> None:
    """A transaction of its own."""
    connection.execute("INSERT INTO numbers VALUES (%s)", [number])
    connection.commit()


def numbers(postgres: PostgresServer) -> list[int]:
    rows = execute(postgres.url("postgres"), "SELECT number FROM numbers ORDER BY number")
    return [number for (number,) in rows]


def test_without_a_cut_nothing_is_lost(postgres: PostgresServer, proxy: Proxy) -> None:
    with closing(connect(postgres, proxy)) as connection:
        for number in range(50):
            insert(connection, number)
        big = connection.execute("SELECT repeat('x', 1000000), %s::text", ["y" * 1_000_000]).fetchone()
    assert big == ("x" * 1_000_000, "y" * 1_000_000)
    assert (numbers(postgres), proxy.cuts) == (list(range(50)), [])


@pytest.mark.parametrize("place", CHANGES)
def test_a_connection_is_cut_where_it_should_be(postgres: PostgresServer, proxy: Proxy, place: Place) -> None:
    with closing(connect(postgres, proxy)) as connection:
        insert(connection, 1)
        proxy.arm(place)
        with pytest.raises(psycopg.OperationalError):
            insert(connection, 2)
        assert connection.closed
    assert numbers(postgres) == [1, 2] if place.is_committed else [1]
    assert proxy.cuts == [place]
    with closing(connect(postgres, proxy)) as connection:
        insert(connection, 3)
    assert 3 in numbers(postgres)


def test_a_transaction_that_only_reads_has_a_place_of_its_own(postgres: PostgresServer, proxy: Proxy) -> None:
    with closing(connect(postgres, proxy)) as connection:
        connection.read_only = True
        proxy.arm(Place.BEFORE)
        connection.execute("SELECT 1")
        connection.commit()
        assert proxy.cuts == []
        proxy.arm(Place.QUESTION)
        connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert proxy.cuts == [Place.QUESTION]


def test_who_takes_a_cut_commit_for_done_is_wrong_half_of_the_time(
    postgres: PostgresServer, proxy: Proxy
) -> None:
    for number in range(20):
        with closing(connect(postgres, proxy)) as connection:
            proxy.arm(Place.AFTER if number % 2 else Place.BEFORE)
            with suppress(psycopg.OperationalError):
                insert(connection, number)
    assert numbers(postgres) == [number for number in range(20) if number % 2]


def test_a_black_hole_keeps_connections_and_passes_nothing_on(postgres: PostgresServer, proxy: Proxy) -> None:
    with closing(connect(postgres, proxy)) as connection:
        insert(connection, 1)
        proxy.blackhole()
        late = threading.Thread(target=insert, args=[connection, 2])
        late.start()
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            connect(postgres, proxy, connect_timeout="2")
        assert late.is_alive()
        assert numbers(postgres) == [1]
        proxy.resume()
        late.join(10)
        assert numbers(postgres) == [1, 2]


def test_a_frozen_connection_does_not_hinder_a_new_one(postgres: PostgresServer, proxy: Proxy) -> None:
    with closing(connect(postgres, proxy)) as old:
        proxy.freeze()
        late = threading.Thread(target=insert, args=[old, 2])
        late.start()
        with closing(connect(postgres, proxy)) as new:
            insert(new, 1)
        assert numbers(postgres) == [1]
        proxy.resume()
        late.join(10)
    assert numbers(postgres) == [1, 2]


def test_a_connection_is_frozen_at_the_first_message_of_a_kind(
    postgres: PostgresServer, proxy: Proxy
) -> None:
    with closing(connect(postgres, proxy)) as connection:
        proxy.freezing_at = b"P"
        connection.execute("SELECT 1")
        late = threading.Thread(target=insert, args=[connection, 1])
        late.start()
        with closing(connect(postgres, proxy)) as other:
            assert other.execute("SELECT 1").fetchall() == [(1,)]
        assert (late.is_alive(), numbers(postgres)) == (True, [])
        proxy.resume()
        late.join(10)
    assert numbers(postgres) == [1]


def test_who_is_refused_comes_in_later_at_the_same_port(postgres: PostgresServer, proxy: Proxy) -> None:
    with closing(connect(postgres, proxy)) as connection:
        proxy.refuse()
        with pytest.raises(psycopg.OperationalError):
            insert(connection, 1)
    with pytest.raises(psycopg.OperationalError, match="refused"):
        connect(postgres, proxy)
    proxy.accept()
    with closing(connect(postgres, proxy)) as connection:
        insert(connection, 2)
    assert numbers(postgres) == [2]
