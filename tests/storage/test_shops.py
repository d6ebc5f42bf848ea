"""Sales of shops: licenses are created once, follow payments in any order, and keep manual changes."""

import base64
import json
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import select

from keywright.core.command import Context
from keywright.core.errors import (
    ConnectionFieldInvalid,
    UnknownConnection,
    UnknownReference,
    UnknownShopEvent,
)
from keywright.db import Storage, run_write
from keywright.db.schema import customers, events, shop_events
from keywright.engine.executor import Executor
from keywright.engine.queue import ClaimItem
from keywright.licensing.licenses.model import DeleteLicense, License, Status, UpdateLicense, order_of
from keywright.maintenance.personal_data import find_customer_data
from keywright.maintenance.tasks import EraseCustomer
from keywright.provisioning.policies.model import UpdatePolicy
from keywright.provisioning.shops import later_store
from keywright.provisioning.shops import store as shop_store
from keywright.provisioning.shops.commands import (
    AddConnection,
    FindShopEventsNaming,
    GetConnection,
    ListShopEvents,
    OpenConnection,
    PostponeShopEvent,
    PurgeShopEvents,
    RemoveConnection,
    ReplayEvents,
    StoreShopEvent,
    TryAgain,
    UpdateConnection,
)
from keywright.provisioning.shops.event_rules import require_usable
from keywright.provisioning.shops.model import (
    Buyer,
    Connection,
    EventState,
    MappedProduct,
    Mode,
    Payload,
    QuantityRule,
    Reason,
    SaleLine,
    SaleState,
    Shop,
    StoredEvent,
)
from keywright.provisioning.shops.store import EVENTS
from tests.connections import (
    BUYER,
    CONTEXT,
    SECRET,
    a_connection,
    a_renewal,
    a_sale,
    a_state,
    an_event,
    ask,
    connect,
    do,
    receive,
    receive_all,
    store,
    work,
)
from tests.makers import NOW, an_origin, create_policy, find_items
from tests.storage.stored import got, list_licenses, mails, set_mapping, try_again

DATABASES = ("sqlite",)

YEAR = timedelta(days=365)
DAY = timedelta(days=1)


def connection(executor: Executor) -> Connection:
    found: Connection = ask(executor, GetConnection(connection_id=1))
    return found


@pytest.fixture
def shop(executor: Executor) -> Executor:
    """Connection 1 sells the product "pro" with policy 1: three activations and no expiry."""
    do(executor, create_policy(terms={"max_activations": 3}))
    connect(executor)
    return executor


def the_license(storage: Storage) -> License:
    (license,) = list_licenses(storage)
    return license


def list_events(executor: Executor, **fields: Any) -> list[StoredEvent]:
    return list(ask(executor, ListShopEvents(**fields)).items)


def unreadable(body: bytes) -> StoreShopEvent:
    fields: dict[str, Any] = {"event": None, "payload": Payload({}, body), "next_attempt_at": NOW}
    return StoreShopEvent(context=CONTEXT, connection_id=1, event_id="unreadable", **fields)


def change(executor: Executor, license: License, **changes: Any) -> None:
    do(executor, UpdateLicense(context=CONTEXT, license=license.id, changes=changes))


# --- sales ----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_sale_makes_a_license_for_its_buyer_and_queues_a_mail(shop: Executor, storage: Storage) -> None:
    outcome = got(shop, a_sale())
    license = the_license(storage)
    assert (outcome.state, outcome.customer_id) == (EventState.DONE, license.customer_id)
    assert (license.status, license.times_activated_max, license.policy_id) == (Status.ACTIVE, 3, 1)
    order = order_of(license)
    assert (order.source, order.id, order.line, order.index) == ("generic:1", "1001", "1", 0)
    with storage.read() as tx:
        assert tx.connection.execute(select(customers.c.email, customers.c.name)).all() == [
            ("ada@example.com", "Ada")
        ]
    assert mails(storage) == ["your_license"]


def test_an_event_that_comes_again_makes_nothing(shop: Executor, storage: Storage) -> None:
    event = an_event(a_sale())
    assert store(shop, event) == 1
    assert store(shop, event) is None
    work(shop, 1)
    assert work(shop, 1) is None
    assert store(shop, event) is None
    assert receive(shop, a_sale()) is not None
    assert len(list_licenses(storage)) == 1
    assert mails(storage) == ["your_license"]


def test_a_customer_is_found_by_the_address_in_any_case(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale("1"))
    receive(shop, a_sale("2", buyer=BUYER.__class__("ADA@example.com")))
    assert len({one.customer_id for one in list_licenses(storage)}) == 1


def test_a_sale_has_the_external_id_of_its_buyer_and_metadata_of_its_licenses(
    shop: Executor, storage: Storage
) -> None:
    def external_ids() -> dict[str, str | None]:
        query = select(customers.c.email, customers.c.external_id)
        return dict(iter(run_write(storage, lambda tx: tx.connection.execute(query).all())))

    changes = {"external_id_name": "user", "metadata_names": ("campaign", "gift", "none")}
    do(shop, UpdateConnection(context=CONTEXT, connection_id=1, changes=changes))
    ada, eve = Buyer("ada@example.com"), Buyer("eve@example.com")
    kept = {"user": "u 7", "campaign": "x" * 300, "gift": True, "other": "y"}
    outcome = got(shop, a_sale("A", buyer=ada, metadata=kept))
    assert (outcome.state, outcome.reason) == (EventState.DONE, None)
    assert external_ids() == {"ada@example.com": "u 7"}
    (license,) = list_licenses(storage)
    assert json.loads(license.metadata or "") == {"shop": {"campaign": "x" * 250, "gift": True}}
    for order, buyer, external_id in (
        ("B", eve, "u 7"),
        ("C", ada, "u 8"),
        ("D", ada, "u 7"),
        ("E", eve, " "),
    ):
        outcome = got(shop, a_sale(order, buyer=buyer, metadata={"user": external_id}))
        is_taken = order in "BC"
        assert outcome.reason is (Reason.EXTERNAL_ID_TAKEN if is_taken else None), order
        assert ("did not get the external_id" in (outcome.detail or "")) is is_taken, order
        assert outcome.state is EventState.DONE
    assert external_ids() == {"ada@example.com": "u 7", "eve@example.com": None}
    assert len(list_licenses(storage)) == 5
    assert list_licenses(storage)[1].metadata is None


@pytest.mark.smoke
@pytest.mark.parametrize(("said", "kept"), [("pt_br", "pt-BR"), ("de", "de"), ("?", None), (None, None)])
def test_a_new_customer_has_the_language_of_the_sale(
    shop: Executor, storage: Storage, said: str | None, kept: str | None
) -> None:
    for order, language in (("1", said), ("2", "ja")):
        event = require_usable(an_event(a_sale(order, buyer=replace(BUYER, language=language))))
        receive(shop, event.change)
    with storage.read() as tx:
        assert list(tx.connection.execute(select(customers.c.language)).scalars()) == [kept]


def test_a_quantity_makes_keys_or_one_license_for_more_devices(shop: Executor, storage: Storage) -> None:
    set_mapping(shop, MappedProduct("pro", 1), MappedProduct("site", 1, QuantityRule.DEVICES))
    lines = (SaleLine("1", ("pro",), 3), SaleLine("2", ("price-9", "site"), 5))
    receive(shop, a_sale(lines=lines))
    assert [one.times_activated_max for one in list_licenses(storage)] == [3, 3, 3, 15]


def test_many_keys_are_made_in_steps_and_too_many_wait_for_a_person(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale("1", quantity=230))
    assert len(list_licenses(storage)) == 230
    assert mails(storage) == ["your_license"]
    outcome = got(shop, a_sale("2", quantity=1_000_000))
    assert outcome.reason is Reason.TOO_MANY
    assert len(list_licenses(storage)) == 230


@pytest.mark.smoke
def test_an_unknown_product_waits_until_the_mapping_is_mended(shop: Executor, storage: Storage) -> None:
    lines = (SaleLine("1", ("pro",)), SaleLine("2", ("price-7", "team")))
    receive(shop, a_sale(lines=lines))
    (event,) = list_events(shop, state=EventState.UNMATCHED)
    assert (event.reason, event.detail, event.order_ref) == (Reason.UNKNOWN_PRODUCT, "price-7, team", "1001")
    assert len(list_licenses(storage)) == 1
    with storage.read() as tx:
        names = tx.connection.execute(select(events.c.name).where(events.c.name == "order.unmatched"))
        assert len(names.all()) == 1
    set_mapping(shop, MappedProduct("pro", 1), MappedProduct("*", 1))
    assert do(shop, TryAgain(context=CONTEXT, connection_id=1, event_id=1)).state is EventState.WAITING
    assert [one.id for one in find_items(storage, EVENTS)] == [1]
    work(shop, 1)
    assert len(list_licenses(storage)) == 2
    assert mails(storage) == ["your_license", "your_license"]
    assert list_events(shop)[0].state is EventState.DONE


def test_a_product_can_be_mapped_to_nothing(shop: Executor, storage: Storage) -> None:
    set_mapping(shop, MappedProduct("*"))
    outcome = got(shop, a_sale(subscription="sub-1"))
    assert outcome.state is EventState.DONE
    renewed = got(shop, a_renewal(NOW + YEAR))
    assert (renewed.state, list_licenses(storage), mails(storage)) == (EventState.DONE, [], [])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"buyer": None}, Reason.NO_ADDRESS),
        ({"buyer": BUYER.__class__("ada")}, Reason.BAD_ADDRESS),
        ({"buyer": BUYER.__class__("ada\0@example.com")}, Reason.BAD_ADDRESS),
        ({"product": "un\0known"}, Reason.UNKNOWN_PRODUCT),
        ({"product": "unknown" * 100}, Reason.UNKNOWN_PRODUCT),
        ({"lines": ()}, Reason.UNKNOWN_PRODUCT),
    ],
)
def test_a_sale_that_cannot_be_handled_waits(
    shop: Executor, storage: Storage, fields: dict[str, Any], reason: Reason
) -> None:
    outcome = got(shop, require_usable(an_event(a_sale(**fields))).change)
    assert (outcome.state, outcome.reason, list_licenses(storage)) == (EventState.UNMATCHED, reason, [])
    assert ask(shop, GetConnection(connection_id=1)).failures == 1


def test_an_archived_policy_makes_no_license(shop: Executor, storage: Storage) -> None:
    do(shop, UpdatePolicy(context=CONTEXT, policy_id=1, is_archived=True))
    outcome = got(shop, a_sale())
    assert (outcome.reason, list_licenses(storage)) == (Reason.UNUSABLE_POLICY, [])


def test_test_events_make_nothing_unless_the_connection_is_a_test_one(
    shop: Executor, storage: Storage
) -> None:
    connect(shop, mode=Mode.TEST)
    for connection_id, is_test in ((1, True), (2, False)):
        outcome = got(shop, a_sale("1"), connection_id=connection_id, is_test=is_test)
        assert (outcome.state, outcome.reason) == (EventState.IGNORED, Reason.OTHER_MODE)
    receive(shop, a_sale("2"), connection_id=2, is_test=True)
    assert len(list_licenses(storage)) == 1


def test_a_deleted_license_is_not_made_again(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale())
    do(shop, DeleteLicense(context=CONTEXT, license=the_license(storage).id))
    receive(shop, a_sale(), 1)
    assert list_licenses(storage) == []


# --- payments and states --------------------------------------------------------------------------


def subscribe(executor: Executor) -> None:
    receive(executor, a_sale("in-1", subscription="sub-1", until=NOW + YEAR))


@pytest.mark.smoke
def test_a_renewal_moves_the_expiry_and_its_refund_moves_it_back(shop: Executor, storage: Storage) -> None:
    subscribe(shop)
    assert the_license(storage).expires_at == NOW + YEAR
    receive(shop, a_renewal(NOW + 2 * YEAR, order="in-2"), 24)
    assert the_license(storage).expires_at == NOW + 2 * YEAR
    receive(shop, a_state(SaleState.REFUNDED, order="in-2"), 48)
    license = the_license(storage)
    assert (license.expires_at, license.status) == (NOW + YEAR, Status.ACTIVE)
    assert mails(storage) == ["your_license", "renewed"]
    with storage.read() as tx:
        renewed = tx.connection.execute(select(events.c.actor).where(events.c.name == "license.renewed"))
        assert len(list(renewed)) == 1


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (SaleState.GRACE, Status.ACTIVE),
        (SaleState.SUSPENDED, Status.INACTIVE),
        (SaleState.REFUNDED, Status.DISABLED),
    ],
)
def test_a_state_of_the_order_is_the_status_of_its_licenses(
    shop: Executor, storage: Storage, state: SaleState, status: Status
) -> None:
    receive(shop, a_sale(quantity=2))
    receive(shop, a_state(state, order="1001"), 1)
    assert {one.status for one in list_licenses(storage)} == {status}
    receive(shop, a_state(SaleState.ACTIVE, order="1001"), 2)
    assert {one.status for one in list_licenses(storage)} == {Status.ACTIVE}


def test_a_subscription_that_ends_ends_its_licenses_with_what_was_paid(
    shop: Executor, storage: Storage
) -> None:
    subscribe(shop)
    receive(shop, a_state(SaleState.ENDED, subscription="sub-1"), 24)
    license = the_license(storage)
    assert (license.expires_at, license.status) == (NOW + YEAR, Status.ACTIVE)
    receive(shop, a_state(SaleState.ACTIVE, subscription="sub-1"), 48)
    assert the_license(storage).expires_at == NOW + YEAR


def test_a_failure_that_is_told_of_twice_queues_one_mail_and_the_next_failure_another(
    shop: Executor, storage: Storage
) -> None:
    subscribe(shop)
    states = (SaleState.GRACE, SaleState.GRACE, SaleState.ACTIVE, SaleState.GRACE)
    queued = []
    for hours, state in enumerate(states, start=1):
        receive(shop, a_state(state, subscription="sub-1"), hours)
        queued.append(mails(storage).count("payment_failed"))
    assert queued == [1, 1, 1, 2]


def test_an_order_that_was_refunded_before_its_sale_came_makes_a_disabled_license(
    shop: Executor, storage: Storage
) -> None:
    receive(shop, a_state(SaleState.REFUNDED, order="1001"), 1)
    outcome = got(shop, a_sale())
    assert (outcome.state, outcome.reason) == (EventState.DONE, None)
    assert (the_license(storage).status, mails(storage)) == (Status.DISABLED, [])


@pytest.mark.smoke
def test_a_renewal_without_a_sale_waits_for_it_and_then_for_a_person(
    shop: Executor, storage: Storage
) -> None:
    row_id = store(shop, an_event(a_renewal(NOW + YEAR)))
    assert row_id is not None
    work(shop, row_id)
    (event,) = list_events(shop)
    assert (event.state, event.next_attempt_at) == (EventState.WAITING, NOW + timedelta(seconds=10))
    for hour in range(1, 10):
        now = NOW + hour * timedelta(hours=1)
        (item,) = find_items(storage, EVENTS, now)
        claim = ClaimItem(context=Context(now, an_origin()), kind=EVENTS, item=item, claimed_by="one")
        assert do(shop, claim) == (row_id, 1)
        # One of two processes gets it.
        assert do(shop, claim) is None
    work(shop, row_id)
    (event,) = list_events(shop)
    assert (event.state, event.reason) == (EventState.UNMATCHED, Reason.UNKNOWN_ORDER)
    # Its contents are known when the sale arrives, and another waiting event is handled soon.
    other = store(shop, an_event(a_renewal(NOW + 2 * YEAR), 1))
    assert other is not None
    work(shop, other)
    assert find_items(storage, EVENTS) == []
    receive(shop, a_sale("in-1", subscription="sub-1"))
    assert the_license(storage).expires_at == NOW + 2 * YEAR
    assert [one.id for one in find_items(storage, EVENTS)] == [other]


# --- by hand --------------------------------------------------------------------------------------


def test_a_status_that_was_set_by_hand_waits_for_a_person(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale())
    change(shop, the_license(storage), status=Status.DELIVERED)
    outcome = got(shop, a_state(SaleState.REFUNDED, order="1001"), 1)
    assert (outcome.state, outcome.reason) == (EventState.UNMATCHED, Reason.CHANGED_BY_HAND)
    assert the_license(storage).status == Status.DELIVERED
    for overwrite, status in ((False, Status.DELIVERED), (True, Status.DISABLED)):
        try_again(shop, 2, overwrite=overwrite)
        assert the_license(storage).status == status


@pytest.mark.smoke
def test_no_number_of_attempts_overwrites_what_was_done_by_hand(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale())
    change(shop, the_license(storage), status=Status.DELIVERED)
    row_id = store(shop, an_event(a_state(SaleState.REFUNDED, order="1001"), 1))
    assert row_id is not None
    with storage.write() as tx:
        tx.connection.execute(shop_events.update().values(attempts=10**12))
    work(shop, row_id)
    assert list_events(shop)[0].reason is Reason.CHANGED_BY_HAND
    assert the_license(storage).status == Status.DELIVERED


def test_a_later_expiry_that_was_set_by_hand_stays(shop: Executor, storage: Storage) -> None:
    subscribe(shop)
    change(shop, the_license(storage), expires_at=NOW + 3 * YEAR)
    outcome = got(shop, a_renewal(NOW + 2 * YEAR, order="in-2"), 1)
    assert (outcome.state, outcome.reason) == (EventState.DONE, Reason.KEPT_BY_HAND)
    assert the_license(storage).expires_at == NOW + 3 * YEAR
    receive(shop, a_renewal(NOW + 4 * YEAR, order="in-3"), 2)
    assert the_license(storage).expires_at == NOW + 4 * YEAR


# --- connections ----------------------------------------------------------------------------------


def test_a_connection_counts_the_events_that_failed_in_a_row(shop: Executor) -> None:
    assert (connection(shop).last_event_at, connection(shop).failures) == (None, 0)
    do(shop, unreadable(b"?"))
    do(shop, unreadable(b"?"))
    assert (connection(shop).last_event_at, connection(shop).failures) == (NOW, 1)
    receive(shop, a_sale("1", product="unknown"))
    assert connection(shop).failures == 2
    # These are not sales: one is not needed here, another waits for its sale.
    receive(shop, a_state(SaleState.REFUNDED, order="unknown"))
    receive(shop, a_renewal(NOW + YEAR))
    assert connection(shop).failures == 2
    receive(shop, a_sale("2"))
    assert connection(shop).failures == 0
    (unknown,) = [one for one in list_events(shop) if one.reason is Reason.UNKNOWN_PRODUCT]
    do(shop, TryAgain(context=Context(NOW + DAY, an_origin()), connection_id=1, event_id=unknown.id))
    work(shop, unknown.id)
    assert (connection(shop).last_event_at, connection(shop).failures) == (NOW, 1)


@pytest.mark.smoke
def test_a_connection_is_added_changed_and_removed(shop: Executor, storage: Storage) -> None:
    opened = ask(shop, OpenConnection(connection_id=1))
    assert (opened.secret, opened.api_key, opened.connection.has_api_key) == (SECRET, "", False)
    do(shop, UpdateConnection(context=CONTEXT, connection_id=1, changes={"name": "EU"}, api_key="rk_1"))
    opened = ask(shop, OpenConnection(connection_id=1, shop=Shop.GENERIC))
    assert (opened.connection.name, opened.api_key, opened.connection.has_api_key) == ("EU", "rk_1", True)
    assert ask(shop, OpenConnection(connection_id=1, shop=Shop.STRIPE)) is None
    receive(shop, a_sale())
    do(shop, RemoveConnection(context=CONTEXT, connection_id=1))
    with pytest.raises(UnknownConnection):
        ask(shop, GetConnection(connection_id=1))
    assert len(list_licenses(storage)) == 1
    with storage.read() as tx:
        names = tx.connection.execute(select(events.c.name).where(events.c.name.like("connection.%")))
        assert [*names.scalars()] == ["connection.added", "connection.updated", "connection.removed"]


def test_the_key_of_a_shops_api_goes_to_no_address_that_it_was_not_given_for(shop: Executor) -> None:
    def update(api_key: str | None = None, **changes: Any) -> Connection:
        command = UpdateConnection(context=CONTEXT, connection_id=1, changes=changes, api_key=api_key)
        do(shop, command)
        return connection(shop)

    update("ck_1:cs_1", url="https://shop.example")
    with pytest.raises(ConnectionFieldInvalid, match="api_key"):
        update(url="https://other.example")
    assert update(url="https://shop.example", name="EU").name == "EU"
    assert update(url=None).has_api_key
    with pytest.raises(ConnectionFieldInvalid, match="api_key"):
        update(url="https://other.example")
    assert update("ck_2:cs_2", url="https://other.example").url == "https://other.example"
    assert not update("", url="https://shop.example").has_api_key


@pytest.mark.parametrize(
    "fields",
    [
        {"name": " "},
        {"mapping": (MappedProduct("a", 1), MappedProduct("a", 1))},
        {"mapping": (MappedProduct("", 1),)},
        {"url": "ftp://shop"},
        {"mail_template": "no such"},
        {"mail_template": "sign_in_code"},
        {"paid_states": ("x" * 41,)},
        {"external_id_name": ""},
        {"metadata_names": tuple(map(str, range(21)))},
    ],
)
def test_a_connection_that_cannot_be_is_refused(shop: Executor, fields: dict[str, Any]) -> None:
    with pytest.raises(ConnectionFieldInvalid):
        connect(shop, **fields)


@pytest.mark.smoke
def test_the_events_of_a_removed_connection_are_deleted_in_steps(
    shop: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop_store, "_MAX_DELETED", 2)
    monkeypatch.setattr(shop_store, "AT_ONCE", 2)
    for shop_id in (1, 2, 3):
        connect(shop, name=f"{shop_id}")
        for number in range(7):
            store(shop, an_event(a_sale(f"{shop_id}-{number}")), shop_id)
    for shop_id in (2, 3):
        do(shop, RemoveConnection(context=CONTEXT, connection_id=shop_id))
    assert {one.connection_id for one in list_events(shop)} == {1}
    purge = PurgeShopEvents(context=CONTEXT, before=NOW - DAY)
    assert list(iter(lambda: do(shop, purge), 0)) == [2, 2, 2]
    with storage.read() as tx:
        left = tx.connection.execute(select(shop_events.c.connection_id)).scalars()
        assert list(left) == [1] * 7


@pytest.mark.smoke
def test_a_secret_of_our_own_shop_is_long_enough(shop: Executor) -> None:
    made = do(shop, AddConnection(context=CONTEXT, connection=a_connection())).secret
    for size, is_good in ((23, False), (24, True), (64, True), (65, False)):
        secret = "whsec_" + base64.b64encode(b"x" * size).decode()
        for one in (secret, secret.removeprefix("whsec_")):
            with nullcontext() if is_good and one is secret else pytest.raises(ConnectionFieldInvalid):
                do(shop, UpdateConnection(context=CONTEXT, connection_id=1, secret=one))
    do(shop, UpdateConnection(context=CONTEXT, connection_id=1, secret=made))


def test_a_mapping_names_policies_that_there_are(shop: Executor) -> None:
    with pytest.raises(UnknownReference):
        connect(shop, mapping=(MappedProduct("a", 99),))


def test_what_a_shop_sent_of_an_erased_customer_is_forgotten(shop: Executor, storage: Storage) -> None:
    subscribe(shop)
    receive(shop, a_renewal(NOW + 2 * YEAR, order="in-2"), 1)
    receive(shop, a_sale("other", buyer=BUYER.__class__("bob@example.com")))
    do(shop, EraseCustomer(context=CONTEXT, customer_id=the_buyer(storage)))
    with storage.read() as tx:
        payloads = [shop_store.find_payload(tx, row_id) is None for row_id in (1, 2, 3)]
    assert payloads == [True, True, False]


@pytest.mark.smoke
def test_a_sale_that_waits_for_a_person_is_forgotten_with_its_buyer(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale("1"))
    do(shop, PurgeShopEvents(context=CONTEXT, before=NOW + DAY))
    (license,) = list_licenses(storage)
    assert license.customer_id is not None
    unknown: dict[str, Any] = {"product": "unknown", "buyer": BUYER.__class__("ADA@example.com")}
    waiting = [store(shop, an_event(a_sale(order, **unknown))) for order in ("2", "3")]
    assert waiting[0] is not None
    assert waiting[1] is not None
    work(shop, waiting[0])
    postpone = PostponeShopEvent(
        context=CONTEXT,
        event_id=waiting[1],
        connection_id=1,
        event=an_event(a_sale("3", **unknown)),
        reason=Reason.API_KEY_MISSING,
    )
    do(shop, postpone)
    do(shop, EraseCustomer(context=CONTEXT, customer_id=license.customer_id))
    with storage.read() as tx:
        assert [shop_store.find_payload(tx, row_id) for row_id in waiting if row_id] == [None, None]


@pytest.mark.parametrize(
    ("body", "is_named"),
    [
        (b'{"buyer": {"mail": "Ada@Example.com"}}', True),
        (b'{"to": "Ada \\u003cada\\u0040example.com\\u003e"}', True),
        (b'{"note": "Call me.\\nada@example.com"}', True),
        (b"order=1&mail=ada%40example.com&name=Ada", True),
        (b"\xff broken off {ada@example.com", True),
        (b'{"mail": "ada@example.com.au", "other": "nada@example.com"}', False),
        (b'{"mail": "x+ada@example.com"}', False),
    ],
)
def test_what_names_an_erased_customer_and_belongs_to_none_is_found(
    body: bytes, shop: Executor, storage: Storage, *, is_named: bool
) -> None:
    receive(shop, a_sale())
    customer_id = the_buyer(storage)
    row_id = do(shop, unreadable(body))
    naming = ask(shop, FindShopEventsNaming(customer_id=customer_id))
    assert naming == ((row_id,) if is_named else (), None)
    do(shop, EraseCustomer(context=CONTEXT, customer_id=customer_id, shop_event_ids=naming.event_ids))
    with storage.read() as tx:
        assert (shop_store.find_payload(tx, row_id) is None) is is_named
    assert list_events(shop)[0].reason is (Reason.FORGOTTEN if is_named else Reason.UNREADABLE)
    assert ask(shop, FindShopEventsNaming(customer_id=customer_id)) == ((), None)


@pytest.mark.smoke
def test_events_that_name_a_customer_are_looked_for_in_steps(
    shop: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later_store, "_AT_ONCE", 2)
    receive(shop, a_sale())
    one, two, three = (store(shop, an_event(a_sale(f"{number}"))) for number in range(3))
    assert two is not None
    customer_id = the_buyer(storage)
    first = ask(shop, FindShopEventsNaming(customer_id=customer_id))
    assert first == ((one, two), two)
    assert ask(shop, FindShopEventsNaming(customer_id=customer_id, after_id=two)) == ((three,), None)


def test_a_shop_that_asks_for_time_gets_an_hour_at_most(shop: Executor) -> None:
    row_id = store(shop, an_event(a_sale()))
    assert row_id is not None
    minute = timedelta(minutes=1)
    for asked, waits in ((0 * minute, minute / 6), (20 * minute, 20 * minute), (9 * DAY, 60 * minute)):
        fields: dict[str, Any] = {"reason": Reason.SHOP_UNAVAILABLE, "pause": asked}
        do(shop, PostponeShopEvent(context=CONTEXT, event_id=row_id, connection_id=1, **fields))
        assert list_events(shop)[0].next_attempt_at == NOW + waits


def test_a_customer_gets_what_shops_sent_and_the_vendors_export_its_words(
    shop: Executor, storage: Storage
) -> None:
    receive(shop, a_sale())
    receive(shop, a_sale("other", buyer=BUYER.__class__("bob@example.com")))
    customer_id = the_buyer(storage)
    with storage.read() as tx:
        vendors = find_customer_data(tx, customer_id)
        found = find_customer_data(tx, customer_id, for_customer=True)
    (event,) = vendors.shop_events
    assert (event["order_ref"], event["state"]) == ("1001", "done")
    assert BUYER.email in event["body"]
    assert [one["order_ref"] for one in found.shop_events] == ["1001"]
    assert BUYER.email not in str(found.shop_events)
    assert [(one["template"], one["state"]) for one in found.mails] == [("your_license", "waiting")]
    do(shop, EraseCustomer(context=CONTEXT, customer_id=customer_id))
    with storage.read() as tx:
        left = find_customer_data(tx, customer_id)
    assert (left.mails, left.shop_events[0]["body"]) == ([], None)


def the_buyer(storage: Storage) -> int:
    customer_id = list_licenses(storage)[0].customer_id
    assert customer_id is not None
    return customer_id


@pytest.mark.smoke
def test_events_are_replayed_and_forgotten(shop: Executor, storage: Storage) -> None:
    receive_all(shop, [an_event(a_sale("1")), an_event(a_sale("2", product="unknown"))])
    replay = ReplayEvents(context=CONTEXT, connection_id=1, since=NOW)
    assert do(shop, replay) == 2
    assert [one.state for one in list_events(shop)] == [EventState.WAITING] * 2
    for row_id in (1, 2):
        work(shop, row_id)
    assert len(list_licenses(storage)) == 1
    # An event that waits for a retry or a decision is kept, however old it is.
    assert store(shop, an_event(a_sale("3"))) == 3
    purge = PurgeShopEvents(context=CONTEXT, before=NOW + 400 * DAY)
    assert (do(shop, purge), do(shop, purge)) == (1, 0)
    assert [one.id for one in list_events(shop)] == [3, 2]
    run_write(storage, lambda tx: later_store.forget_events(tx, [2]))
    assert {one.id: one.reason for one in list_events(shop)} == {3: None, 2: Reason.FORGOTTEN}
    with pytest.raises(UnknownShopEvent):
        do(shop, TryAgain(context=CONTEXT, connection_id=1, event_id=2))
