"""Events on pages: as lists, filtered, and as a file.

A page reads events from ``keywright.search``, finds the names to which they refer, and builds views:

    names = request.ask(lambda tx: event_views.find_names(tx, page.events))
    views = event_views.to_views(page.events, names, request.user)
"""

import codecs
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from markupsafe import Markup

from keywright.core.crypto import mask
from keywright.db.transaction import ReadTransaction
from keywright.events.model import Event, OutboxMail
from keywright.http.admin import event_text
from keywright.http.admin.event_text import (
    NO_NAMES,
    PEOPLE,
    EventNames,
    FieldChange,
    describe,
    describe_actor,
    describe_in_html,
    hidden_prefix,
    list_changes,
)
from keywright.http.admin.name_suggestions import read_number
from keywright.http.admin.periods import PRESETS, Period, read_period
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import UTC_NAME, zone_of
from keywright.http.pages.forms import parse_number
from keywright.http.pages.render import has_right
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right, User
from keywright.identity.store import list_api_keys, list_users
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.provisioning.exporters import EVENT, event_row, to_csv
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import find_titles, names_of
from keywright.search import feed, terms_store
from keywright.search.feed import EventPage
from keywright.search.reports_rules import parse_counted
from keywright.search.store import EventFilter, EventRecord, Owner

#: The path of the page for each kind of ID in event details, and the right that the page needs.
_DETAIL_PAGES = {"job_id": ("/jobs", Right.LOOK), "user_id": ("/users", Right.ADMINISTER)}
_MAX_SHOWN_OF_TOKEN, _MAX_SHOWN_OF_FINGERPRINT = 8, 16


class Device(Protocol):
    """An activation, or its database row."""

    @property
    def label(self) -> str | None:
        """Its label."""

    @property
    def fingerprint(self) -> str | None:
        """The device's fingerprint."""

    @property
    def token(self) -> str:
        """Its token."""


#: The actor of events that the server itself causes.
_ITSELF = "keywright"


class Named(NamedTuple):
    """The ID and name of a customer or product."""

    id: int
    name: str


class EventView(NamedTuple):
    """An event as a page shows it; ``license_id`` is None if it is not about a license."""

    id: int
    occurred_at: datetime
    name: str
    text: Markup
    changes: tuple[FieldChange, ...]
    actor: str
    #: Whether the actor is not the server itself.
    is_by_person: bool
    address: str
    license_id: int | None
    #: The customer and the product of the license.
    customer: Named | None
    product: Named | None
    #: The license's key, masked; "" if there is none.
    key: str
    #: The license's activation count after the event, and its limit.
    taken: int | None
    limit: int | None
    #: The path of the page to link, below /admin; "" if there is none.
    path: str


def to_views(
    records: Iterable[EventRecord], names: EventNames = NO_NAMES, reader: User | None = None
) -> list[EventView]:
    """Events as a page shows them. IP addresses that the ``reader`` may not see are omitted."""
    return [to_view(one, names, reader) for one in records]


def to_view(record: EventRecord, names: EventNames = NO_NAMES, reader: User | None = None) -> EventView:
    """An event as a page shows it. An IP address that the ``reader`` may not see is omitted."""
    event, owner = record.event, names.owners.get(record.event.license_id)
    details = event.details or {}
    return EventView(
        id=record.id,
        occurred_at=event.occurred_at,
        name=event.name,
        text=describe_in_html(event, names),
        changes=list_changes(event, names.products, names.customers),
        actor=describe_actor(event.actor, names),
        is_by_person=event.actor != _ITSELF,
        address="" if is_address_hidden(event, reader) else event.ip_address,
        license_id=event.license_id or None,
        customer=None if owner is None else _name(owner.customer_id, names.customers),
        product=None if owner is None else _name(owner.product_id, names.products),
        key="" if owner is None else owner.key,
        taken=details.get("activation_count"),
        limit=details.get("max_activations"),
        path=_find_path(event, names, reader),
    )


def is_address_hidden(event: Event, reader: User | None) -> bool:
    """Whether the event's IP address is a colleague's, which this reader may not see."""
    return reader is not None and hidden_prefix(reader) is not None and event.actor.startswith(PEOPLE)


def find_names(tx: ReadTransaction, records: Iterable[EventRecord]) -> EventNames:
    """The names to which these events refer."""
    events = [one.event for one in records]
    known = find_licenses_by_id(tx, sorted({one.license_id for one in events} - {0}))
    owners = {id: Owner(one.customer_id, one.product_id, mask(one.key)) for id, one in known.items()}
    products = _numbers_of(events, "product_id") | {one.product_id for one in owners.values()}
    customers = _numbers_of(events, "customer_id") | {one.customer_id for one in owners.values()}
    has_api_keys = any(one.actor.startswith("api_key:") or one.name.startswith("api_key.") for one in events)
    has_users = any(one.actor.startswith("user:") for one in events)
    places = {
        (one.license_id, one.activation_id)
        for one in events
        if one.activation_id is not None and one.license_id in owners
    }
    return EventNames(
        users={one.id: one.name for one in list_users(tx)} if has_users else {},
        api_keys={one.id: one.name for one in list_api_keys(tx)} if has_api_keys else {},
        products=names_of(tx, NameKind.PRODUCT, _without_none(products)),
        customers=find_titles(tx, _without_none(customers)),
        owners=owners,
        devices=_find_devices(tx, places),
    )


def device_name(activation: Device) -> str:
    """A readable name of a device: its label, or the beginning of its fingerprint or token."""
    if activation.label:
        return activation.label
    if activation.fingerprint:
        return _shorten(activation.fingerprint, _MAX_SHOWN_OF_FINGERPRINT)
    return _shorten(activation.token, _MAX_SHOWN_OF_TOKEN)


def _find_devices(
    tx: ReadTransaction, places: Collection[tuple[int, int]]
) -> dict[tuple[int, int | None], str]:
    numbers: dict[int, list[int]] = defaultdict(list)
    for license_id, activation_id in places:
        numbers[license_id].append(activation_id)
    found = terms_store.list_activations_by_id(tx, numbers)
    return {(one.license_id, one.id): device_name(one) for one in found}


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _without_none(numbers: Iterable[int | None]) -> set[int]:
    return {number for number in numbers if number is not None}


def _name(number: int | None, names: Mapping[int, str]) -> Named | None:
    return None if number is None else Named(number, names.get(number) or str(number))


def _find_path(event: Event, names: EventNames, reader: User | None) -> str:
    """The path of the page of the license, customer, product, job or user that an event is about; "" if there
    is none, or the reader may not open it.
    """
    if event.license_id:
        return f"/licenses/{event.license_id}" if event.license_id in names.owners else ""
    kind, field = event.name.partition(".")[0], event.details or {}
    if kind == "customer":
        return f"/customers/{field['number']}" if field.get("number") in names.customers else ""
    if kind == "product":
        return f"/products/{field['product_id']}" if field.get("product_id") in names.products else ""
    for name, number in field.items():
        path, right = _DETAIL_PAGES.get(name, ("", None))
        if right is not None and has_right(reader, right):
            return f"{path}/{number}"
    return ""


def _numbers_of(events: Iterable[Event], field: str) -> set[int | None]:
    """The IDs of products, or of customers, in the details of events."""
    found: set[int | None] = set()
    for one in events:
        details = one.details or {}
        if one.name.startswith(("license.", "api_key.", "product.")):
            value = details.get(field)
            found.update(value if isinstance(value, list) else [value])
        elif field == "customer_id" and one.name.startswith("customer."):
            found.add(details.get("number"))
    return found - {None}


_MAX_FILTER_LENGTH = 80


class Filter(NamedTuple):
    """A filter of events: its conditions, its period, and its fields as query parameters."""

    where: EventFilter
    period: Period
    fields: Mapping[str, str]
    #: Messages about invalid fields.
    errors: Mapping[str, str]

    @property
    def query(self) -> dict[str, str | None]:
        """The query parameters of the filter."""
        return {**self.fields, **self.period.query}

    @property
    def is_narrowing(self) -> bool:
        """Whether it excludes any events."""
        return any(self.query.values())


def read_filter(tx: ReadTransaction, request: PageRequest, **fixed: str) -> Filter:
    """The filter in the query of a request. It excludes events that the user may not see; ``fixed`` are
    fields that the page sets.
    """
    query, errors = {**request.query, **fixed}, dict[str, str]()
    period = read_period(query, request.now, reader_zone(request))
    numbers: dict[str, int | None] = {}
    for name, kind in (("customer", NameKind.CUSTOMER), ("product", NameKind.PRODUCT)):
        try:
            text = query.get(name, "")
            numbers[f"{name}_id"] = read_number(tx, kind, text) if text else None
        except ValueError as reason:
            errors[name] = explain(reason)
    where = EventFilter(
        name=query.get("what", "")[:_MAX_FILTER_LENGTH] or None,
        actor=query.get("who", "")[:_MAX_FILTER_LENGTH] or None,
        license_id=parse_number(query.get("license", "")),
        since=period.since,
        until=period.until,
        without=event_text.hidden_prefix(request.user),
        counted=parse_counted(query.get("counted", "")),
        **numbers,
    )
    fields = {
        "what": where.name or "",
        "who": where.actor or "",
        "customer": query.get("customer", "")[:_MAX_FILTER_LENGTH],
        "product": query.get("product", "")[:_MAX_FILTER_LENGTH],
        "license": "" if where.license_id is None else str(where.license_id),
        "counted": "" if where.counted is None else query["counted"],
        "zone": UTC_NAME if query.get("zone", "") == UTC_NAME else "",
    }
    return Filter(where, period, fields, errors)


def reader_zone(request: PageRequest) -> ZoneInfo:
    """The user's time zone, in which days are counted."""
    return zone_of(request.browser.cookies, request.site.settings.time_zone)


def list_filtered(tx: ReadTransaction, filter_: Filter, before_id: int | None, limit: int) -> EventPage:
    """The newest matching events before the one with this ID; none if the filter has errors."""
    if filter_.errors:
        return EventPage((), None, is_incomplete=False)
    return feed.list_events(tx, filter_.where, before_id=before_id, limit=limit)


#: The number of events that are read at once for a file.
_AT_ONCE = 500
_COLUMNS = (*EVENT, "event", "by", "customer_id", "customer", "product_id", "product", "device")


def to_file(request: PageRequest, filter_: Filter) -> Iterator[bytes]:
    """The matching events as CSV in UTF-8, newest first; each chunk is read just before it is sent."""
    yield codecs.BOM_UTF8 + to_csv([_COLUMNS])
    before_id: int | None = None
    while True:
        found = request.ask(lambda tx, before=before_id: list_filtered(tx, filter_, before, _AT_ONCE))  # type: ignore[misc]
        names = request.ask(lambda tx, events=found.events: find_names(tx, events))  # type: ignore[misc]
        yield to_csv([_row(one, names, request.user) for one in found.events])
        before_id = found.before_id
        if before_id is None:
            return


def _row(record: EventRecord, names: EventNames, reader: User) -> list[Any]:
    event, view = record.event, to_view(record, names, reader)
    row = dict(zip(EVENT, event_row(record.id, event), strict=True)) | {"ip_address": view.address}
    owners = [part for one in (view.customer, view.product) for part in (one or (None, None))]
    device = names.devices.get((event.license_id, event.activation_id))
    return [*row.values(), describe(event, names), describe_actor(event.actor, names), *owners, device]


_EVENTS = 20


def read_timeline(
    tx: ReadTransaction, request: PageRequest, mails: Sequence[OutboxMail] = (), **owner: str
) -> dict[str, Any]:
    """The newest events of a customer or product in the period of the query, merged with the mails of the
    same time.
    """
    filter_ = read_filter(tx, request, **owner)
    found = list_filtered(tx, filter_, None, _EVENTS)
    names = find_names(tx, found.events)
    events = to_views(found.events, names, request.user)
    since, until = filter_.where.since, filter_.where.until
    if found.before_id is not None and events:
        since = events[-1].occurred_at
    shown = [
        (one.created_at, one)
        for one in mails
        if (since is None or one.created_at >= since) and (until is None or one.created_at < until)
    ]
    happened: list[tuple[datetime, Any]] = [(one.occurred_at, one) for one in events]
    return {
        "filter": filter_,
        "presets": PRESETS,
        "happened": sorted(happened + shown, key=itemgetter(0), reverse=True),
        "has_more_events": found.before_id is not None,
    }
