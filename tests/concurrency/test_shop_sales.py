"""Servers are told of the same sales and refunds at once: nothing is made twice, and none is lost."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from keywright.registry import open_executor
from tests.concurrency.instances import instances
from tests.connections import a_body, a_paid_order, connect, do, signed
from tests.http.asking import Client
from tests.makers import create_policy
from tests.server import RunningServer, wait_until

ORDERS, QUANTITY, TIMES = 20, 3, 3
DISABLED = 5


def test_two_servers_make_each_sale_once(database: str, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    events: list[tuple[str, bytes]] = []
    for number in range(ORDERS):
        events.append((f"paid-{number}", a_paid_order(f"{number}", now, quantity=QUANTITY)))
        if number % 2:
            refund = a_body("order.refunded", now + timedelta(seconds=1), order=f"{number}")
            events.append((f"refunded-{number}", refund))
    calls = events * TIMES
    random.Random(7).shuffle(calls)
    with instances(tmp_path, 2, database) as servers:
        with servers[0].storage() as storage:
            executor = open_executor(storage)
            do(executor, create_policy())
            connect(executor)

        def send(place: int) -> None:
            with Client(servers[place % len(servers)]) as client:
                for name, body in calls[place::8]:
                    reply = client.post("/in/generic/1", body=body, headers=signed(body, now, name))
                    assert reply.status == 200

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(send, range(8)))
        one = servers[0]
        waiting = "SELECT count(*) FROM shop_events WHERE state = 'waiting'"
        wait_until(lambda: one.sql(waiting) == [(0,)], "the last event")
        assert one.count("shop_events") == len(events)
        assert_sold_once(one)
        one.assert_consistent()


def assert_sold_once(server: RunningServer) -> None:
    """Every order that was not refunded has its licenses; one that was has none that can be used."""
    joined = "FROM sold_licenses s JOIN licenses l ON l.id = s.license_id"
    query = f"SELECT s.order_ref, count(*) {joined} WHERE l.status <> ? GROUP BY s.order_ref"
    sold = {str(order): count for order, count in server.sql(query, DISABLED)}
    assert sold == {f"{number}": QUANTITY for number in range(0, ORDERS, 2)}
    most = f"SELECT count(*) {joined} GROUP BY s.order_ref ORDER BY 1 DESC LIMIT 1"
    assert server.sql(most) == [(QUANTITY,)]
    assert server.count("licenses") == server.sql(f"SELECT count(*) {joined}")[0][0]
