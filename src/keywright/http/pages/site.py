"""The objects that every page works with."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from jinja2 import Environment

from keywright.config import Settings
from keywright.http.middleware.body import BodyReader
from keywright.http.pages.formats import Languages
from keywright.http.pages.rights import PageRight
from keywright.http.pages.runner import Runner


@dataclass(frozen=True)
class MenuItem:
    """A section in the menu, below the heading of its group. Users see it who have any of the rights."""

    group: str
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
    languages: Languages
    #: Reads forms.
    body_reader: BodyReader
    #: Called with the time of each request of a user who is signed in.
    on_visit: Callable[[datetime], None]
