"""Connections to shops, what a shop's event means, and what is kept of it."""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import msgspec

#: The product of a mapping that stands for every product that has no entry.
ANY_PRODUCT = "*"


class Shop(StrEnum):
    """The shops that have a module."""

    STRIPE = "stripe"
    PADDLE = "paddle"
    WOOCOMMERCE = "woocommerce"
    LEMONSQUEEZY = "lemonsqueezy"
    GENERIC = "generic"


#: These shops make the secret; the others are given one.
MAKE_SECRETS = frozenset({Shop.STRIPE, Shop.PADDLE})


class Mode(StrEnum):
    """Test events make nothing, unless the connection is a test one; and the other way round."""

    LIVE = "live"
    TEST = "test"


class QuantityRule(StrEnum):
    """What a quantity buys: so many licenses, or one license for so many times the devices."""

    KEYS = "keys"
    DEVICES = "devices"


class Does(StrEnum):
    """What a product of the shop does: makes licenses, or renews or upgrades the one that is named."""

    MAKE = "make"
    RENEW = "renew"
    UPGRADE = "upgrade"


class OnCancel(StrEnum):
    """When the licenses of a subscription end that was canceled: with what was paid, or then."""

    PAID_UNTIL = "paid_until"
    AT_ONCE = "at_once"


class MappedProduct(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a product of the shop makes. ``product`` is one of the texts in ``SaleLine.refs``, or
    ``ANY_PRODUCT``; without a policy, it makes no license, and of a bundle, one of each policy.
    """

    product: str
    policy_id: int | None = None
    quantity: QuantityRule = QuantityRule.KEYS
    more_policy_ids: tuple[int, ...] = ()
    does: Does = Does.MAKE

    @property
    def all_policy_ids(self) -> tuple[int, ...]:
        """All policies that are named."""
        return () if self.policy_id is None else (self.policy_id, *self.more_policy_ids)

    @property
    def policy_ids(self) -> tuple[int, ...]:
        """The policies of the licenses that each unit makes."""
        return self.all_policy_ids if self.does is Does.MAKE else ()


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A shop that sends its events here. Its secrets are not part of it.

    ``url`` is the address of a shop that has no API address of its own (WooCommerce: the site).
    ``paid_states`` are the order states that make licenses, where the shop's module lets vendors choose.
    """

    id: int
    shop: Shop
    name: str
    mode: Mode = Mode.LIVE
    mapping: tuple[MappedProduct, ...] = ()
    url: str | None = None
    paid_states: tuple[str, ...] = ()
    #: Whether buyers get the mail *your license*, and its template where it is not the usual one.
    sends_mail: bool = True
    mail_template: str | None = None
    on_cancel: OnCancel = OnCancel.PAID_UNTIL
    #: Names in the metadata of a sale: of the buyer's external ID, and of what licenses get of it.
    external_id_name: str | None = None
    metadata_names: tuple[str, ...] = ()
    has_api_key: bool = False
    #: The events that the shop was not asked to send; None where it was not asked for them yet.
    missing_topics: tuple[str, ...] | None = None
    #: When the last event came, and how many have failed in a row since.
    last_event_at: datetime | None = None
    failures: int = 0
    created_at: datetime
    updated_at: datetime


# --- what an event means --------------------------------------------------------------------------


class Buyer(msgspec.Struct, frozen=True):
    """Who bought. ``language`` is a tag like ``pt-BR``, as the shop sends it."""

    email: str
    name: str | None = None
    language: str | None = None


class SaleLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of an order, or of a subscription. ``number`` identifies it among the lines, and is the same
    whenever the shop reports it. ``refs`` are looked for in the connection's mapping, in this order: price,
    variation, product, SKU, where the shop has them. ``recurs``: whether the subscription that the order
    begins pays for it again; None where the shop does not state it. ``license_ref``: which license it renews
    or upgrades.
    """

    number: str
    refs: tuple[str, ...]
    quantity: int = 1
    title: str = ""
    recurs: bool | None = None
    license_ref: str | None = None


class Sale(msgspec.Struct, frozen=True, tag="sale", kw_only=True):
    """An order is paid. It makes a license for every line and unit that has none yet.

    ``order`` is the text by which later events (a refund) name this payment. With ``subscription``, it is
    the first payment of that; ``until`` is the end of the time paid, where the event has it;
    ``needs_period``: another event is to state it; ``metadata`` are texts and numbers.
    """

    order: str
    lines: tuple[SaleLine, ...] = ()
    buyer: Buyer | None = None
    subscription: str | None = None
    until: datetime | None = None
    needs_period: bool = False
    metadata: Mapping[str, Any] = {}


class Renewal(msgspec.Struct, frozen=True, tag="renewal", kw_only=True):
    """A payment of a subscription: its licenses are good until then. ``order`` is the text by which a refund
    names this payment; the first payment of the subscription may be told so, too. Without it, the shop says
    until when the newest of the payments is that it told of otherwise. A payment without ``until`` is for no
    period: the difference when a subscription changes. ``lines`` are those that were paid, where it says so.
    ``is_change``: it is such a difference, and ``until`` is the end of the period that goes on: a refund of
    the payment does not take that away.
    """

    subscription: str
    until: datetime | None
    order: str | None = None
    lines: tuple[SaleLine, ...] = ()
    is_change: bool = False


class SaleState(StrEnum):
    """The state of an order or a subscription.

    ``grace``: a payment failed, and the shop tries again; ``suspended``: unpaid, paused, disputed;
    ``ended``: the subscription has ended; ``refunded``: in full, or charged back for good.
    """

    ACTIVE = "active"
    GRACE = "grace"
    SUSPENDED = "suspended"
    ENDED = "ended"
    REFUNDED = "refunded"


class Fact(StrEnum):
    """What a state of a payment is about; the values are the names of fields of ``Payment``. A refund is
    undone by nothing but a refund that was canceled (``ACTIVE``), a dispute by nothing but its end.
    """

    ORDER = "state"
    REFUND = "refund"
    DISPUTE = "dispute"


class StateChange(msgspec.Struct, frozen=True, tag="state", kw_only=True):
    """An order, or a subscription, has this state since the event's ``at``. One of both is given: a refund
    is of an order (the payment), a pause of a subscription, whose state is about no ``fact``.
    """

    state: SaleState
    order: str | None = None
    subscription: str | None = None
    fact: Fact = Fact.ORDER


class Lines(msgspec.Struct, frozen=True, tag="lines", kw_only=True):
    """The lines of a subscription, whole, as they are from the event's ``at`` on; with its state and the end
    of the time paid, where the shop says them in one. ``part`` distinguishes the subscriptions of one order,
    where this is named by that. ``is_asked``: the shop's API states it.
    """

    subscription: str
    lines: tuple[SaleLine, ...]
    part: str = ""
    state: SaleState | None = None
    until: datetime | None = None
    is_asked: bool = False


class Nothing(msgspec.Struct, frozen=True, tag="nothing"):
    """The event changes nothing here. ``reason`` is for people, a few words."""

    reason: str = ""


Change = Sale | Renewal | StateChange | Lines | Nothing


class ShopEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event, as the shop's module reads it.

    ``id`` is what two deliveries of the same event share: the shop's event ID or, where there is none, a
    text of order, state and its time. ``at`` is the shop's own time of the change (not of the delivery),
    aware, with fractions of a second where the shop has them; None where it has none: then the time of
    the event's first arrival counts. ``needs_api`` says that ``complete`` has to
    ask the shop before the change can be made; ``lookup`` is what it needs for that. ``note`` is what else
    the event says, which nothing follows from: a few words.
    """

    id: str
    name: str
    at: datetime | None
    is_test: bool = False
    change: Change = Nothing()
    needs_api: bool = False
    lookup: str | None = None
    note: str = ""


class UnreadableOrder(msgspec.Struct, frozen=True):
    """An order of a shop's list that cannot be read: ``body`` is what ``read`` does not understand."""

    body: bytes
    reason: str


# --- what is kept ---------------------------------------------------------------------------------


class EventState(StrEnum):
    """``waiting``: for its turn, or another attempt; ``unmatched``: for a person; ``done``; ``ignored``: it
    changes nothing here.
    """

    WAITING = "waiting"
    DONE = "done"
    UNMATCHED = "unmatched"
    IGNORED = "ignored"


class Reason(StrEnum):
    """Why an event is unmatched or ignored, waits for another attempt, or has changed nothing."""

    UNREADABLE = "unreadable"
    NO_ADDRESS = "no_address"
    BAD_ADDRESS = "bad_address"
    UNKNOWN_PRODUCT = "unknown_product"
    UNUSABLE_POLICY = "unusable_policy"
    TOO_MANY = "too_many"
    UNKNOWN_ORDER = "unknown_order"
    NO_QUANTITY = "no_quantity"
    NO_LICENSE = "no_license"
    CHANGED_BY_HAND = "changed_by_hand"
    LIMIT_TOO_HIGH = "limit_too_high"
    SAME_MOMENT = "same_moment"
    NO_PERIOD = "no_period"
    PAID_NOT_HELD = "paid_not_held"
    API_KEY_MISSING = "api_key_missing"
    SHOP_UNAVAILABLE = "shop_unavailable"
    SHOP_REFUSED = "shop_refused"
    FAILED = "failed"
    FORGOTTEN = "forgotten"
    #: Ignored.
    NOT_NEEDED = "not_needed"
    OTHER_MODE = "other_mode"
    NOT_LICENSED = "not_licensed"
    ALREADY_REFUNDED = "already_refunded"
    #: Done, and nothing was changed, or what was changed by hand stays.
    KEPT_BY_HAND = "kept_by_hand"
    ALREADY_SO = "already_so"
    OLDER = "older"
    LISTED_BY_SUBSCRIPTION = "listed_by_subscription"
    IN_GRACE = "in_grace"
    NO_PERIOD_PAID = "no_period_paid"
    NOT_FOLLOWED = "not_followed"
    EXTERNAL_ID_TAKEN = "external_id_taken"


class Again(IntEnum):
    """Whether a person has asked for another attempt at an event: one that overwrites what was done by hand,
    or one that does not.
    """

    NO = 0
    OVERWRITE = 1
    KEEP = 2


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a shop sent. ``happened_at`` is the shop's own time; ``detail`` is for people, and has
    no address and no key.
    """

    id: int
    connection_id: int
    event_id: str
    name: str
    order_ref: str | None
    state: EventState
    reason: Reason | None
    detail: str | None
    happened_at: datetime
    received_at: datetime
    attempts: int
    is_forced: Again = Again.NO
    next_attempt_at: datetime | None


class Payload(msgspec.Struct, frozen=True):
    """What a shop sent: the headers that ``read`` needs, and the body."""

    headers: Mapping[str, str]
    body: bytes


class RemovedSales(NamedTuple):
    """The number of licenses that a connection has sold which was removed."""

    connection_id: int
    licenses: int


class Naming(NamedTuple):
    """Some events that name a customer, and the ID after which to continue; None behind the last one."""

    event_ids: tuple[int, ...]
    after_id: int | None


class OpenedConnection(msgspec.Struct, frozen=True):
    """A connection with its secrets; ``api_key`` is empty without one."""

    connection: Connection
    secret: str
    api_key: str


class OpenedEvent(msgspec.Struct, frozen=True):
    """A stored event with its payload, None once that was forgotten, and its connection."""

    stored: StoredEvent
    payload: Payload | None
    opened: OpenedConnection
