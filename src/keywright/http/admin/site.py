"""The objects that administration pages share, and the signing keys that several of them show."""

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
    """The objects that administration pages share."""

    #: The counters of this process, such as the number of API calls.
    counters: Counters
    figures: RecentFigures
    #: When this server process started, by ``monotonic``.
    started_at: float


def list_signing_keys(request: PageRequest) -> list[SigningKey]:
    """All signing keys, the newest first. If there is none, the first one is created."""
    found = request.ask(store.list_keys)
    return found or list(request.change(MakeFirstKey(context=request.context)).keys)
