"""The tiers omit no test, and run none twice; a test of a table omits no row."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.tables import each_row
from tests.tiers import COLLECTED, OPTIONS, TESTS, is_left_out, tier_of

#: Small modules that together have tests of all tiers.
MODULES = (
    "unit/test_rules.py",
    "unit/test_proof_tools.py",
    "storage/test_access.py",
    "storage/test_accounts.py",
    "http/test_records.py",
    "faults/test_drill_judge.py",
)
#: Collects with each tier, and prints the names of the selected tests.
PROGRAM = """
import json, sys, pytest

class Names:
    def pytest_collection_finish(self, session):
        found.append([item.nodeid for item in session.items])

found, (options, modules) = [], map(str.split, sys.argv[1:])
for option in options:
    pytest.main(["--collect-only", "-qqq", "--tier", option, *modules], plugins=[Names()])
print(json.dumps(found))
"""


@pytest.mark.tier("ordinary")
def test_ordinary_and_rest_are_all_tests_and_share_none_and_quick_is_a_part_of_ordinary() -> None:
    paths = [TESTS / module for module in MODULES]
    assert all(path.exists() for path in paths), "a module has another name"
    command = [sys.executable, "-c", PROGRAM, " ".join(OPTIONS), " ".join(map(str, paths))]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True)
    quick, ordinary, rest, everything = map(set, json.loads(done.stdout.splitlines()[-1]))
    assert set() < quick < ordinary < everything
    assert ordinary | rest == everything
    assert not ordinary & rest


def select(request: pytest.FixtureRequest, option: str) -> list[pytest.Item]:
    """Select the tests of this run by the option; the run itself may have another option."""
    return [item for item in request.config.stash[COLLECTED] if tier_of(item) in OPTIONS[option]]


def test_every_test_is_in_ordinary_or_in_rest(request: pytest.FixtureRequest) -> None:
    ordinary, rest = select(request, "ordinary"), select(request, "rest")
    assert len(ordinary) + len(rest) == len(select(request, "all")) == len(request.config.stash[COLLECTED])
    assert set(select(request, "quick")) <= set(ordinary)


@pytest.mark.parametrize(
    # Run each in the run that imports what the option omits.
    "option",
    ["quick", pytest.param("ordinary", marks=pytest.mark.tier("rest")), "rest"],
)
def test_no_module_is_left_out_that_holds_tests_of_the_tier(
    request: pytest.FixtureRequest, option: str
) -> None:
    paths = {item.path for item in select(request, option)}
    assert not [path for path in paths if any(is_left_out(one, option) for one in (path, *path.parents))]


def test_quick_needs_no_postgresql(request: pytest.FixtureRequest) -> None:
    with_parameters = [item for item in select(request, "quick") if hasattr(item, "callspec")]
    assert not [item for item in with_parameters if "postgresql" in item.callspec.params.values()]


def test_a_long_file_is_run_by_one_process_and_the_longest_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    takes = {"file.py": 9, "a.py::test_long": 8, "a.py::test_less": 3}
    monkeypatch.setattr(conftest, "LONGEST", takes)
    monkeypatch.setattr(conftest, "_NAMES", tuple(takes))
    names = ["a.py::test_1", "a.py::test_less", "a.py::test_2", "a.py::test_long[x]", "file.py::test_1"]
    items: Any = [SimpleNamespace(nodeid=name) for name in [*names, "file.py::test_2", "b.py::test"]]
    dealt = [item.nodeid for item in conftest._dealt(items, 2)]
    first, second = dealt[:3], dealt[3:]
    assert first == ["file.py::test_1", "file.py::test_2", "a.py::test_1"]
    assert second == ["a.py::test_long[x]", "a.py::test_less", "a.py::test_2", "b.py::test"]


def test_what_takes_long_is_there_under_its_name() -> None:
    for name in conftest.LONGEST:
        path, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}" in Path(TESTS.parent, path).read_text(encoding="utf-8"), name


def test_one_test_of_a_table_runs_every_row_and_names_the_wrong_ones() -> None:
    seen = []

    @each_row(("one", "wanted"), [(1, 1), (2, 3), (4, 4), (5, 6)], ids=["a", "b", "c", "d"])
    def compare(given: str, one: int, wanted: int) -> None:
        seen.append((given, one))
        assert one == wanted

    with pytest.raises(ExceptionGroup, match="2 of 4 rows are wrong") as found:
        compare(given="fixture")
    assert seen == [("fixture", 1), ("fixture", 2), ("fixture", 4), ("fixture", 5)]
    assert [one.__notes__ for one in found.value.exceptions] == [["in the row b"], ["in the row d"]]
    assert [*inspect.signature(compare).parameters] == ["given"]

    def fail(_one: int) -> None:
        pytest.fail("it is wrong")

    with pytest.raises(AssertionError, match="it is wrong"):
        each_row("_one", [1])(fail)()
    with pytest.raises(AssertionError, match="a table without rows asserts nothing"):
        each_row("_one", [])(fail)
