"""Events as a file for spreadsheets."""

import codecs
from collections.abc import Iterator
from typing import Any

from keywright.http.admin import event_views
from keywright.http.admin.event_filter import Filter, list_filtered
from keywright.http.admin.event_text import EventNames, describe, describe_actor
from keywright.http.pages.request import PageRequest
from keywright.identity.model import User
from keywright.provisioning.exporters.rows import EVENT, event_row, to_csv
from keywright.search.store import EventRecord

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
