"""Tests of the proof tools: the modules that decide have full branch coverage, and the tools find faults that
no test notices.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proofs import coverage, mutation
from proofs.modules import ROOT, TESTS, source_of
from proofs.mutants import mutants_of
from proofs.trials import Findings, Name, names_of
from tests.proving import record

pytestmark = pytest.mark.tier("rest")

RULES = "licensing.activations.rules"
COUNTING = '''
def take(taken: int, limit: int) -> int:
    """One more place."""
    if taken >= limit:
        raise ValueError
    return taken + 1
'''
EMPTYING = '''
def emptied(taken: int) -> int:
    """Gives up one place after the other."""
    while taken:
        taken -= 1
    return taken
'''
WITH_TEETH = """
import counting, os, pytest

def test_the_short_form_is_run():
    assert "LONG_PROOFS" not in os.environ

def test_a_place_is_taken_while_there_is_one():
    assert counting.take(1, 3) == 2
    assert counting.take(2, 3) == 3
    for taken in (3, 4):
        with pytest.raises(ValueError):
            counting.take(taken, 3)
"""
FOR_EMPTYING = """
def test_all_places_are_given_up():
    assert counting.emptied(3) == 0
"""
#: A test that runs all lines, but asserts nothing.
TOOTHLESS = """
import counting

def test_a_place_is_taken():
    counting.take(1, 3)
    try:
        counting.take(3, 3)
    except ValueError:
        pass
"""
PROGRAM = """
import json, sys
from pathlib import Path
from proofs import trials

trials._ASLEEP, trials._TIMES, trials._SECONDS = 2.0, 2.0, 1.0
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
subject = trials.Subject("counting", "counting", folder / "counting.py", ("test_counting.py",), folder)
found = trials.examine(subject, processes=1)
print(json.dumps([found.mutants, found.killed, found.endless, found.survivors]))
"""


def examine_mutants(folder: Path, source: str, tests: str) -> Findings:
    """Try the mutants of a small module, in a separate process, which has no threads."""
    (folder / "counting.py").write_text(source)
    (folder / "test_counting.py").write_text(tests)
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    # As in a proof; the tests of a mutant must not run their long form.
    variables = {**os.environ, "LONG_PROOFS": "0.01"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    mutants, killed, endless, survivors = json.loads(done.stdout)
    return Findings(mutants, killed, endless, [Name(*one) for one in survivors])


# A long timeout, for busy machines.
@pytest.mark.timeout(900)
def test_every_branch_of_the_modules_that_decide_is_run() -> None:
    found = coverage.run(coverage.QUICK_TESTS, TESTS)
    coverage.write_down(found)
    assert {module: one.left for module, one in found.items() if not one.is_whole} == {}


def test_every_measured_module_exists() -> None:
    assert not [module for module in (*TESTS, *coverage.OTHERS) if not source_of(module).exists()]


def test_a_branch_that_no_test_runs_is_found() -> None:
    found = coverage.run(("tests/unit/test_rules.py", "-k", "activate_takes_one_place"), (RULES,))
    coverage.write_down(found, "control: all tests but one are left out")
    assert found[RULES].branches_left > 0
    assert found[RULES].statements_left > 0
    assert not coverage.is_right(found)


def test_tests_that_assert_nothing_let_mutants_live_although_they_run_every_line(tmp_path: Path) -> None:
    found = examine_mutants(tmp_path, COUNTING, TOOTHLESS)
    counted = {"mutants": found.mutants, "killed": found.killed}
    unexplained = {"surviving without a reason": len(found.survivors)}
    record("R18", "control: tests that run everything and assert nothing", counted={**counted, **unexplained})
    assert Name("counting", "take", "return taken + 1", "return taken - 1") in found.survivors
    assert found.share < mutation.WANTED
    assert not mutation.is_right({"counting": found}, {}, is_all=True)


def test_tests_with_teeth_notice_every_mutant_also_those_that_never_end(tmp_path: Path) -> None:
    found = examine_mutants(tmp_path, COUNTING + EMPTYING, WITH_TEETH + FOR_EMPTYING)
    assert (found.mutants, found.killed, found.survivors) == (13, 13, [])
    assert found.endless == 3
    assert mutation.is_right({"counting": found}, {}, is_all=True)


@pytest.mark.parametrize("body", ["assert False", "pass"])
def test_tests_that_fail_without_a_fault_or_never_load_the_module_say_nothing(
    tmp_path: Path, body: str
) -> None:
    with pytest.raises(RuntimeError, match="without a fault"):
        examine_mutants(tmp_path, COUNTING, f"def test_nothing(): {body}")


@pytest.mark.parametrize(
    ("statement", "became"),
    [
        ("a = b < c", {"a = None", "a = b <= c", "a = b != c"}),
        ("a = b == c", {"a = None", "a = b != c"}),
        ("a: int = 1", {"a: int = None", "a: int = 2"}),
        ("a = None", {"a = ''"}),
        ("a += b", {"a = b", "a -= b"}),
        ("a(b, c=d)", {"a(None, c=d)", "a(b, c=None)", "a(c=d)", "a(b)", "pass"}),
        ("if a and b: pass", {"if a or b:", "if (a and b) and False:", "if a and b or True:"}),
        ("while not a: pass", {"while a:", "while not a and False:"}),
        ("raise a", {"pass"}),
        ("assert a in b", {"assert a not in b"}),
        ("x = 'Ab'", {"x = None", "x = 'XXAbXX'", "x = 'ab'", "x = 'AB'"}),
        ("x = -y", {"x = None", "x = +y"}),
        ("x = {a: b, c: d}", {"x = None", "x = {c: d}", "x = {a: b}"}),
        ("x = (a, b)", {"x = None", "x = (b,)", "x = (a,)"}),
        ("class A(B, frozen=True): pass", {"class A(B, frozen=False):"}),
        (
            "class A(msgspec.Struct, frozen=True): pass",
            {"class A(msgspec.Struct):", "class A(msgspec.Struct, frozen=False):"},
        ),
        ("class A(B, kw_only=True): b: ClassVar[int]", set()),
        ("class A(B, kw_only=True): b: int", {"class A(B):", "class A(B, kw_only=False):"}),
        ("x = y[a:b]", {"x = None", "x = y[:b]", "x = y[a:]"}),
    ],
)
def test_each_kind_of_fault_is_made(statement: str, became: set[str]) -> None:
    assert {one.became for one in mutants_of(statement)} == became


def test_what_only_people_and_type_checkers_read_is_left_alone() -> None:
    source = (
        '"""Text."""\nimport a\ndef f(b: "int | None") -> list[1]:\n    """Text."""\n    x: int\n    pass\n'
    )
    assert mutants_of(source) == []


def test_a_mutant_keeps_its_name_when_it_moves() -> None:
    source = source_of(RULES).read_text()
    names = [name for name, _ in names_of(RULES, source)]
    assert [name for name, _ in names_of(RULES, f"# A line.\n\n{source}")] == names
    assert len({*names}) == len(names)


def test_every_reason_for_a_survivor_is_about_a_mutant_that_there_is() -> None:
    known = mutation.reasons()
    there: set[Any] = {
        name for module in TESTS for name, _ in names_of(module, source_of(module).read_text())
    }
    assert [name for name in known if name not in there] == []
    assert all(known.values())


@pytest.mark.parametrize(
    ("mutants", "reason", "is_all", "is_right"),
    [
        (10, "It is so.", True, True),
        (10, "", True, False),
        (10, None, True, False),
        (9, "It is so.", True, False),
        (9, "It is so.", False, True),
        (9, None, False, False),
    ],
)
def test_a_survivor_needs_a_reason_and_one_of_ten_is_the_most(
    mutants: int, reason: str | None, is_all: bool, is_right: bool
) -> None:
    survivor = Name("counting", "take", "return taken + 1", "return None")
    found = {"counting": Findings(mutants, mutants - 1, 0, [survivor])}
    known = {} if reason is None else {survivor: reason}
    assert mutation.is_right(found, known, is_all=is_all) is is_right


def test_a_reason_that_is_no_longer_needed_is_found() -> None:
    (noticed, _), *_ = names_of(RULES, source_of(RULES).read_text())
    gone = Name(RULES, "activate", "return 1", "return 2")
    known = {noticed: "It is so.", gone: "It was so."}
    assert mutation.outdated({RULES: Findings(9, 9)}, known, is_all=True) == [noticed, gone]
    assert mutation.outdated({RULES: Findings(9, 9)}, known, is_all=False) == [gone]
    assert mutation.outdated({RULES: Findings(9, 8, 0, [noticed])}, known, is_all=True) == [gone]
