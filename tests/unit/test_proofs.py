"""The results of the long runs are added up, stored, and shown as they are."""

import json
from pathlib import Path

import pytest

from benchmarks.machine import Machine
from proofs import misses, page, results
from proofs.promises import PROMISES, Bound, Promise
from proofs.results import Record, Result
from proofs.run import is_controlled
from tests import proving
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
MACHINE = Machine("a processor", 2, "a system", "3.11", "3.40", "0.1", 0.1)
PROMISE = Promise(
    "R1", "The limit is never exceeded", "0 of 10", "By trying.", ("tests/unit",), headline=("attempts",)
)


def a_result(*records: Record, is_kept: bool = True, part: float = 1.0) -> Result:
    return Result("R1", "2026-01-02", 3.0, part, is_kept, 7, "abc1234", MACHINE, list(records))


def line(part: str, counted: dict[str, int], worst: dict[str, float] | None = None) -> str:
    return json.dumps({"promise": "R1", "part": part, "counted": counted, "worst": worst or {}})


def test_what_was_counted_is_added_up_and_the_worst_stays() -> None:
    lines = [line("sqlite", {"kills": 20}, {"s": 1.5}), line("sqlite", {"kills": 3, "lost": 1}, {"s": 1.2})]
    assert results.merged(lines) == [Record("R1", "sqlite", {"kills": 23, "lost": 1}, {"s": 1.5})]


def test_parts_and_promises_stay_apart() -> None:
    other = json.dumps({"promise": "R2", "part": "sqlite", "counted": {}, "worst": {}})
    found = results.merged([line("sqlite", {}), line("postgresql", {}), other])
    assert [(one.promise, one.part) for one in found] == [
        ("R1", "sqlite"),
        ("R1", "postgresql"),
        ("R2", "sqlite"),
    ]


def test_a_record_is_a_line_that_can_be_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROOFS_FILE", str(tmp_path / "records"))
    proving.record("R3", "sqlite", {"kills": 1234}, {"seconds": 0.5})
    assert results.merged((tmp_path / "records").read_text().splitlines()) == [
        Record("R3", "sqlite", {"kills": 1234}, {"seconds": 0.5})
    ]
    assert capsys.readouterr().out == "R3, sqlite: kills 1,234, seconds 0.5\n"


@pytest.mark.parametrize(("part", "expected"), [(0, 20), (0.001, 20), (0.5, 500), (1, 1000)])
def test_the_long_form_is_a_part_of_the_whole_and_never_less_than_the_short_one(
    part: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "PART", part)
    assert proving.size(20, 1000) == expected


def test_a_proof_without_its_control_proves_nothing() -> None:
    found = [Record("R1", "sqlite"), Record("R2", "control: of another")]
    assert not is_controlled(PROMISE, found)
    assert is_controlled(PROMISE, [*found, Record("R1", "control: the limit off by one")])


def test_results_are_kept_and_found_again(tmp_path: Path) -> None:
    result = a_result(Record("R1", "sqlite", {"attempts": 10}))
    results.save(a_result(), tmp_path)
    results.save(result, tmp_path)
    assert results.load(tmp_path) == {"R1": result}


def test_the_page_shows_figures_controls_and_the_run() -> None:
    records = [
        Record("R1", "sqlite", {"attempts": 1_000_000, "over the limit": 0}, {"seconds": 1.234}),
        Record("R1", "postgresql", {"attempts": 10, "over the limit": 0}, {"seconds": 20.0}),
        Record("R1", "control: the limit off by one", {"over the limit": 5}),
    ]
    text = page.section(PROMISE, a_result(*records, part=0.5), {})
    assert "| | SQLite | PostgreSQL |\n|---|---:|---:|\n| attempts | 1,000,000 | 10 |\n" in text
    assert "| over the limit | 0 | 0 |\n| seconds | 1.23 | 20 |\n" in text
    assert "- Control, the limit off by one: over the limit 5.\n" in text
    assert "Last run: 2026-01-02, 50% of its long form, 3 min, 7 tests passed, commit abc1234; a proc" in text
    whole = "SQLite: 1,000,000 attempts; PostgreSQL: 10 attempts"
    assert page.reached(PROMISE, a_result(*records)) == whole
    assert page.reached(PROMISE, a_result(*records, part=0.05)) == f"{whole} (5%)"


def test_a_promise_that_was_not_kept_is_not_hidden() -> None:
    broken = a_result(Record("R1", "sqlite", {"attempts": 10}), is_kept=False)
    assert page.reached(PROMISE, broken) == "**NOT KEPT**; SQLite: 10 attempts"
    assert "**A test failed.**" in page.section(PROMISE, broken, {})
    assert page.reached(PROMISE, None) == "not run yet"
    assert "was not run yet" in page.section(PROMISE, None, {})


def test_a_figure_above_its_bound_is_marked_with_its_reason() -> None:
    bounds = (Bound("seconds", 2, "sqlite"), Bound("over", 0))
    promise = Promise("R1", "It is fast", "2 s", "By waiting.", headline=("seconds",), bounds=bounds)
    slow = Record("R1", "sqlite", {"over": 0}, {"seconds": 6.11})
    result = a_result(slow, Record("R1", "postgresql", {"over": 0}, {"seconds": 6.11}))
    assert "**MISSED**; SQLite: **6.11** (wanted: 2" in page.reached(promise, result)
    text = page.section(promise, result, {})
    assert "| seconds | **6.11** (wanted: 2 at most) | 6.11 |\n" in text
    missed = "- **Missed**, SQLite: 6.11 seconds, 2 at most is wanted."
    assert f"{missed} The reason is not known yet.\n" in text
    reason = {misses.Name("R1", "sqlite", "seconds", "abc1234"): "The disk."}
    assert f"{missed} The disk.\n" in page.section(promise, result, reason)


def test_a_figure_within_its_bound_is_not_marked() -> None:
    promise = Promise("R1", "It is fast", "2 s", "By waiting.", bounds=(Bound("seconds", 2),))
    wrong = Record("R1", "control: a slow server", {}, {"seconds": 9.0})
    result = a_result(Record("R1", "sqlite", {}, {"seconds": 2.0}), wrong)
    assert "issed" not in page.section(promise, result, {})
    assert "MISSED" not in page.reached(promise, result)


def test_every_miss_has_a_reason_and_every_reason_a_miss() -> None:
    stored = results.load()
    runs = ((one, stored[one.sign]) for one in PROMISES if one.sign in stored)
    assert {miss.name for run in runs for miss in misses.find_misses(*run)} == set(misses.load_reasons())


def test_the_page_is_what_the_results_say() -> None:
    assert page.PAGE.read_text() == page.page(results.load(), misses.load_reasons()), (
        "run `make prove ARGS=--page`"
    )


@each_row("promise", PROMISES, ids=lambda one: one.sign)
def test_every_promise_names_tests_that_are_there(promise: Promise) -> None:
    assert promise.shown
    assert [one for one in promise.shown if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("sign", sorted(results.load()))
def test_the_figures_that_say_the_most_were_found(sign: str) -> None:
    (promise,) = (one for one in PROMISES if one.sign == sign)
    records = results.load()[sign].records
    bounded = {one.figure for one in promise.bounds}
    assert bounded.union(promise.headline) <= {name for one in records for name in one.figures}


def test_every_promise_stands_there_once_and_in_order() -> None:
    numbers = [int(one.sign.removeprefix("R")) for one in PROMISES]
    assert numbers == sorted(set(numbers))
