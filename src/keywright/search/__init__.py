"""What people look for in the pages: licenses by what they have in common or by what somebody typed, figures
about all of them, and what happened.

An answer comes within a time budget, however many licenses there are: a list that could not be filled until
then says so, and goes on where it stopped.
"""

from keywright.search.details import EventPage, LicenseDetails, get_license, list_events
from keywright.search.filters import Order, Search
from keywright.search.license_pages import MatchingIds, Page, find_matching_ids, find_page
from keywright.search.query_parser import Interpretation, interpret
from keywright.search.statistics import Figures, Overview, RecentFigures, count_figures, overview
from keywright.search.store import EventRecord, Refused, licenses_there

__all__ = [
    "EventPage",
    "EventRecord",
    "Figures",
    "Interpretation",
    "LicenseDetails",
    "MatchingIds",
    "Order",
    "Overview",
    "Page",
    "RecentFigures",
    "Refused",
    "Search",
    "count_figures",
    "find_matching_ids",
    "find_page",
    "get_license",
    "interpret",
    "licenses_there",
    "list_events",
    "overview",
]
