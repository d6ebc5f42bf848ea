"""What each event of each shop means: the files in tests/data/shops, made after the shops' documentation."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keywright.core.errors import UnreadableEvent
from keywright.provisioning.shops.model import (
    Buyer,
    Change,
    Connection,
    Fact,
    Lines,
    Mode,
    Nothing,
    Renewal,
    Sale,
    SaleLine,
    SaleState,
    Shop,
    ShopEvent,
    StateChange,
)
from keywright.provisioning.shops.payloads import MODULES
from keywright.provisioning.shops.reading import period_end
from tests.connections import a_paid_order
from tests.shop_apis import RecordedApi
from tests.shop_events import names, recorded
from tests.tables import each_row

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SHOPS = [one for one in Shop if one is not Shop.GENERIC]
ADA = Buyer("ada@example.com", "Ada Example")


def connection(shop: Shop, **fields: Any) -> Connection:
    usual = Connection(id=1, shop=shop, name="a shop", has_api_key=True, created_at=NOW, updated_at=NOW)
    return replace(usual, **fields)


def read(shop: Shop, name: str, **fields: Any) -> ShopEvent:
    found = recorded(shop, name)
    return MODULES[shop].read(found.headers, found.body, connection(shop, **fields))[0]


def state(state: SaleState, fact: Fact = Fact.ORDER, **named: str) -> StateChange:
    return StateChange(state=state, fact=fact, **named)


def until(text: str, subscription: str, order: str | None = None, *lines: SaleLine) -> Renewal:
    return Renewal(subscription=subscription, until=datetime.fromisoformat(text), order=order, lines=lines)


def listed(subscription: str, *lines: SaleLine, part: str = "", **fields: Any) -> Lines:
    fields |= {name: datetime.fromisoformat(fields[name]) for name in ("until",) if name in fields}
    return Lines(subscription=subscription, lines=lines, part=part, **fields)


MONTHLY, YEARLY = "price_cloud_monthly", "price_cloud_yearly"


def stripe_line(
    number: str, price: str = "price_cloud_monthly", quantity: int = 1, **fields: Any
) -> SaleLine:
    return SaleLine(number, (price, fields.pop("product", "prod_cloud")), quantity, **fields)


def stripe(
    state: SaleState, *others: SaleLine, price: str = "price_cloud_monthly", quantity: int = 1
) -> Lines:
    item = stripe_line("si_000001", price, quantity, recurs=True)
    return listed("sub_000001", item, *others, state=state)


def paddle(state: SaleState, *others: SaleLine, price: int = 2, quantity: int = 1) -> Lines:
    refs = (paddle_id("pri", price), paddle_id("pro", 2))
    return listed(SUB, SaleLine(refs[0], refs, quantity, "Cloud"), *others, state=state)


def woo(quantity: int = 1, **fields: Any) -> Lines:
    return listed("110", SaleLine("8", ("50", "CLOUD"), quantity, "Editor"), part="111", **fields)


def lemon(quantity: int = 1, refs: tuple[str, ...] = ("108", "8", "4"), **fields: Any) -> Lines:
    return listed("210", SaleLine("401", refs, quantity, "Cloud"), part="301", **fields)


def paddle_id(kind: str, number: int) -> str:
    return f"{kind}_01kw{number:022d}"


ACTIVE, GRACE, SUSPENDED, ENDED, REFUNDED = SaleState
TXN, SUB = paddle_id("txn", 1), paddle_id("sub", 1)
EDITOR_REFS, CLOUD_REFS, MUG_REFS = (
    (paddle_id("pri", 1), paddle_id("pro", 1)),
    (paddle_id("pri", 2), paddle_id("pro", 2)),
    (paddle_id("pri", 9), paddle_id("pro", 9)),
)


def paddle_line(number: int) -> SaleLine:
    return SaleLine(paddle_id("txnitm", number), CLOUD_REFS, 1, "Cloud, monthly", recurs=True)


#: Everything else that a shop sends, it sends for nothing.
MEANINGS: dict[Shop, dict[str, Change]] = {
    Shop.STRIPE: {
        "invoice_first": until("2026-12-01T13:00:00Z", "sub_000001", "in_000001", stripe_line("il_000001")),
        "invoice_renewed": until("2027-01-01T13:00:00Z", "sub_000001", "in_000002", stripe_line("il_000002")),
        "invoice_renewed_again": until(
            "2027-02-01T13:00:00Z", "sub_000001", "in_000003", stripe_line("il_000003")
        ),
        "invoice_renewed_before_basil": until(
            "2027-01-01T13:00:00Z", "sub_000001", "in_000005", stripe_line("il_000005", recurs=True)
        ),
        "invoice_updated": until(
            "2027-12-10T08:00:00Z", "sub_000001", "in_000004", stripe_line("il_000004", YEARLY)
        ),
        "checkout_paid": Sale(order="pi_000001", buyer=Buyer("ada@example.com", "Ada Example", "de")),
        "checkout_paid_later": Sale(order="pi_000002", buyer=Buyer("ada@example.com", "Ada Example", "de")),
        "checkout_nothing_to_pay": Sale(
            order="cs_live_000003", buyer=Buyer("ada@example.com", "Ada Example", "de")
        ),
        "checkout_unknown_product": Sale(
            order="pi_000005", buyer=Buyer("ada@example.com", "Ada Example", "de")
        ),
        "checkout_test_mode": Sale(order="pi_000006", buyer=Buyer("ada@example.com", "Ada Example", "de")),
        "checkout_subscribed": Sale(
            order="in_000001",
            buyer=Buyer("ada@example.com", "Ada Example", "de"),
            subscription="sub_000001",
            needs_period=True,
        ),
        "subscription_past_due": stripe(GRACE),
        "subscription_unpaid": stripe(SUSPENDED),
        "subscription_canceled": stripe(ENDED),
        "subscription_paused": stripe(SUSPENDED),
        "subscription_deleted": stripe(ENDED),
        "subscription_active_again": stripe(ACTIVE),
        "subscription_ends_later": stripe(ACTIVE),
        "subscription_collection_paused": stripe(ACTIVE),
        "subscription_more_seats": stripe(ACTIVE, quantity=5),
        # A price and a quantity in one.
        "subscription_other_price": stripe(ACTIVE, price=YEARLY, quantity=3),
        "subscription_addon": stripe(
            ACTIVE, stripe_line("si_000002", "price_editor", product="prod_editor", recurs=True)
        ),
        # What waits for its payment is not yet so.
        "subscription_change_unpaid": stripe(ACTIVE),
        "subscription_of_many_items": stripe(ACTIVE),
        "subscription_captured_basil": listed(
            "sub_capture_basil",
            SaleLine("si_capture_basil", ("price_capture", "prod_capture"), recurs=True),
            state=ACTIVE,
        ),
        "invoice_proration": Renewal(subscription="sub_000001", until=None, order="in_000006"),
        "invoice_proration_before_basil": Renewal(subscription="sub_000001", until=None, order="in_000007"),
        "refund_failed": state(ACTIVE, Fact.REFUND, order="pi_000001"),
        "charge_refunded": state(REFUNDED, Fact.REFUND, order="pi_000001"),
        "charge_of_renewal_refunded": state(REFUNDED, Fact.REFUND, order="pi_000012"),
        "charge_of_first_invoice_refunded": state(REFUNDED, Fact.REFUND, order="pi_000011"),
        "dispute_opened": state(SUSPENDED, Fact.DISPUTE, order="pi_000001"),
        "dispute_won": state(ACTIVE, Fact.DISPUTE, order="pi_000001"),
        "dispute_funds_withdrawn": state(SUSPENDED, Fact.DISPUTE, order="pi_000001"),
        "dispute_lost": state(REFUNDED, Fact.DISPUTE, order="pi_000001"),
    },
    Shop.PADDLE: {
        "transaction_completed": Sale(
            order=TXN, lines=(SaleLine(paddle_id("txnitm", 10), EDITOR_REFS, 2, "Editor", recurs=False),)
        ),
        "transaction_nothing_to_pay": Sale(
            order=paddle_id("txn", 2),
            lines=(SaleLine(paddle_id("txnitm", 20), EDITOR_REFS, 1, "Editor", recurs=False),),
        ),
        "transaction_subscribed": Sale(
            order=paddle_id("txn", 3),
            lines=(paddle_line(30),),
            subscription=SUB,
            until=datetime(2026, 12, 1, 13, tzinfo=UTC),
        ),
        "transaction_two_products": Sale(
            order=paddle_id("txn", 6),
            lines=(
                SaleLine(paddle_id("txnitm", 60), EDITOR_REFS, 1, "Editor", recurs=False),
                SaleLine(
                    paddle_id("txnitm", 61),
                    (paddle_id("pri", 9), paddle_id("pro", 9)),
                    1,
                    "A mug",
                    recurs=False,
                ),
            ),
        ),
        "transaction_unknown_product": Sale(
            order=paddle_id("txn", 7),
            lines=(
                SaleLine(
                    paddle_id("txnitm", 70),
                    (paddle_id("pri", 9), paddle_id("pro", 9)),
                    1,
                    "A mug",
                    recurs=False,
                ),
            ),
        ),
        "transaction_simulated": Sale(
            order=paddle_id("txn", 8),
            lines=(SaleLine(paddle_id("txnitm", 80), EDITOR_REFS, 1, "Editor", recurs=False),),
        ),
        "transaction_renewed": until("2027-01-01T13:00:00Z", SUB, paddle_id("txn", 4), paddle_line(40)),
        "transaction_renewed_again": until("2027-02-01T13:00:00Z", SUB, paddle_id("txn", 5), paddle_line(50)),
        "subscription_past_due": paddle(GRACE),
        "subscription_paused": paddle(SUSPENDED),
        "subscription_canceled": paddle(ENDED),
        "subscription_resumed": paddle(ACTIVE),
        "subscription_activated": paddle(ACTIVE),
        "subscription_updated": paddle(ACTIVE),
        "subscription_more_seats": paddle(ACTIVE, quantity=5),
        "subscription_other_price": paddle(ACTIVE, price=3, quantity=3),
        # One that is inactive, and one that is paid once, are none.
        "subscription_addon": paddle(ACTIVE, SaleLine(EDITOR_REFS[0], EDITOR_REFS, 1, "Editor")),
        "transaction_proration": Renewal(
            subscription=SUB,
            until=datetime(2026, 12, 1, 13, tzinfo=UTC),
            order=paddle_id("txn", 11),
            is_change=True,
        ),
        "adjustment_of_proration": state(REFUNDED, Fact.REFUND, order=paddle_id("txn", 11)),
        "adjustment_refunded": state(REFUNDED, Fact.REFUND, order=TXN),
        "adjustment_chargeback": state(SUSPENDED, Fact.DISPUTE, order=TXN),
        "adjustment_chargeback_reversed": state(ACTIVE, Fact.DISPUTE, order=TXN),
        "adjustment_of_renewal": state(REFUNDED, Fact.REFUND, order=paddle_id("txn", 4)),
        "adjustment_of_subscription": state(REFUNDED, Fact.REFUND, order=paddle_id("txn", 3)),
    },
    Shop.WOOCOMMERCE: {
        **{
            name: Sale(
                order="101",
                lines=(SaleLine("1", ("40", "EDITOR"), 2, "Editor"),),
                buyer=ADA,
                subscription="101",
            )
            for name in (
                "order_processing",
                "order_completed",
                "order_completed_again",
                "order_partly_refunded",
            )
        },
        "order_nothing_to_pay": Sale(
            order="102", lines=(SaleLine("2", ("40",), 1, "Editor"),), buyer=ADA, subscription="102"
        ),
        "order_unknown_product": Sale(
            order="103", lines=(SaleLine("3", ("99",), 1, "Editor"),), buyer=ADA, subscription="103"
        ),
        "order_two_products": Sale(
            order="104",
            lines=(
                SaleLine("4", ("41", "40", "EDITOR-PRO"), 1, "Editor"),
                SaleLine("5", ("99",), 1, "Editor"),
            ),
            buyer=ADA,
            subscription="104",
        ),
        **{
            name: Sale(
                order="110",
                lines=(SaleLine("6", ("50", "CLOUD"), 1, "Editor"),),
                buyer=ADA,
                subscription="110",
            )
            for name in ("order_subscribed", "order_subscribed_edited")
        },
        # Of which order the subscription is, and until when, is asked of the shop.
        "order_renewed": until(
            "2026-12-01T13:00:00Z", "111", "120", SaleLine("7", ("50", "CLOUD"), 1, "Editor")
        ),
        "order_renewal_failed": state(GRACE, subscription="111"),
        "order_renewal_refunded": state(REFUNDED, order="120"),
        "order_cancelled": state(SUSPENDED, order="101"),
        "order_failed": state(SUSPENDED, order="101"),
        "order_deleted": state(SUSPENDED, order="101"),
        "order_deleted_again": state(SUSPENDED, order="101"),
        "order_refunded": state(REFUNDED, order="101"),
        "subscription_created": woo(until="2026-12-01T13:00:00Z"),
        "subscription_renewed": woo(until="2027-01-01T13:00:00Z"),
        "subscription_active_again": woo(until="2027-01-01T13:00:00Z"),
        "subscription_pending_cancel": woo(state=ACTIVE),
        "subscription_cancelled": woo(state=ENDED),
        "subscription_expired": woo(state=ENDED),
        "subscription_more_seats": woo(5, until="2026-12-01T13:00:00Z"),
        # The order sells nothing; the old subscription has no lines any more, the new one names the order.
        "order_switched": Renewal(subscription="111", until=None, order="130", is_change=True),
        "order_switched_and_more": Renewal(subscription="111", until=None, order="131", is_change=True),
        "subscription_switched_away": listed("110", part="111"),
        "subscription_switched_to": listed(
            "130",
            SaleLine("15", ("51", "CLOUD-YEAR"), 3, "Editor"),
            part="132",
            until="2027-11-12T09:00:00Z",
        ),
    },
    Shop.LEMONSQUEEZY: {
        **{
            name: Sale(
                order="201",
                lines=(SaleLine("5201", ("107", "7", "3"), 2, "Editor"),),
                buyer=ADA,
                subscription="201",
                metadata={"campaign": "autumn"},
            )
            for name in ("order_created", "order_partly_refunded")
        },
        "order_nothing_to_pay": Sale(
            order="202",
            lines=(SaleLine("5202", ("107", "7", "3"), 1, "Editor"),),
            buyer=ADA,
            subscription="202",
            metadata={"campaign": "autumn"},
        ),
        "order_unknown_product": Sale(
            order="203",
            lines=(SaleLine("5203", ("199", "99", "98"), 1, "Editor"),),
            buyer=ADA,
            subscription="203",
            metadata={"campaign": "autumn"},
        ),
        "order_test_mode": Sale(
            order="204",
            lines=(SaleLine("5204", ("107", "7", "3"), 1, "Editor"),),
            buyer=ADA,
            subscription="204",
            metadata={"campaign": "autumn"},
        ),
        "order_subscribed": Sale(
            order="210",
            lines=(SaleLine("5210", ("108", "8", "4"), 1, "Editor"),),
            buyer=ADA,
            subscription="210",
            metadata={"campaign": "autumn"},
        ),
        "order_refunded": state(REFUNDED, Fact.REFUND, order="201"),
        "subscription_created": lemon(until="2026-12-01T13:00:00Z"),
        "subscription_updated": lemon(until="2027-01-01T13:00:00Z"),
        "subscription_resumed": lemon(until="2027-01-01T13:00:00Z"),
        "subscription_unpaused": lemon(until="2027-01-01T13:00:00Z"),
        "subscription_past_due": lemon(state=GRACE),
        "subscription_unpaid": lemon(state=SUSPENDED),
        "subscription_paused": lemon(state=SUSPENDED),
        "subscription_expired": lemon(state=ENDED),
        "subscription_more_seats": lemon(5, until="2026-12-01T13:00:00Z"),
        "subscription_other_variant": lemon(3, ("109", "9", "4"), until="2027-11-11T09:00:00Z"),
        "subscription_usage_based": lemon(until="2026-12-01T13:00:00Z"),
        "subscription_payment_for_change": Renewal(subscription="301", until=None, order="invoices/509"),
        # Which order, and until when, is asked of the shop.
        "subscription_payment_success": until("2026-12-01T13:00:15Z", "301", "invoices/502"),
        "subscription_payment_refunded": state(REFUNDED, Fact.REFUND, order="invoices/502"),
        "subscription_first_payment_refunded": state(REFUNDED, Fact.REFUND, order="invoices/501"),
    },
}
EVENTS = [(shop, name) for shop in SHOPS for name in names(shop) if name != "ping"]


@each_row(("shop", "name"), EVENTS)
def test_an_event_means_what_the_shop_documents(shop: Shop, name: str) -> None:
    change = read(shop, name).change
    if name in MEANINGS[shop]:
        assert change == MEANINGS[shop][name]
    else:
        assert isinstance(change, Nothing)
        assert change.reason


def test_every_meaning_has_its_file() -> None:
    for shop, meanings in MEANINGS.items():
        assert meanings.keys() <= set(names(shop))


@each_row(("shop", "name"), EVENTS)
def test_an_event_that_comes_twice_has_one_id(shop: Shop, name: str) -> None:
    first, second = read(shop, name), read(shop, name)
    assert first.id == second.id
    assert first.id


@pytest.mark.parametrize("shop", SHOPS)
def test_different_events_have_different_ids(shop: Shop) -> None:
    ids = [read(shop, name).id for of, name in EVENTS if of is shop]
    assert len(set(ids)) == len(ids)


def test_what_is_not_needed_of_a_test_is_of_a_test() -> None:
    found = recorded(Shop.LEMONSQUEEZY, "order_test_mode").contents
    found["data"]["type"], found["meta"]["event_name"] = "license-keys", "license_key_created"
    found["data"]["attributes"]["updated_at"] = "2026-11-01T10:00:00.000000Z"
    (event,) = MODULES[Shop.LEMONSQUEEZY].read({}, json.dumps(found).encode(), connection(Shop.LEMONSQUEEZY))
    assert (event.is_test, isinstance(event.change, Nothing)) == (True, True)


def test_of_which_mode_an_event_is() -> None:
    assert {name for shop, name in EVENTS if read(shop, name).is_test} == {
        "checkout_test_mode",
        "subscription_captured_basil",
        "transaction_simulated",
        "order_test_mode",
    }


@pytest.mark.parametrize(
    ("shop", "name"), [(Shop.PADDLE, "transaction_completed"), (Shop.WOOCOMMERCE, "order_completed")]
)
def test_shops_that_do_not_say_so_are_of_their_connections_mode(shop: Shop, name: str) -> None:
    assert read(shop, name, mode=Mode.TEST).is_test
    assert not read(shop, name, mode=Mode.LIVE).is_test


# --- WooCommerce ----------------------------------------------------------------------------------


def with_metadata(shop: Shop, name: str) -> ShopEvent:
    """The recorded sale, with what the shop keeps with it for the vendor."""
    found = recorded(shop, name)
    body, kept = found.contents, {"crm": "c 7", "seats": 3, "gift": True, "of": {"a": 1}, "none": None}
    match shop:
        case Shop.STRIPE:
            body["data"]["object"] |= {"metadata": kept, "client_reference_id": "user_9"}
        case Shop.PADDLE:
            body["data"]["custom_data"] = kept
        case Shop.WOOCOMMERCE:
            body["meta_data"] = [{"id": 1, "key": key, "value": value} for key, value in kept.items()]
        case _:
            body["meta"]["custom_data"] = kept
    return MODULES[shop].read(found.headers, json.dumps(body).encode(), connection(shop))[0]


def test_a_sale_has_the_metadata_that_the_shop_keeps() -> None:
    sales = {
        Shop.STRIPE: "checkout_paid",
        Shop.PADDLE: "transaction_completed",
        Shop.WOOCOMMERCE: "order_completed",
        Shop.LEMONSQUEEZY: "order_created",
    }
    read_of = {
        shop: getattr(with_metadata(shop, name).change, "metadata", None) for shop, name in sales.items()
    }
    scalars = {"crm": "c 7", "seats": 3, "gift": True}
    assert read_of == dict.fromkeys(SHOPS, scalars) | {
        Shop.STRIPE: {"client_reference_id": "user_9"} | scalars
    }


def test_lines_name_the_license_that_they_renew() -> None:
    found = recorded(Shop.WOOCOMMERCE, "order_completed").contents
    found["line_items"][0]["meta_data"] = [{"key": "license_ref", "value": "kwr_1"}]
    found["meta_data"] = [{"key": "license_ref", "value": "kwr_2"}]
    own = {"product": "pro", "license_ref": "kwr_3"}
    body = a_paid_order("1", NOW, lines=[own, {"product": "year"}])
    headers = {"webhook-id": "1"}
    read_of = [
        MODULES[shop].read(headers, text, connection(shop))[0].change
        for shop, text in ((Shop.WOOCOMMERCE, json.dumps(found).encode()), (Shop.GENERIC, body))
    ]
    assert [[one.license_ref for one in getattr(sale, "lines", ())] for sale in read_of] == [
        ["kwr_1"],
        ["kwr_3", None],
    ]


def test_vendors_choose_which_states_of_orders_are_paid() -> None:
    strict = {"paid_states": ("completed",)}
    assert isinstance(read(Shop.WOOCOMMERCE, "order_processing", **strict).change, Nothing)
    assert isinstance(read(Shop.WOOCOMMERCE, "order_completed", **strict).change, Sale)


def test_a_forged_topic_deletes_no_order() -> None:
    found = recorded(Shop.WOOCOMMERCE, "order_completed")
    forged = {**found.headers, "x-wc-webhook-topic": "order.deleted"}
    event = MODULES[Shop.WOOCOMMERCE].read(forged, found.body, connection(Shop.WOOCOMMERCE))[0]
    assert isinstance(event.change, Sale)


@pytest.mark.parametrize("topic", ["product.deleted", "customer.deleted", ""])
def test_what_else_is_deleted_is_no_order(topic: str) -> None:
    module = MODULES[Shop.WOOCOMMERCE]
    event = module.read({"x-wc-webhook-topic": topic}, b'{"id":101}', connection(Shop.WOOCOMMERCE))
    assert isinstance(event[0].change, Nothing)


def test_half_a_thing_cannot_be_sold() -> None:
    found = recorded(Shop.WOOCOMMERCE, "order_completed").contents
    found["line_items"][0]["quantity"] = 1.5
    with pytest.raises(UnreadableEvent):
        MODULES[Shop.WOOCOMMERCE].read({}, json.dumps(found).encode(), connection(Shop.WOOCOMMERCE))


def test_seats_that_change_move_the_time_of_the_item_alone_and_are_no_duplicate() -> None:
    before, after = (read(Shop.LEMONSQUEEZY, f"subscription_{one}") for one in ("created", "more_seats"))
    assert before.id.removeprefix(before.name) != after.id.removeprefix(after.name)
    assert after.at == datetime(2026, 11, 10, 9, tzinfo=UTC)


def test_what_was_bought_beside_a_switch_is_sold() -> None:
    found = recorded(Shop.WOOCOMMERCE, "order_switched_and_more")
    events = MODULES[Shop.WOOCOMMERCE].read({}, found.body, connection(Shop.WOOCOMMERCE))
    sale = events[1].change
    assert isinstance(sale, Sale)
    assert (sale.order, [one.refs for one in sale.lines], sale.subscription) == (
        "131/sold",
        [("40", "EDITOR")],
        None,
    )
    assert len({one.id for one in events}) == len(events) == 2


# --- without an API key ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shop", "name"),
    [
        (Shop.WOOCOMMERCE, "order_renewed"),
        (Shop.WOOCOMMERCE, "order_renewal_failed"),
        (Shop.LEMONSQUEEZY, "subscription_payment_success"),
        (Shop.LEMONSQUEEZY, "subscription_first_payment_refunded"),
    ],
)
def test_without_an_api_key_payments_of_subscriptions_mean_nothing(shop: Shop, name: str) -> None:
    event = read(shop, name, has_api_key=False)
    assert isinstance(event.change, Nothing)
    assert not event.needs_api


# --- asked late -----------------------------------------------------------------------------------


class LateApi(RecordedApi):
    """A shop that was paid for three more months meanwhile, or whose subscription is over since."""

    later = "2027-04-01T13:00:00"

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
        answer = json.loads(json.dumps(super().get(path, parameters)))
        if "/subscriptions/" in path:
            (answer if "data" not in answer else answer["data"]["attributes"]).update(self.changes())
        return answer

    def changes(self) -> dict[str, str | None]:
        return {"next_payment_date_gmt": self.later, "renews_at": f"{self.later}Z"}


class EndedApi(LateApi):
    def changes(self) -> dict[str, str | None]:
        none = {"next_payment_date_gmt": None, "renews_at": None}
        return none | {"end_date_gmt": self.later, "ends_at": f"{self.later}Z"}


@each_row("api", [LateApi, EndedApi, RecordedApi])
@each_row(
    ("shop", "name"),
    [(Shop.WOOCOMMERCE, "order_renewed"), (Shop.LEMONSQUEEZY, "subscription_payment_success")],
)
def test_a_payment_is_for_its_own_period_however_late_the_shop_is_asked(
    shop: Shop, name: str, api: type[RecordedApi]
) -> None:
    change = MODULES[shop].complete(read(shop, name), api(shop)).change
    assert isinstance(change, Renewal)
    assert change.until == datetime(2027, 1, 1, 13, tzinfo=UTC)


def test_periods_are_counted_as_calendars_do() -> None:
    def end(next_at: str, paid_at: str, unit: str, amount: int | str) -> str:
        moments = datetime.fromisoformat(next_at), datetime.fromisoformat(paid_at)
        return period_end(*moments, unit, amount).date().isoformat()

    assert end("2027-05-31", "2027-01-31", "month", 1) == "2027-02-28"
    assert end("2027-05-31", "2027-02-26", "month", "1") == "2027-03-31"
    assert end("2028-02-29", "2026-02-28", "year", 1) == "2027-02-28"
    assert end("2027-03-01", "2027-01-05", "week", 2) == "2027-01-18"
    assert end("2027-03-01", "2027-02-20", "day", 3) == "2027-02-23"
    # Paid some days before it was due.
    assert end("2027-03-01", "2027-01-28", "month", 1) == "2027-03-01"
    for unit, amount in (("fortnight", 1), ("month", "often"), ("month", 0), ("day", 10**9)):
        assert end("2027-03-01", "2026-02-20", unit, amount) == "2027-03-01"


# --- whatever comes -------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value in JSON."""
    found = [above]
    if isinstance(value, dict):
        found += [path for key, one in value.items() for path in paths(one, (*above, key))]
    elif isinstance(value, list):
        found += [path for index, one in enumerate(value) for path in paths(one, (*above, index))]
    return found


@pytest.mark.parametrize("shop", SHOPS)
@settings(max_examples=40)
@given(st.data())
def test_an_event_with_anything_in_it_is_read_or_unreadable(shop: Shop, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for of, name in EVENTS if of is shop]))
    found = recorded(shop, name)
    body = found.contents
    *way, last = data.draw(st.sampled_from(paths(body)[1:]))
    here = body
    for step in way:
        here = here[step]
    here[last] = data.draw(ANYTHING)
    try:
        event = MODULES[shop].read(found.headers, json.dumps(body).encode(), connection(shop))[0]
    except UnreadableEvent:
        return
    assert isinstance(event, ShopEvent)


@pytest.mark.parametrize("shop", SHOPS)
@settings(max_examples=40)
@given(st.binary(max_size=200) | ANYTHING.map(lambda one: json.dumps(one).encode()))
def test_any_body_is_read_or_unreadable(shop: Shop, body: bytes) -> None:
    try:
        MODULES[shop].read({}, body, connection(shop))
    except UnreadableEvent:
        return


@pytest.mark.parametrize("shop", SHOPS)
def test_a_deep_body_is_unreadable(shop: Shop) -> None:
    with pytest.raises(UnreadableEvent):
        MODULES[shop].read({}, b"[" * 100_000, connection(shop))
    with pytest.raises(UnreadableEvent):
        MODULES[shop].read({}, b'{"id":' * 100_000, connection(shop))
