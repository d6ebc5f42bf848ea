"""The tiers of tests: what ``make quick``, ``make test`` and ``.ci/run`` run (``pytest --tier``).

The folder of a test, its mark ``tier`` and the kind of database that it runs on decide its tier.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from pathlib import Path

import pytest

from tests.databases import KINDS

TESTS = Path(__file__).parent


class Tier(StrEnum):
    """Each test belongs to one of these."""

    #: Rules, parsing, and storage on SQLite: for every save of a file.
    QUICK = "quick"
    #: What else a change can break in ordinary use.
    ORDINARY = "ordinary"
    #: More of all that on PostgreSQL, faults, histories, power, fuzzing, browser, deploy, soak.
    REST = "rest"


#: The tiers that each value of the option runs; ``ordinary`` includes ``quick``.
OPTIONS = {
    "quick": frozenset({Tier.QUICK}),
    "ordinary": frozenset({Tier.QUICK, Tier.ORDINARY}),
    "rest": frozenset({Tier.REST}),
    "all": frozenset(Tier),
}
#: All tests of the run before those of other tiers were left out.
COLLECTED = pytest.StashKey[list[pytest.Item]]()
QUICK_FOLDERS = ("unit", "storage")
#: Clients in these are tested with the rest: ``make test`` needs nothing but Python.
OTHER_LANGUAGES = frozenset({"javascript", "go", "php", "csharp"})
ORDINARY_FOLDERS = ("http", "cli", "clients", "concurrency")


def tier_of(item: pytest.Item) -> Tier:
    """The tier that the test's mark names; otherwise, that of its folder and its database."""
    folder, database = _folder(item.path), _database(item)
    is_in_both = any(map(item.get_closest_marker, ("smoke", "of_the_database")))
    if database not in KINDS or (folder == "storage" and database != "sqlite" and not is_in_both):
        return Tier.REST
    if mark := item.get_closest_marker("tier"):
        return Tier(mark.args[0])
    if folder == "clients" and _parameters(item) & OTHER_LANGUAGES:
        return Tier.REST
    if folder in QUICK_FOLDERS and database == "sqlite":
        return Tier.QUICK
    is_ordinary = folder in (*QUICK_FOLDERS, *ORDINARY_FOLDERS) and (is_in_both or database == "sqlite")
    return Tier.ORDINARY if is_ordinary else Tier.REST


def is_left_out(path: Path, option: str) -> bool:
    """Whether this option needs nothing in this folder or module of tests. It is not even imported then: that
    takes most of the time before the first test, in each of the processes.
    """
    if path.is_dir():
        return path.parent == TESTS and all(is_left_out(module, option) for module in _modules(path))
    folder = _folder(path)
    if path.parent == TESTS or not path.match("test_*.py") or option == "all":
        return False
    if option == "quick":
        return folder not in QUICK_FOLDERS
    has_others = (
        folder not in (*QUICK_FOLDERS, *ORDINARY_FOLDERS) if option == "ordinary" else folder == "unit"
    )
    return has_others and f'tier("{option}")' not in path.read_text(encoding="utf-8")


def _modules(folder: Path) -> Iterable[Path]:
    """The modules of tests in this folder."""
    return (path for path in folder.rglob("test_*.py") if not {"node_modules", ".venv"} & {*path.parts})


@cache
def _folder(path: Path) -> str:
    """The folder below ``tests`` that the file is in; the name of the file if it is in none."""
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def _parameters(item: pytest.Item) -> frozenset[str]:
    """The IDs of the test's parameters."""
    callspec = getattr(item, "callspec", None)
    return frozenset(callspec.id.split("-")) if callspec else frozenset()


def _database(item: pytest.Item) -> str:
    """The kind of database that the test runs on; SQLite for one that needs none."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("database", "sqlite")) if callspec else "sqlite"
