"""Which tests run, on which databases, and in which order."""

import gc
import os
import random
import signal
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from keywright.identity import passwords
from tests.databases import KINDS, keep_files_in_memory, stop_postgres
from tests.makers import CHEAP
from tests.proving import IS_LONG
from tests.tiers import COLLECTED, OPTIONS, is_left_out, tier_of

#: How many seconds the longest tests or files take, about, by how their names begin. They start first, so
#: that none of them is left for the end.
LONGEST = {
    "tests/docs/test_documents.py": 50,
    "tests/docs/test_shop_pages.py": 45,
    "tests/packages/test_release.py": 150,
    "tests/http/test_shop_sales.py": 35,
    "tests/http/test_counters.py": 33,
    "tests/http/test_jobs_pages.py": 30,
    "tests/clients/test_servers.py": 24,
    "tests/http/test_admin_system.py": 22,
    "tests/http/test_webhooks_delivered.py": 22,
    "tests/http/test_admin_overview.py": 21,
    "tests/http/test_admin_pages.py": 21,
    "tests/storage/test_browsing.py": 20,
    "tests/http/test_jobs_worker.py": 19,
    "tests/concurrency/test_selling.py": 19,
    "tests/cli/test_mails.py": 17,
    "tests/http/test_upgrades.py": 17,
    "tests/unit/test_proof_tools.py::test_every_branch": 170,
    "tests/faults/test_failover.py": 65,
    "tests/deploy/test_containers.py": 100,
    "tests/http/test_jobs_servers.py::test_everything_is_done_once": 90,
    "tests/browser/test_every_page.py::test_every_page_is_accessible_and_fits_on_a_phone[ada]": 145,
    "tests/browser/test_every_page.py::test_every_page": 30,
    "tests/concurrency/test_webhooks_killed.py": 45,
    "tests/faults/test_shops_killed.py::test_no_sale_is_lost_or_doubled_when_servers": 40,
    "tests/browser/test_payloads.py::test_no_page_runs_what_others": 65,
    "tests/http/test_jobs_servers.py::test_an_import_that_is_killed": 75,
    "tests/http/test_model.py::test_the_server_answers": 30,
    "tests/docs/test_how_to.py::test_the_p": 30,
    "tests/deploy/test_rolling_restart.py::test_a_rolling": 30,
    "tests/http/test_jobs_servers.py::test_a_database_in_trouble": 30,
    "tests/faults/test_hung_database.py::test": 40,
    "tests/faults/test_kills.py::test_nothing": 25,
    "tests/faults/test_backup_under_load.py::test_a_backup": 20,
    "tests/faults/test_backup_broken_off.py::test_a_killed": 20,
    "tests/power/test_power_loss.py::test_what_was_acknowledged": 20,
}

_NAMES = tuple(LONGEST)

# No test fails because the machine is slow, and none by chance: each run draws the same examples. Fresh
# ones are for `make prove`.
_PATIENT = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _PATIENT, derandomize=True, database=None)
settings.register_profile("prove", _PATIENT)
settings.load_profile("prove" if IS_LONG else "ci")

# Without bytecode on the disk, each of the many servers that the tests start would compile Keywright again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# What is made until the first test stays until the end: to look through it again and again takes a second.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let ``--tier`` select tests, ``--reversed`` their order, and ``--seed`` what they draw."""
    parser.addoption("--tier", choices=OPTIONS, default="all", help="which tests to run (tests/tiers.py)")
    parser.addoption("--reversed", action="store_true", help="run the last file first")
    seed = str(random.randrange(2**32)) if IS_LONG else "0"
    parser.addoption("--seed", default=seed, help="what tests draw depends on (always 0, but in make prove)")


def pytest_report_header(config: pytest.Config) -> str:
    """Print what a run with the same draws needs."""
    return f"seed: {config.option.seed} (--seed)"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let each test draw the same as in every run with this seed, whatever ran before it."""
    random.seed(f"{item.config.option.seed} {item.nodeid}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the modules that the tier does not need."""
    return True if is_left_out(collection_path, config.option.tier) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that uses the fixture ``database`` once for each kind of database that it needs."""
    if "database" in metafunc.fixturenames:
        metafunc.parametrize("database", _kinds(metafunc), indirect=True, scope="session")


def _kinds(metafunc: pytest.Metafunc) -> Sequence[str]:
    """The kinds that the test's mark ``databases`` names; for a ``smoke`` test, all; otherwise those that its
    module's ``DATABASES`` names, by default all.
    """
    if mark := metafunc.definition.get_closest_marker("databases"):
        return mark.args
    if metafunc.definition.get_closest_marker("smoke"):
        return KINDS
    return getattr(metafunc.module, "DATABASES", KINDS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier; the longest first in each worker, the others in their order."""
    config.stash[COLLECTED] = list(items)
    tiers = OPTIONS[config.option.tier]
    config.hook.pytest_deselected(items=[item for item in items if tier_of(item) not in tiers])
    chosen = [item for item in items if tier_of(item) in tiers]
    if config.option.reversed or config.option.tier == "ordinary":
        items[:] = _in_files(chosen, is_reversed=config.option.reversed)
    else:
        items[:] = _dealt(chosen, _number_of_workers())
    gc.freeze()
    gc.enable()


def _in_files(items: list[pytest.Item], *, is_reversed: bool) -> list[pytest.Item]:
    """The tests by file: the file that takes longest first, or the last one."""
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    if is_reversed:
        files.reverse()
    else:
        files.sort(key=lambda tests: max(map(_seconds_of, tests)), reverse=True)
    return [item for tests in files for item in tests]


def _number_of_workers() -> int:
    """How many processes of xdist share the tests."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in parts of the same length: xdist gives each worker one, and who is done takes from the end
    of another's. Each part begins with its share of the longest.
    """
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    seconds = [0] * workers
    for tests in _longest(items):
        least = seconds.index(min(seconds))
        parts[least] += tests
        seconds[least] += _seconds_of(tests[0])
    others = [item for item in items if not _seconds_of(item)]
    dealt: list[pytest.Item] = []
    for number, part in enumerate(parts):
        length = (len(items) - len(dealt)) // (workers - number)
        room = max(length - len(part), 0)
        dealt += part + others[:room]
        del others[:room]
    return dealt + others


def _longest(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """The longest tests, the longest first. Those of a file that ``LONGEST`` names as a whole stay together:
    otherwise each worker would make the fixtures of the file, or wait until another one has made them.
    """
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        if name := _name_of(item):
            units.setdefault(item.nodeid if "::" in name else name, []).append(item)
    return sorted(units.values(), key=lambda tests: _seconds_of(tests[0]), reverse=True)


def _name_of(item: pytest.Item) -> str:
    """The name in ``LONGEST`` that the test's begins with; empty for the other tests."""
    if not item.nodeid.startswith(_NAMES):
        return ""
    return next(name for name in _NAMES if item.nodeid.startswith(name))


def _seconds_of(item: pytest.Item) -> int:
    """How long one of the longest takes; 0 for the others."""
    return LONGEST.get(_name_of(item), 0)


@pytest.fixture(scope="session")
def database(request: pytest.FixtureRequest) -> str:
    """The kind of database that the test runs on."""
    kind: str = request.param
    return kind


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed in this process without their price."""
    monkeypatch.setattr(passwords, "_hasher", lambda: CHEAP)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let Hypothesis draw from the seed, too, where it draws anew; proofs write to a real disk.

    End as after Ctrl-C when told to end, also in the background, where a shell ignores Ctrl-C. Processes
    that the tests start inherit this.
    """
    if not IS_LONG:
        keep_files_in_memory()
    elif config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = config.option.seed
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """Stop the PostgreSQL server."""
    stop_postgres()
