"""The site of the administration pages."""

from dataclasses import dataclass

from keywright.background.counters import Counters
from keywright.http.pages.site import Site
from keywright.search.statistics import RecentFigures


@dataclass(frozen=True, kw_only=True)
class AdminSite(Site):
    """The objects that administration pages work with."""

    #: Has the number of API calls.
    counters: Counters
    figures: RecentFigures
    #: When this server process started, by ``monotonic``.
    started_at: float
