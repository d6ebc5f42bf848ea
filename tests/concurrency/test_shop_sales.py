"""Servers are told of the same sales and refunds at once: nothing is made twice, and none is lost."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, permutations
from pathlib import Path

from keywright.provisioning.shops.model import MappedProduct, QuantityRule
from keywright.registry import open_executor
from tests.concurrency.instances import instances
from tests.connections import a_body, a_paid_order, connect, do, signed
from tests.http.asking import Client, basic
from tests.makers import create_policy
from tests.proving import record, size
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


# --- subscriptions that change --------------------------------------------------------------------

SUBSCRIPTIONS, LIMIT = 8, 2
#: The orders of events of a subscription that are posted.
POSTED = size(40, 1_000)


def changed(subscription: str, at: datetime, product: str, quantity: int) -> bytes:
    lines = [{"line": "1", "product": product, "quantity": quantity}]
    return a_body("subscription.changed", at, subscription=subscription, lines=lines)


def prepare(server: RunningServer) -> None:
    """Policies 1 and 2 of one product; the connection sells the first as keys, and with more devices."""
    with server.storage() as storage:
        executor = open_executor(storage)
        do(executor, create_policy(terms={"max_activations": LIMIT, "grace_days": 3}))
        do(executor, create_policy(name="Max", terms={"max_activations": 5}))
        seats = MappedProduct("seats", 1, quantity=QuantityRule.DEVICES)
        connect(executor, mapping=(MappedProduct("pro", 1), MappedProduct("max", 2), seats))


def batched(changes: list[tuple[str, bytes]]) -> list[list[tuple[str, bytes]]]:
    """The changes, four for each license of a quarter of them."""
    return [changes[number : number + 4] for number in range(0, len(changes), 4)]


def post(server: RunningServer, now: datetime, events: Iterable[tuple[str, bytes]]) -> None:
    with Client(server) as client:
        for name, body in events:
            assert client.post("/in/generic/1", body=body, headers=signed(body, now, name)).status == 200


def wait_for_all(server: RunningServer) -> None:
    waiting = "SELECT count(*) FROM shop_events WHERE state = 'waiting'"
    wait_until(lambda: server.sql(waiting) == [(0,)], "the last event")


def test_shops_hands_and_policies_change_licenses_at_once(database: str, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    names = [f"s{number}" for number in range(SUBSCRIPTIONS)]
    with instances(tmp_path, 4, database) as servers:
        prepare(servers[0])
        lines = [{"line": "1", "product": "seats", "quantity": 3}]
        sales = [(one, a_paid_order(one, now, lines=lines, subscription=one)) for one in names]
        post(servers[0], now, sales)
        wait_for_all(servers[0])
        changes = [
            (f"{one}-{hour}", changed(one, now + timedelta(hours=hour), "seats", hour))
            for one in names
            for hour in (1, 2, 7, 4)
        ]
        random.Random(3).shuffle(changes)
        ids = [number for (number,) in servers[0].sql("SELECT id FROM licenses ORDER BY id")]
        credentials = servers[0].api_key()

        def act(place: int) -> None:
            server = servers[place % len(servers)]
            headers = {"authorization": basic(*credentials), "content-type": "application/json"}
            by_hand = json.dumps({"terms": {"grace_days": 9}}).encode()
            applied = json.dumps({"terms": ["max_activations", "grace_days"]}).encode()
            for number, some in zip(ids[place::4], batched(changes[place::4]), strict=True):
                post(server, now, some[:2])
                # A connection of its own each time: servers close those that are idle for seconds.
                with Client(server) as client:
                    path = f"/v3/licenses/{number}"
                    assert client.ask("PATCH", path, body=by_hand, headers=headers).status == 200
                    reply = client.post("/v3/policies/1/apply", body=applied, headers=headers)
                    assert reply.status in (202, 409)
                post(server, now, some[2:])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(act, range(4)))
        one = servers[0]
        wait_for_all(one)
        wait_until(
            lambda: one.sql("SELECT count(*) FROM jobs WHERE finished_at IS NULL") == [(0,)], "the jobs"
        )
        found = one.sql("SELECT quantity, times_activated_max, terms, rule_terms FROM licenses")
        # Seven hours after the sale, seven seats: what the shop stated last, whichever server received it.
        assert set(found) == {(7, 7 * LIMIT, '{"grace_days":9}', '{"grace_days":3}')}
        assert len(found) == SUBSCRIPTIONS
        one.assert_consistent()


def test_any_order_of_events_over_http_ends_in_the_same_licenses(tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    month, later = timedelta(days=30), timedelta(days=60)
    with instances(tmp_path, 1, "sqlite") as (server,):
        prepare(server)
        orders = list(islice(cycle(permutations(range(5))), POSTED))
        for number, order in enumerate(orders):
            of = f"s{number}"
            events = [
                a_paid_order(of, now, 2, subscription=of, until=(now + month).isoformat()),
                changed(of, now + timedelta(hours=1), "pro", 4),
                changed(of, now + timedelta(hours=2), "max", 3),
                a_body("subscription.renewed", now + month, subscription=of, until=(now + later).isoformat()),
                a_body("subscription.ended", now + 1.5 * month, subscription=of),
            ]
            # Each order of the events, and then one of them again.
            post(server, now, [(f"{of}-{one}-{i}", events[one]) for i, one in enumerate((*order, order[0]))])
        wait_for_all(server)
        found = server.sql(
            "SELECT subscription_ref, licenses.policy_id, licenses.status, times_activated_max, "
            "licenses.expires_at, terms FROM licenses JOIN sold_licenses ON license_id = licenses.id "
            "WHERE is_over = 0"
        )
    ends = defaultdict[str, list[tuple[object, ...]]](list)
    for subscription, *license in found:
        ends[subscription].append(tuple(license))
    until = int((now + later).timestamp())
    assert len(ends) == POSTED
    record("R23", "over HTTP, any order", {"permutations": POSTED})
    assert {tuple(sorted(one, key=str)) for one in ends.values()} == {((2, 3, 5, until, None),) * 3}
