"""A connection to a shop in a test's database, whose events are told and worked off."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace
from sqlalchemy import select

from keywright.core.command import Context
from keywright.db import Storage, run_read
from keywright.db.schema import mail_outbox
from keywright.engine.executor import Executor
from keywright.licensing.activations.model import LicensePage, ListLicenses
from keywright.licensing.licenses.model import License, LicenseFilter, Status, order_of
from keywright.provisioning.shops.commands import (
    AddConnection,
    FindSoldLicenses,
    ListShopEvents,
    OpenShopEvent,
    StoreShopEvent,
    WorkShopEvent,
)
from keywright.provisioning.shops.model import (
    Connection,
    EventState,
    MappedProduct,
    OpenedEvent,
    Shop,
    StoredEvent,
)
from keywright.provisioning.shops.payloads import MODULES, find_events, keep_payload, read_payload
from keywright.provisioning.shops.selling import Unfinished
from tests.connections import ask, do
from tests.makers import an_origin, create_policy
from tests.shop_apis import RecordedApi
from tests.shop_events import SECRETS, recorded

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SHOPS = [one for one in Shop if one is not Shop.GENERIC]
#: The product of each shop that is sold once, and the one of subscriptions.
EDITOR = {
    Shop.STRIPE: "price_editor",
    Shop.PADDLE: f"pri_01kw{1:022d}",
    Shop.WOOCOMMERCE: "40",
    Shop.LEMONSQUEEZY: "7",
}
CLOUD = {
    Shop.STRIPE: "prod_cloud",
    Shop.PADDLE: f"pri_01kw{2:022d}",
    Shop.WOOCOMMERCE: "CLOUD",
    Shop.LEMONSQUEEZY: "8",
}


def context() -> Context:
    return Context(NOW, an_origin())


class Scene:
    """A connection to one shop, whose events are told and worked off."""

    def __init__(self, executor: Executor, storage: Storage, shop: Shop, **fields: Any) -> None:
        self.executor, self.storage, self.shop = executor, storage, shop
        self.api, self.has_api_key, self.now = RecordedApi(shop), True, NOW
        do(self.executor, create_policy(name="Editor", terms={"max_activations": 2}))
        do(self.executor, create_policy(name="Cloud", terms={"max_activations": 3}))
        mapping = (MappedProduct(EDITOR[shop], 1), MappedProduct(CLOUD[shop], 2))
        site = "https://shop.example.com" if shop is Shop.WOOCOMMERCE else None
        named: dict[str, Any] = {"name": shop.value, "mapping": mapping, "url": site} | fields
        self.wanted = Connection(id=0, shop=shop, created_at=NOW, updated_at=NOW, **named)
        self.connection = self.wanted
        self.connect()

    def connect(self) -> None:
        """Another connection, to which nothing was told."""
        secret = SECRETS[self.shop]
        add = AddConnection(context=context(), connection=self.wanted, secret=secret, api_key="a key")
        self.connection = do(self.executor, add).connection

    def receive(self, name: str) -> int | None:
        """Keep what the shop sends; None where it is kept already."""
        found = recorded(self.shop, name)
        payload = keep_payload(found.headers, found.body)
        (event_id, event, problem), *_ = find_events(payload, self.connection)
        command = StoreShopEvent(
            context=replace(context(), now=self.now),
            connection_id=self.connection.id,
            event_id=event_id,
            event=event,
            payload=payload,
            next_attempt_at=NOW + timedelta(seconds=30),
            detail=problem,
        )
        row_id: int | None = do(self.executor, command)
        return row_id

    def work(self, row_id: int) -> None:
        """One attempt at a stored event."""
        opened: OpenedEvent = ask(self.executor, OpenShopEvent(event_id=row_id))
        assert opened.payload is not None
        event = read_payload(opened.payload, opened.opened.connection, opened.stored.event_id)
        if event.needs_api and self.has_api_key:
            event = MODULES[self.shop].complete(event, self.api)
        while True:
            found = ask(self.executor, FindSoldLicenses(connection_id=self.connection.id, event=event))
            work = WorkShopEvent(
                context=context(),
                event_id=row_id,
                connection_id=self.connection.id,
                event=event,
                license_ids=found,
            )
            if not isinstance(do(self.executor, work), Unfinished):
                return

    def tell(self, *names: str) -> None:
        """The shop sends these events; each is worked on once."""
        for name in names:
            row_id = self.receive(name)
            if row_id is not None:
                self.work(row_id)

    def settle(self) -> None:
        """Work on what waits for another attempt."""
        for event in reversed(self.events()):
            if event.state is EventState.WAITING:
                self.work(event.id)

    def events(self) -> Sequence[StoredEvent]:
        """What is stored, the newest first."""
        found: Sequence[StoredEvent] = ask(
            self.executor, ListShopEvents(connection_id=self.connection.id)
        ).items
        return found

    def licenses(self) -> list[License]:
        """The licenses that the connection has sold."""
        page: LicensePage = ask(self.executor, ListLicenses(where=LicenseFilter(), page=1, per_page=1_000))
        source = f"{self.shop.value}:{self.connection.id}"
        found = [one.license for one in page.records]
        return [one for one in found if order_of(one).source == source]

    def license(self) -> tuple[Status, datetime | None]:
        """The status and the expiry of all licenses: they are alike."""
        ((status, expires_at),) = {(Status(one.status), one.expires_at) for one in self.licenses()}
        return status, expires_at

    def mails(self) -> list[str]:
        """The templates of the mails that wait."""
        query = select(mail_outbox.c.template).order_by(mail_outbox.c.id)
        return run_read(self.storage, lambda tx: list(tx.connection.execute(query).scalars()))


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
