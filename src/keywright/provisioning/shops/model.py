"""Connections to shops, the events that shops send, and their stored form."""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import msgspec

#: The product in a mapping entry that stands for every product without an entry.
ANY_PRODUCT = "*"


class Shop(StrEnum):
    """The shops that have a module."""

    STRIPE = "stripe"
    PADDLE = "paddle"
    WOOCOMMERCE = "woocommerce"
    LEMONSQUEEZY = "lemonsqueezy"
    GENERIC = "generic"


#: The shops that generate the secret of a webhook; the others are given one.
MAKE_SECRETS = frozenset({Shop.STRIPE, Shop.PADDLE})


class Mode(StrEnum):
    """Whether a connection is for live or for test events; events of the other kind make nothing."""

    LIVE = "live"
    TEST = "test"


class QuantityRule(StrEnum):
    """What a quantity buys: one license per unit, or one license with the devices multiplied."""

    KEYS = "keys"
    DEVICES = "devices"


class Does(StrEnum):
    """What a product of the shop does: make licenses, or renew or upgrade the license that is named."""

    MAKE = "make"
    RENEW = "renew"
    UPGRADE = "upgrade"


class OnCancel(StrEnum):
    """When the licenses of a canceled subscription end: when the paid time ends, or at once."""

    PAID_UNTIL = "paid_until"
    AT_ONCE = "at_once"


class MappedProduct(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of a connection's mapping. ``product`` is one of the texts in ``SaleLine.refs``, or
    ``ANY_PRODUCT``. Without a policy, the product makes no license; with several (a bundle), it makes one
    license of each.
    """

    product: str
    policy_id: int | None = None
    quantity: QuantityRule = QuantityRule.KEYS
    more_policy_ids: tuple[int, ...] = ()
    does: Does = Does.MAKE

    @property
    def all_policy_ids(self) -> tuple[int, ...]:
        """All policies of the entry."""
        return () if self.policy_id is None else (self.policy_id, *self.more_policy_ids)

    @property
    def policy_ids(self) -> tuple[int, ...]:
        """The policies of the licenses that each unit makes."""
        return self.all_policy_ids if self.does is Does.MAKE else ()


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection to a shop that sends its events here. It does not contain its secrets.

    ``url`` is the address of a shop whose API has no common address (WooCommerce: the site). ``paid_states``
    are the order states that make licenses, if the shop's module lets vendors choose.
    """

    id: int
    shop: Shop
    name: str
    mode: Mode = Mode.LIVE
    mapping: tuple[MappedProduct, ...] = ()
    url: str | None = None
    paid_states: tuple[str, ...] = ()
    #: Whether buyers get the mail *your license*, and its template, None for the default one.
    sends_mail: bool = True
    mail_template: str | None = None
    on_cancel: OnCancel = OnCancel.PAID_UNTIL
    #: Keys in a sale's metadata: the one with the buyer's external ID, and those that are copied to licenses.
    external_id_name: str | None = None
    metadata_names: tuple[str, ...] = ()
    has_api_key: bool = False
    #: The events that the shop is not set up to send; None if the shop was not asked yet.
    missing_topics: tuple[str, ...] | None = None
    #: When the last event was received, and how many events in a row are unmatched.
    last_event_at: datetime | None = None
    failures: int = 0
    created_at: datetime
    updated_at: datetime


# --- the content of events ------------------------------------------------------------------------


class Buyer(msgspec.Struct, frozen=True):
    """The buyer. ``language`` is a tag like ``pt-BR``, as the shop sends it."""

    email: str
    name: str | None = None
    language: str | None = None


class SaleLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of an order, or of a subscription. ``number`` identifies it among the lines, and is the same
    in every report of the shop. ``refs`` are looked up in the connection's mapping, in this order: price,
    variation, product, SKU, if the shop has them. ``recurs``: whether the subscription that starts
    with the order pays for the line again; None if the shop does not state it. ``license_ref`` identifies the
    license to renew or upgrade.
    """

    number: str
    refs: tuple[str, ...]
    quantity: int = 1
    title: str = ""
    recurs: bool | None = None
    license_ref: str | None = None


class Sale(msgspec.Struct, frozen=True, tag="sale", kw_only=True):
    """A paid order. It makes a license for every line and unit that has none yet.

    ``order`` is the text by which later events (a refund) refer to this payment. With ``subscription``, it is
    that subscription's first payment; ``until`` is the end of the paid time, if the event states it;
    ``needs_period``: another event will state it. The values in ``metadata`` are texts and numbers.
    """

    order: str
    lines: tuple[SaleLine, ...] = ()
    buyer: Buyer | None = None
    subscription: str | None = None
    until: datetime | None = None
    needs_period: bool = False
    metadata: Mapping[str, Any] = {}


class Renewal(msgspec.Struct, frozen=True, tag="renewal", kw_only=True):
    """A payment of a subscription, whose licenses are valid until ``until``. ``order`` is the text by which a
    refund refers to this payment; the subscription's first payment may be reported as a renewal, too. Without
    ``order``, the event states the end of the period of the newest payment that was reported separately. A
    payment without ``until`` does not pay for a period, but for the difference when a subscription changes.
    ``lines`` are the paid lines, if the shop states them. ``is_change``: the payment is such a difference,
    and ``until`` is the end of the current period, which a refund of the payment does not take away.
    """

    subscription: str
    until: datetime | None
    order: str | None = None
    lines: tuple[SaleLine, ...] = ()
    is_change: bool = False


class SaleState(StrEnum):
    """The state of an order or a subscription.

    ``grace``: a payment failed, and the shop retries it; ``suspended``: unpaid, paused or disputed;
    ``ended``: the subscription has ended; ``refunded``: in full, or charged back for good.
    """

    ACTIVE = "active"
    GRACE = "grace"
    SUSPENDED = "suspended"
    ENDED = "ended"
    REFUNDED = "refunded"


class Fact(StrEnum):
    """The aspect of a payment that a state is about; the values are the names of fields of ``Payment``. Only
    a canceled refund (``ACTIVE``) undoes a refund, and only the end of a dispute undoes the dispute.
    """

    ORDER = "state"
    REFUND = "refund"
    DISPUTE = "dispute"


class StateChange(msgspec.Struct, frozen=True, tag="state", kw_only=True):
    """An order, or a subscription, has this state since the event's ``at``. Exactly one of both is given: a
    refund is about an order (the payment), a pause about a subscription, for which ``fact`` is not used.
    """

    state: SaleState
    order: str | None = None
    subscription: str | None = None
    fact: Fact = Fact.ORDER


class Lines(msgspec.Struct, frozen=True, tag="lines", kw_only=True):
    """All lines of a subscription, from the event's ``at`` on, with its state and the end of the paid time,
    if the event states them. ``part`` distinguishes the subscriptions of one order, if ``subscription`` is
    the ID of that order. ``is_asked``: the lines are an answer of the shop's API.
    """

    subscription: str
    lines: tuple[SaleLine, ...]
    part: str = ""
    state: SaleState | None = None
    until: datetime | None = None
    is_asked: bool = False


class Nothing(msgspec.Struct, frozen=True, tag="nothing"):
    """The event changes nothing here. ``reason`` explains it to people, in a few words."""

    reason: str = ""


Change = Sale | Renewal | StateChange | Lines | Nothing


class ShopEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event, as the shop's module reads it.

    ``id`` is the same for all deliveries of an event: the shop's event ID or, if there is none, a text of
    order, state and its time. ``at`` is the shop's own time of the change (not of the delivery), aware, with
    fractions of a second if the shop has them; None if the shop states none: then the time at which the event
    was first received counts. ``needs_api``: ``complete`` has to call the shop's API before the change can be
    made; ``lookup`` is what it needs for that. ``note`` names, in a few words, what else the event states
    that Keywright does not follow.
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
    """An order of a shop's list that cannot be read: ``body`` is what ``read`` rejects."""

    body: bytes
    reason: str


# --- what is stored -------------------------------------------------------------------------------


class EventState(StrEnum):
    """``waiting``: for processing, or for another attempt; ``unmatched``: for a person; ``ignored``: it
    changes nothing here.
    """

    WAITING = "waiting"
    DONE = "done"
    UNMATCHED = "unmatched"
    IGNORED = "ignored"


class Reason(StrEnum):
    """Why an event is unmatched or ignored, waits for another attempt, or changed nothing."""

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
    #: For ignored events.
    NOT_NEEDED = "not_needed"
    OTHER_MODE = "other_mode"
    NOT_LICENSED = "not_licensed"
    ALREADY_REFUNDED = "already_refunded"
    #: For events that are done, but changed nothing, or left what was changed by hand.
    KEPT_BY_HAND = "kept_by_hand"
    ALREADY_SO = "already_so"
    OLDER = "older"
    LISTED_BY_SUBSCRIPTION = "listed_by_subscription"
    IN_GRACE = "in_grace"
    NO_PERIOD_PAID = "no_period_paid"
    NOT_FOLLOWED = "not_followed"
    EXTERNAL_ID_TAKEN = "external_id_taken"


class Again(IntEnum):
    """Whether a person has asked for another attempt at an event: ``OVERWRITE`` replaces what was done by
    hand, ``KEEP`` does not.
    """

    NO = 0
    OVERWRITE = 1
    KEEP = 2


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a shop sent. ``happened_at`` is the shop's own time; ``detail`` is for people, and
    contains no address and no key.
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
    """The request of a shop: the headers that ``read`` needs, and the body."""

    headers: Mapping[str, str]
    body: bytes


class RemovedSales(NamedTuple):
    """The ID of a removed connection, and the number of licenses that it has sold."""

    connection_id: int
    licenses: int


class Naming(NamedTuple):
    """Some events that name a customer, and the ID after which to continue; None if there are no more."""

    event_ids: tuple[int, ...]
    after_id: int | None


class OpenedConnection(msgspec.Struct, frozen=True):
    """A connection with its secrets; ``api_key`` is empty without one."""

    connection: Connection
    secret: str
    api_key: str


class OpenedEvent(msgspec.Struct, frozen=True):
    """A stored event, its payload, None if that was deleted, and its connection."""

    stored: StoredEvent
    payload: Payload | None
    opened: OpenedConnection
