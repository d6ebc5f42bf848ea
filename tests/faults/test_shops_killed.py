"""Servers are killed, and the database restarts, while a shop sends sales, twice and in disorder: no sale
that was accepted is lost, and none makes two licenses.
"""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import pytest

from keywright.db import open_storage
from keywright.registry import open_executor
from tests.connections import a_body, a_paid_order, connect, do, signed
from tests.faults.installations import KEY_RING, Database, SqliteFile, Store, rounds
from tests.http.asking import Client
from tests.makers import create_policy
from tests.proving import record
from tests.server import RunningServer, running, wait_until
from tools.postgres import PostgresServer

#: A busy machine takes its time for every start.
pytestmark = pytest.mark.timeout(900)

KILLS, RESTARTS, QUANTITY, SENDERS = 5, 1, 2, 4
#: How many units a subscription has in the end.
UNITS = 3
SERVERS = {"sqlite": 1, "postgresql": 2}
_PATH = "/in/generic/1"


class Delivery(NamedTuple):
    """What a shop sends until it is accepted, under one message ID."""

    message_id: str
    body: bytes


class Shop:
    """Sends the sale, the renewal and its refund of many orders, shuffled, and some of them twice, each to
    any of the servers.
    """

    def __init__(self, servers: Sequence[RunningServer]) -> None:
        self._servers = servers
        self._is_over = threading.Event()
        self._threads = [
            # Senders do not end while a server is down: a test that fails leaves them behind.
            threading.Thread(target=self._send_all, args=(one,), daemon=True)
            for one in range(SENDERS)
        ]
        #: The orders of which everything was accepted.
        self.accepted: list[str] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _send_all(self, sender: int) -> None:
        number = 0
        while not self._is_over.is_set():
            number += 1
            order = f"order-{sender}-{number}"
            deliveries = deliveries_of(order)
            deliveries += random.sample(deliveries, 2)
            random.shuffle(deliveries)
            for one in deliveries:
                self._deliver(one)
            self.accepted.append(order)

    def _deliver(self, delivery: Delivery) -> None:
        """Send it until it is accepted, as shops do."""
        while True:
            server = random.choice(self._servers)
            with suppress(OSError, HTTPException), Client(server) as client:
                headers = signed(delivery.body, datetime.now(UTC), delivery.message_id)
                if client.post(_PATH, body=delivery.body, headers=headers).status == 200:
                    return
            time.sleep(0.02)


def deliveries_of(order: str) -> list[Delivery]:
    """A sale for a year, a unit more, a renewal for another year, and the refund of that: the first year is
    left.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    subscription, year = f"sub-{order}", timedelta(days=365)
    renewal = {"subscription": subscription, "until": (now + 2 * year).isoformat(), "order": f"{order}-2"}
    until = (now + year).isoformat()
    more = {"subscription": subscription, "lines": [{"line": "1", "product": "pro", "quantity": UNITS}]}
    bodies = {
        "more": a_body("subscription.changed", now + timedelta(minutes=30), **more),
        "sale": a_paid_order(order, now, QUANTITY, subscription=subscription, until=until),
        "renewal": a_body("subscription.renewed", now + timedelta(hours=1), **renewal),
        "refund": a_body("order.refunded", now + timedelta(hours=2), order=f"{order}-2"),
    }
    return [Delivery(f"{order}-{name}", body) for name, body in bodies.items()]


@pytest.fixture
def store(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    if database == "sqlite":
        store: Store = SqliteFile(tmp_path / "keywright.db")
    else:
        store = Database(request.getfixturevalue("postgres"))
    yield store
    store.assert_sound()


@contextmanager
def selling(store: Store, folder: Path, amount: int = 1) -> Iterator[tuple[list[RunningServer], Shop]]:
    """Servers with a connection, and a shop that sends to them until the end of the block; then everything
    is worked off.
    """
    with closing(open_storage(store.url, KEY_RING)) as storage:
        executor = open_executor(storage)
        do(executor, create_policy())
        connect(executor)
    with ExitStack() as stack:
        folders = [folder / f"data {number}" for number in range(amount)]
        servers = [stack.enter_context(running(one, **store.settings())) for one in folders]
        shop = Shop(servers)
        shop.start()
        yield servers, shop
        shop.finish()
        waiting = "SELECT count(*) FROM shop_events WHERE state = 'waiting'"
        wait_until(lambda: store.sql(waiting) == [(0,)], "the last events")


def judge(store: Store, shop: Shop, part: str, faults: dict[str, int]) -> None:
    """Every accepted order has its licenses, each once, with the expiry that was paid for, and one mail."""
    sold = store.sql("SELECT order_ref, count(*), count(DISTINCT license_id) FROM sold_licenses GROUP BY 1")
    licenses = {order: (rows, different) for order, rows, different in sold}
    lost = [one for one in shop.accepted if licenses.get(one, (0, 0))[1] < UNITS]
    ((made,),) = store.sql("SELECT count(*) FROM licenses WHERE policy_id IS NOT NULL")
    doubled = made - sum(different for _, different in licenses.values())
    ((mails,),) = store.sql("SELECT count(*) FROM mail_outbox WHERE template = 'your_license'")
    record(
        "R23",
        part,
        faults | {"orders": len(shop.accepted), "sales lost": len(lost), "licenses doubled": doubled},
    )
    assert len(shop.accepted) > SENDERS
    assert (lost, doubled) == ([], 0)
    assert {rows for rows, _ in licenses.values()} == {UNITS}
    # The keys of a unit that comes after the sale are in a mail of their own.
    assert len(licenses) <= mails <= 2 * len(licenses)
    wrong = store.sql(
        "SELECT count(*) FROM licenses JOIN sold_licenses ON sold_licenses.license_id = licenses.id "
        "JOIN payments ON payments.order_ref = sold_licenses.order_ref "
        "WHERE licenses.expires_at <> payments.until OR licenses.status <> 3"
    )
    assert wrong == [(0,)]
    # A refund that comes before its sale changes nothing yet.
    states = {state for (state,) in store.sql("SELECT DISTINCT state FROM shop_events")}
    assert states <= {"done", "ignored"}


@rounds(20)
def test_no_sale_is_lost_or_doubled_when_servers_are_killed(
    store: Store, database: str, tmp_path: Path, round_number: int
) -> None:
    with selling(store, tmp_path, SERVERS[database]) as (servers, shop):
        for kill in range(KILLS):
            # This is no wait for something: when it happens must have nothing to do with what goes on.
            time.sleep(random.uniform(0.05, 1.0))
            server = servers[kill % len(servers)]
            server.kill()
            server.start(server.port)
        accepted = len(shop.accepted)
        wait_until(lambda: len(shop.accepted) > accepted + SENDERS, "more sales")
    judge(store, shop, f"killed, {database}", {"kills": KILLS})


@pytest.mark.databases("postgresql")
@rounds(20)
def test_no_sale_is_lost_or_doubled_when_the_database_restarts(
    postgres: PostgresServer, tmp_path: Path, round_number: int
) -> None:
    store = Database(postgres)
    with selling(store, tmp_path) as (_, shop):
        for _ in range(RESTARTS):
            wait_until(lambda: len(shop.accepted) > SENDERS, "sales")
            postgres.kill()
            postgres.start()
        accepted = len(shop.accepted)
        wait_until(lambda: len(shop.accepted) > accepted + SENDERS, "more sales")
    store.assert_sound()
    judge(store, shop, "database restarted", {"restarts": RESTARTS})
