"""The filter of events, as addresses and forms spell it, and events as a file."""

import codecs
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from keywright.db import ReadTransaction
from keywright.http.admin import event_text, event_views
from keywright.http.admin.event_text import EventNames, describe, describe_actor
from keywright.http.admin.name_suggestions import read_number
from keywright.http.admin.periods import Period, read_period
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import UTC_NAME, zone_of
from keywright.http.pages.inputs import parse_number
from keywright.http.pages.request import PageRequest
from keywright.identity.model import User
from keywright.provisioning.exporters import EVENT, event_row, to_csv
from keywright.provisioning.products import NameKind
from keywright.search import event_pages
from keywright.search.event_pages import EventPage
from keywright.search.store import EventFilter, EventRecord

_MAX_FILTER_LENGTH = 80


class Filter(NamedTuple):
    """A filter of events: its conditions, its period, and its fields as the address has them."""

    where: EventFilter
    period: Period
    fields: Mapping[str, str]
    #: Messages about fields that are wrong.
    errors: Mapping[str, str]

    @property
    def query(self) -> dict[str, str | None]:
        """The parameters of the address."""
        return {**self.fields, **self.period.query}

    @property
    def is_narrowing(self) -> bool:
        """Whether it excludes any events."""
        return any(self.query.values())


def read_filter(tx: ReadTransaction, request: PageRequest, **fixed: str) -> Filter:
    """The filter in the query of a request, without what the user may not see; ``fixed`` are fields that the
    page sets.
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
        **numbers,
    )
    fields = {
        "what": where.name or "",
        "who": where.actor or "",
        "customer": query.get("customer", "")[:_MAX_FILTER_LENGTH],
        "product": query.get("product", "")[:_MAX_FILTER_LENGTH],
        "license": "" if where.license_id is None else str(where.license_id),
        "zone": UTC_NAME if query.get("zone", "") == UTC_NAME else "",
    }
    return Filter(where, period, fields, errors)


def reader_zone(request: PageRequest) -> ZoneInfo:
    """The time zone in which the user counts days."""
    return zone_of(request.browser.cookies, request.site.settings.time_zone)


def list_filtered(tx: ReadTransaction, filter_: Filter, before_id: int | None, limit: int) -> EventPage:
    """The newest events that match before the one with this id; none where the filter is wrong."""
    if filter_.errors:
        return EventPage((), None, is_incomplete=False)
    return event_pages.list_events(tx, filter_.where, before_id=before_id, limit=limit)


#: The number of events that are read at once.
_AT_ONCE = 500
_COLUMNS = (*EVENT, "event", "by", "customer_id", "customer", "product_id", "product", "device")


def to_file(request: PageRequest, filter_: Filter) -> Iterator[bytes]:
    """The matching events as CSV in UTF-8, newest first; each piece is read when it is sent."""
    yield codecs.BOM_UTF8 + to_csv([_COLUMNS])
    before_id: int | None = None
    while True:
        found = request.ask(lambda tx, before=before_id: list_filtered(tx, filter_, before, _AT_ONCE))  # type: ignore[misc]
        names = request.ask(lambda tx, events=found.events: event_views.find_names(tx, events))  # type: ignore[misc]
        yield to_csv([_row(one, names, request.user) for one in found.events])
        before_id = found.before_id
        if before_id is None:
            return


def _row(record: EventRecord, names: EventNames, reader: User) -> list[Any]:
    event, view = record.event, event_views.to_view(record, names, reader)
    row = dict(zip(EVENT, event_row(record.id, event), strict=True)) | {"ip_address": view.address}
    owners = [part for one in (view.customer, view.product) for part in (one or (None, None))]
    device = names.devices.get((event.license_id, event.activation_id))
    return [*row.values(), describe(event, names), describe_actor(event.actor, names), *owners, device]
