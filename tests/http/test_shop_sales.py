"""From a shop's bytes to the license, with a running server and a stub of the shop's API."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keywright.core.command import Context
from keywright.licensing.licenses.model import Status
from keywright.provisioning.shops.commands import AddConnection
from keywright.provisioning.shops.model import MappedProduct, OpenedConnection, Shop
from keywright.provisioning.shops.reconciling import list_sold
from keywright.registry import open_executor
from tests.connections import a_connection, do
from tests.http.asking import Client
from tests.http.conftest import assert_clean
from tests.makers import an_origin, create_policy
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.shop_apis import API_KEYS, DOWN, ShopApiStub, running_api
from tests.shop_events import SECRETS, sent
from tests.shop_scene import CLOUD, EDITOR, SHOPS
from tests.storage.test_shop_subscriptions import FIRST_END, SECOND_END, STORIES

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


class World:
    """A server with a connection to each shop, whose API is a stub."""

    def __init__(self, server: RunningServer, stubs: dict[Shop, ShopApiStub]) -> None:
        self.server, self.stubs = server, stubs
        self.opened: dict[Shop, OpenedConnection] = {}
        with server.storage() as storage:
            executor = open_executor(storage)
            do(executor, create_policy(name="Editor", terms={"max_activations": 2}))
            do(executor, create_policy(name="Cloud", terms={"max_activations": 3}))
            for shop, stub in stubs.items():
                mapping = (MappedProduct(EDITOR[shop], 1), MappedProduct(CLOUD[shop], 2))
                connection = a_connection(shop=shop, name=shop.value, mapping=mapping, url=stub.url)
                keys: dict[str, Any] = {"secret": SECRETS[shop], "api_key": API_KEYS[shop]}
                add = AddConnection(context=Context(NOW, an_origin()), connection=connection, **keys)
                self.opened[shop] = do(executor, add)

    def send(self, shop: Shop, *names: str) -> None:
        """Send these events, and wait until each is handled."""
        number = self.opened[shop].connection.id
        for name in names:
            self.post(shop, name)
        waiting = "SELECT count(*) FROM shop_events WHERE connection_id = ? AND state = 'waiting'"
        wait_until(lambda: self.server.sql(waiting, number) == [(0,)], f"the events of {shop.value}")

    def post(self, shop: Shop, name: str) -> None:
        """Send an event."""
        headers, body = sent(shop, name)
        with Client(self.server) as client:
            path = f"/in/{shop.value}/{self.opened[shop].connection.id}"
            reply = client.post(path, body=body, headers=headers)
        assert (reply.status, reply.json) == (200, {"received": True}), name

    def licenses(self, shop: Shop) -> list[tuple[int, int | None, int]]:
        """Status, expiry and limit of the connection's licenses."""
        query = (
            "SELECT l.status, l.expires_at, l.times_activated_max FROM licenses l "
            "JOIN sold_licenses s ON s.license_id = l.id WHERE s.connection_id = ? ORDER BY l.id"
        )
        return [tuple(row) for row in self.server.sql(query, self.opened[shop].connection.id)]


@pytest.fixture
def world(database: str, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        server = stack.enter_context(running(tmp_path / "data", database, **NO_LIMITS))
        stubs: dict[Shop, ShopApiStub] = {}
        for shop in SHOPS:
            stubs[shop] = stack.enter_context(running_api(shop))
        yield World(server, stubs)
        server.assert_consistent()
        assert_clean(server)


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def test_every_shop_sells_extends_suspends_restores_and_takes_back(world: World) -> None:
    for shop in SHOPS:
        story = STORIES[shop]
        world.send(shop, *story.first)
        assert world.licenses(shop) == [(Status.ACTIVE, seconds(FIRST_END), 3)], shop
        world.send(shop, *story.renewal, *story.first)
        assert world.licenses(shop) == [(Status.ACTIVE, seconds(SECOND_END), 3)], shop
        if story.suspended is not None and story.restored is not None:
            world.send(shop, story.suspended)
            assert [status for status, *_ in world.licenses(shop)] == [Status.INACTIVE], shop
            world.send(shop, story.restored)
            assert world.licenses(shop) == [(Status.ACTIVE, seconds(SECOND_END), 3)], shop
        assert story.refund_of_renewal is not None
        world.send(shop, story.refund_of_renewal)
        assert world.licenses(shop) == [(Status.ACTIVE, seconds(FIRST_END), 3)], shop
    mails = world.server.sql("SELECT template, count(*) FROM mail_outbox GROUP BY template ORDER BY template")
    assert dict(mails) == {"your_license": 4, "renewed": 4}


def test_a_sale_waits_while_the_shops_api_is_down(world: World) -> None:
    stub = world.stubs[Shop.STRIPE]
    stub.fault = DOWN
    world.post(Shop.STRIPE, "checkout_paid")
    wait_until(lambda: stub.asked, "a question to the shop")
    waits = "SELECT state, reason FROM shop_events WHERE attempts > 0 AND reason IS NOT NULL"
    wait_until(lambda: world.server.sql(waits) == [("waiting", "shop_unavailable")], "the fault")
    assert world.licenses(Shop.STRIPE) == []
    stub.fault = None
    wait_until(lambda: len(world.licenses(Shop.STRIPE)) == 2, "the next attempt")


def test_what_did_not_arrive_is_brought_in(world: World) -> None:
    shop = Shop.WOOCOMMERCE
    world.send(shop, "order_completed")
    long_ago, context = datetime(2026, 1, 1, tzinfo=UTC), Context(datetime.now(UTC), an_origin())
    with world.server.storage() as storage:
        executor = open_executor(storage)
        stored = [do(executor, one) for one in list_sold(world.opened[shop], long_ago, context)]
        assert [one is None for one in stored] == [True, False, False]
        again = [do(executor, one) for one in list_sold(world.opened[shop], long_ago, context)]
        assert again == [None] * 3
    wait_until(lambda: len(world.licenses(shop)) == 3, "the missing order")
