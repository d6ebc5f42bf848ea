"""Keywright with one part altered, for tests of rare conditions. As a program, it takes the name of an
alteration, and then the arguments of ``keywright``.
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
from keywright.events.model import RecordEvent
from keywright.http.pages.runner import Runner
from keywright.search import license_pages, projector, scan, statistics

MAY_COUNT = "may-count"


def _replace(owner: object, name: str, value: object) -> None:
    """Replace an attribute. Raises ``AttributeError`` if it does not exist."""
    getattr(owner, name)
    setattr(owner, name, value)


def search_in_one_step() -> None:
    """End searches after their first step, which is too short for even a few licenses."""
    _replace(scan, "MAX_COUNTED", 0)
    _replace(scan, "_SHORTEST_STEP", 5)
    defaults: Any = license_pages.find_page.__kwdefaults__
    assert "budget" in defaults
    defaults["budget"] = 0.0


def never_begin_to_project() -> None:
    """Write no search terms at all."""
    _replace(projector, "_begin", lambda *_: 0)


def project_no_new_events() -> None:
    """Do not update search terms."""
    _replace(projector, "_project_next_events", lambda *_: 0)


def count_when_told() -> None:
    """Let figures expire after five seconds, and count them only while a file ``may-count`` exists in the
    server's working directory.
    """
    count, init = statistics.count_figures, statistics.RecentFigures.__init__

    def count_figures(tx: ReadTransaction, now: datetime) -> statistics.Figures:
        while not Path(MAY_COUNT).exists():
            sleep(0.01)
        return count(tx, now)

    def init_short_lived(self: statistics.RecentFigures, *_: Any, enqueue: Any, **__: Any) -> None:
        init(self, timedelta(seconds=5), few=-1, many=-1, enqueue=enqueue)

    _replace(statistics, "count_figures", count_figures)
    _replace(statistics.RecentFigures, "__init__", init_short_lived)


def record_no_events() -> None:
    """Make the database unavailable whenever a page records an event."""
    original = Runner.change

    def change(self: Runner, command: Command) -> Any:
        if isinstance(command, RecordEvent):
            raise StoreUnavailable("it is gone")
        return original(self, command)

    _replace(Runner, "change", change)


def deny_access_to_backups() -> None:
    """Let backups belong to another user of the machine."""
    for name in ("open", "unlink"):
        _replace(Path, name, _deny(getattr(Path, name)))


def _deny(original: Callable[..., Any]) -> Callable[..., Any]:
    def method(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.suffix == ".tar":
            raise PermissionError(EACCES, strerror(EACCES), str(path))
        return original(path, *arguments, **named)

    return method


def altered(alteration: Callable[[], None]) -> list[str]:
    """The program to run instead of ``keywright``."""
    return [sys.executable, "-P", __file__, alteration.__name__]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    main(sys.argv[2:])
