"""The members of Stripe's events and API objects that are read."""

from typing import Any

import msgspec
from msgspec import field

from keywright.provisioning.shops.model import SaleLine


class Details(msgspec.Struct):
    """The buyer."""

    email: str | None = None
    name: str | None = None


class Session(msgspec.Struct):
    """A Checkout Session."""

    id: str
    payment_status: str
    mode: str = "payment"
    payment_intent: str | None = None
    invoice: str | None = None
    subscription: str | None = None
    customer_details: Details | None = None
    customer_email: str | None = None
    locale: str | None = None
    client_reference_id: str | None = None
    metadata: Any = None


class Price(msgspec.Struct):
    """A price."""

    id: str
    product: str | None = None
    type: str | None = None


class Item(msgspec.Struct):
    """A line of a session, or an item of a subscription."""

    id: str
    price: Price | None = None
    quantity: int | None = 1
    description: str | None = None


class Items(msgspec.Struct):
    """A page of lines or items."""

    data: list[Item]
    has_more: bool = False


def line_of(item: Item) -> SaleLine:
    """Convert a line of an order or an invoice, or an item of a subscription."""
    price = item.price
    refs = () if price is None else (price.id, *([price.product] if price.product else []))
    quantity = 1 if item.quantity is None else item.quantity
    recurs = None if price is None or price.type is None else price.type == "recurring"
    return SaleLine(item.id, refs, quantity, item.description or "", recurs)


class Period(msgspec.Struct):
    """The period of a line, in seconds since 1970."""

    end: float


class LineDetails(msgspec.Struct):
    """The details of a line that comes from a subscription."""

    proration: bool = False


class LineParent(msgspec.Struct):
    """The origin of a line, since 2025-03-31."""

    subscription_item_details: LineDetails | None = None


class PriceDetails(msgspec.Struct):
    """The price of a line, since 2025-03-31."""

    price: str
    product: str | None = None


class Pricing(msgspec.Struct):
    """How a line is priced."""

    price_details: PriceDetails | None = None


class InvoiceLine(msgspec.Struct):
    """A line of an invoice."""

    period: Period
    id: str = ""
    type: str | None = None
    quantity: int | None = 1
    price: Price | None = None
    pricing: Pricing | None = None
    proration: bool = False
    parent: LineParent | None = None

    @property
    def is_period(self) -> bool:
        """Whether the line pays for a period of a subscription, not for a proration or anything else."""
        details = None if self.parent is None else self.parent.subscription_item_details
        if self.parent is not None:
            return details is not None and not details.proration
        return not self.proration and self.type != "invoiceitem"

    @property
    def sold(self) -> SaleLine:
        """The paid line."""
        details = None if self.pricing is None else self.pricing.price_details
        price = self.price if details is None else Price(details.price, details.product)
        return line_of(Item(self.id, price, self.quantity))


class InvoiceLines(msgspec.Struct):
    """A page of lines."""

    data: list[InvoiceLine]
    has_more: bool = False


class SubscriptionDetails(msgspec.Struct):
    """The subscription of an invoice, since 2025-03-31."""

    subscription: str | None = None


class InvoiceParent(msgspec.Struct):
    """The origin of an invoice."""

    subscription_details: SubscriptionDetails | None = None


class Invoice(msgspec.Struct):
    """An invoice."""

    id: str
    lines: InvoiceLines
    subscription: str | None = None
    parent: InvoiceParent | None = None

    @property
    def of_subscription(self) -> str | None:
        """The subscription of the invoice."""
        details = None if self.parent is None else self.parent.subscription_details
        return self.subscription or (None if details is None else details.subscription)


class Subscription(msgspec.Struct):
    """A subscription."""

    id: str
    status: str
    items: Items | None = None


class Charge(msgspec.Struct):
    """A charge."""

    id: str
    refunded: bool = False
    payment_intent: str | None = None
    invoice: str | None = None


class OfCharge(msgspec.Struct):
    """A dispute, or a refund."""

    id: str
    status: str | None = None
    charge: str | None = None
    payment_intent: str | None = None


class InvoicePayment(msgspec.Struct):
    """The payment of an invoice."""

    invoice: str


class InvoicePayments(msgspec.Struct):
    """A page of payments."""

    data: list[InvoicePayment]


class Object(msgspec.Struct):
    """The object of an event."""

    object: dict[str, Any]


class Event(msgspec.Struct):
    """An event."""

    id: str
    type: str
    created: float
    livemode: bool
    contents: Object = field(name="data")


class Events(msgspec.Struct):
    """A page of events, or of other objects."""

    found: list[dict[str, Any]] = field(name="data")
    has_more: bool = False
