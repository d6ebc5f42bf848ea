"""The site of the administration pages, and the signing keys that several of them show."""

from dataclasses import dataclass

from keywright.background.counters import Counters
from keywright.http.pages.request import PageRequest
from keywright.http.pages.site import Site
from keywright.search.statistics import RecentFigures
from keywright.signing import store
from keywright.signing.commands import MakeFirstKey
from keywright.signing.model import SigningKey


@dataclass(frozen=True, kw_only=True)
class AdminSite(Site):
    """The objects that administration pages work with."""

    #: Has the number of API calls.
    counters: Counters
    figures: RecentFigures
    #: When this server process started, by ``monotonic``.
    started_at: float


def list_signing_keys(request: PageRequest) -> list[SigningKey]:
    """Every key, the newest first; the first one is made if there is none."""
    found = request.ask(store.list_keys)
    return found or list(request.change(MakeFirstKey(context=request.context)).keys)
