"""What happened lately to the licenses of a customer or of a product."""

from typing import Any

from keywright.db import ReadTransaction
from keywright.http.admin import event_views
from keywright.http.admin.event_filter import list_filtered, read_filter
from keywright.http.admin.periods import PRESETS
from keywright.http.pages.request import PageRequest

_EVENTS = 20


def read_timeline(tx: ReadTransaction, request: PageRequest, **owner: str) -> dict[str, Any]:
    """The newest events of a customer or a product, in the period that the query names."""
    filter_ = read_filter(tx, request, **owner)
    found = list_filtered(tx, filter_, None, _EVENTS)
    names = event_views.find_names(tx, found.events)
    return {
        "filter": filter_,
        "presets": PRESETS,
        "events": event_views.to_views(found.events, names, request.user),
        "has_more_events": found.before_id is not None,
    }
