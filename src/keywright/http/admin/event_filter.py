"""The filter of events, as addresses and forms spell it."""

from collections.abc import Mapping
from typing import NamedTuple
from zoneinfo import ZoneInfo

from keywright.db import ReadTransaction
from keywright.http.admin import event_text
from keywright.http.admin.name_suggestions import read_number
from keywright.http.admin.periods import Period, read_period
from keywright.http.pages.inputs import parse_number
from keywright.http.pages.reasons import explain
from keywright.http.pages.request import PageRequest
from keywright.http.pages.zones import UTC_NAME, zone_of
from keywright.provisioning.catalog.model import NameKind
from keywright.search import event_pages
from keywright.search.event_pages import EventPage
from keywright.search.store import EventFilter

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
