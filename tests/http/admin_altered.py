"""Keywright with something altered, so that a test can meet what is rare otherwise: run as a program, it
takes the name of what is altered, and then what ``keywright`` takes.
"""

import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from errno import EACCES
from os import strerror
from pathlib import Path
from time import sleep
from typing import Any

from keywright.cli import main
from keywright.core.command import Command
from keywright.core.errors import StoreUnavailable
from keywright.db import ReadTransaction
from keywright.events.commands import RecordEvent
from keywright.http.pages.runner import Runner
from keywright.search import license_pages, projector, scan, statistics

MAY_COUNT = "may-count"

# What is altered in them is theirs alone to know.
_figures: Any = statistics
_finding: Any = license_pages
_following: Any = projector
_hunting: Any = scan
_path: Any = Path
_runner: Any = Runner


def looks_once() -> None:
    """A search is over after its first step, which is so short that a few licenses are enough for that."""
    _hunting.MAX_COUNTED, _hunting._SHORTEST_STEP = 0, 5
    _finding.find_page.__kwdefaults__["budget"] = 0.0


def never_begins_to_follow() -> None:
    """Nothing of what there is can be searched for."""
    _following._begin = lambda *_: 0


def follows_nothing_new() -> None:
    """What happens cannot be searched for."""
    _following._follow_events = lambda *_: 0


def counts_when_told() -> None:
    """Figures are old after five seconds, as few as they are; they are counted while there is a file
    ``may-count`` where the server runs.
    """
    count, init = statistics.count_figures, statistics.RecentFigures.__init__

    def count_figures(tx: ReadTransaction, now: datetime) -> statistics.Figures:
        while not Path(MAY_COUNT).exists():
            sleep(0.01)
        return count(tx, now)

    def old_soon(self: statistics.RecentFigures, *_: Any, enqueue: Any, **__: Any) -> None:
        init(self, timedelta(seconds=5), few=-1, many=-1, enqueue=enqueue)

    _figures.count_figures = count_figures
    _figures.RecentFigures.__init__ = old_soon


def writes_nothing_down() -> None:
    """As if the database were gone whenever a page wants something written down."""
    right = Runner.change

    def change(self: Runner, command: Command) -> Any:
        if isinstance(command, RecordEvent):
            raise StoreUnavailable("it is gone")
        return right(self, command)

    _runner.change = change


def may_not_touch_backups() -> None:
    """As if they were somebody else's."""
    for name in ("open", "unlink"):
        setattr(_path, name, _refusing(getattr(_path, name)))


def _refusing(right: Callable[..., Any]) -> Callable[..., Any]:
    def method(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.suffix == ".tar":
            raise PermissionError(EACCES, strerror(EACCES), str(path))
        return right(path, *arguments, **named)

    return method


def altered(alteration: Callable[[], None]) -> list[str]:
    """What to run in place of the command ``keywright``."""
    return [sys.executable, "-P", __file__, alteration.__name__]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    main(sys.argv[2:])
