"""The objects that every page works with."""

from dataclasses import dataclass

from jinja2 import Environment

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.http.middleware.body import BodyReader
from keywright.http.pages.rights import PageRight
from keywright.http.pages.runner import Runner
from keywright.search.statistics import RecentFigures


@dataclass(frozen=True)
class MenuItem:
    """A section in the menu. It is shown to users who have any of the rights."""

    label: str
    path: str
    icon: str
    rights: frozenset[PageRight]
    is_for_enrolling: bool


@dataclass(frozen=True, kw_only=True)
class Site:
    """The objects that every page works with."""

    settings: Settings
    runner: Runner
    templates: Environment
    menu: tuple[MenuItem, ...]
    #: Reads forms.
    body_reader: BodyReader
    #: Has the number of API calls.
    counters: Counters
    figures: RecentFigures
    #: When this server process started, by ``monotonic``.
    started_at: float
