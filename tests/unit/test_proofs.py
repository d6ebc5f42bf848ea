"""The results of long runs are added up, stored and shown correctly."""

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks.machine import Machine
from proofs import misses, page, reach, results
from proofs.promises import PROMISES, Bound, Promise
from proofs.results import Changes, Record, Result, Run
from proofs.run import is_controlled
from tests import proving
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
MACHINE = Machine("a processor", 2, "a system", "3.11", "3.40", "0.1", 0.1)
PROMISE = Promise(
    "R1", "The limit is never exceeded", "0 of 10", "By trying.", ("tests/unit",), headline=("attempts",)
)


def a_run(
    *records: Record, is_kept: bool = True, part: float = 1.0, commit: str = "abc1234", day: int = 2
) -> Run:
    return Run("R1", f"2026-01-0{day}", 3.0, part, is_kept, 7, commit, MACHINE, list(records))


def a_result(*records: Record, is_kept: bool = True, part: float = 1.0) -> Result:
    return Result([a_run(*records, is_kept=is_kept, part=part)], Changes(0, 310))


def line(part: str, counted: dict[str, int], worst: dict[str, float] | None = None) -> str:
    return json.dumps({"promise": "R1", "part": part, "counted": counted, "worst": worst or {}})


def test_what_was_counted_is_added_up_and_the_worst_stays() -> None:
    lines = [line("sqlite", {"kills": 20}, {"s": 1.5}), line("sqlite", {"kills": 3, "lost": 1}, {"s": 1.2})]
    assert results.read(lines) == [Record("R1", "sqlite", {"kills": 23, "lost": 1}, {"s": 1.5})]
    # Parts and promises are not merged with others.
    other = json.dumps({"promise": "R2", "part": "sqlite", "counted": {}, "worst": {}})
    found = results.read([line("sqlite", {}), line("postgresql", {}), other])
    parts = [("R1", "sqlite"), ("R1", "postgresql"), ("R2", "sqlite")]
    assert [(one.promise, one.part) for one in found] == parts


def test_a_record_is_a_line_that_can_be_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROOFS_FILE", str(tmp_path / "records"))
    proving.record("R3", "sqlite", {"kills": 1234}, {"seconds": 0.5})
    assert results.read((tmp_path / "records").read_text().splitlines()) == [
        Record("R3", "sqlite", {"kills": 1234}, {"seconds": 0.5})
    ]
    assert capsys.readouterr().out == "R3, sqlite: kills 1,234, seconds 0.5\n"


@each_row(("part", "expected"), [(0, 20), (0.001, 20), (0.5, 500), (1, 1000)])
def test_the_long_form_is_a_part_of_the_whole_and_never_less_than_the_short_one(
    part: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "PART", part)
    assert proving.size(20, 1000) == expected


def test_a_proof_without_its_control_proves_nothing() -> None:
    found = [Record("R1", "sqlite"), Record("R2", "control: of another")]
    assert not is_controlled(PROMISE, found)
    assert is_controlled(PROMISE, [*found, Record("R1", "control: the limit off by one")])


def test_runs_through_the_same_code_add_up_to_a_whole(tmp_path: Path) -> None:
    first = a_run(Record("R1", "sqlite", {"attempts": 2}, {"s": 3.0}), part=0.2, commit="aaa", day=1)
    second = a_run(Record("R1", "sqlite", {"attempts": 3}, {"s": 1.0}), part=0.3, commit="bbb")
    third = a_run(Record("R1", "postgresql", {"attempts": 5}), part=0.5, commit="bbb", day=3)
    for run in (first, second, third):
        results.add(run, lambda _: True, tmp_path)
    results.write(tmp_path / "since.json", results.Compared("ccc", {"R1": Changes(0, 310)}))
    found = results.load(tmp_path)
    assert found == {"R1": Result([first, second, third], Changes(0, 310))}
    assert (found["R1"].part, found["R1"].is_kept) == (1, True)
    assert found["R1"].records == [
        Record("R1", "sqlite", {"attempts": 5}, {"s": 3.0}),
        Record("R1", "postgresql", {"attempts": 5}),
    ]
    text = page.section(PROMISE, found["R1"], {})
    assert (
        "Last run: 2026-01-01 to 2026-01-03, whole, in 3 runs, 9 min, 21 tests passed, commit aaa, bbb; "
        in text
    )


def test_a_run_through_other_code_no_longer_counts(tmp_path: Path) -> None:
    for number, commit in enumerate(("aaa", "bbb", "ccc"), 1):
        run = a_run(commit=commit, part=number / 10)
        results.add(run, lambda earlier: earlier.commit == "bbb", tmp_path)
    assert [one.commit for one in results.load(tmp_path)["R1"].runs] == ["bbb", "ccc"]


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
    assert "SQLite 3.40. 0 of 310 files changed since.\n" in text
    whole = "SQLite: 1,000,000 attempts; PostgreSQL: 10 attempts"
    assert page.reached(PROMISE, a_result(*records)) == whole
    assert page.reached(PROMISE, a_result(*records, part=0.05)) == f"{whole} (5%)"


@each_row(
    ("since", "said"),
    [
        (Changes(12, 310), "12 of 310 files changed since"),
        (Changes(None, 310), "what has changed since is not known"),
        (None, "what has changed since is not known"),
    ],
)
def test_a_row_of_older_code_is_marked(since: Changes | None, said: str) -> None:
    older = Result([a_run()], since)
    assert f"**Older code**: {said}.\n" in page.section(PROMISE, older, {})
    text = page.page({"R1": older}, {}, "fff")
    assert f"| 2026-01-02, 3 min, abc1234; **older code**: {said} |\n" in text
    assert "after its last run, up to commit fff: " in text
    assert "| 2026-01-02, 3 min, abc1234 |\n" in page.page({"R1": a_result()}, {}, "fff")


def test_a_promise_that_was_not_kept_is_not_hidden() -> None:
    broken = a_result(Record("R1", "sqlite", {"attempts": 10}), is_kept=False)
    assert not Result([a_run(is_kept=False, part=0.1), a_run(part=0.9)]).is_kept
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
    # A figure within its bound, or of a control, is not a miss.
    slow_control = Record("R1", "control: a slow server", {}, {"seconds": 9.0})
    result = a_result(Record("R1", "sqlite", {}, {"seconds": 2.0}), slow_control)
    assert "issed" not in page.section(promise, result, {})
    assert "MISSED" not in page.reached(promise, result)


def test_every_miss_has_a_reason_and_every_reason_a_miss() -> None:
    stored = results.load()
    runs = ((one, stored[one.sign]) for one in PROMISES if one.sign in stored)
    assert {miss.name for run in runs for miss in misses.find_misses(*run)} == set(misses.load_reasons())


def test_the_page_is_what_the_results_say() -> None:
    assert page.PAGE.read_text() == page.page(
        results.load(), misses.load_reasons(), results.compared().commit
    ), "run `make prove ARGS=--page`"


@each_row("promise", PROMISES, ids=lambda one: one.sign)
def test_every_promise_names_tests_that_are_there(promise: Promise) -> None:
    assert promise.shown
    assert [one for one in promise.shown if not (ROOT / one).exists()] == []


@each_row("sign", sorted(results.load()))
def test_the_figures_that_say_the_most_were_found(sign: str) -> None:
    (promise,) = (one for one in PROMISES if one.sign == sign)
    result = results.load()[sign]
    # Results of older code may lack figures for newer bounds.
    bounded = {one.figure for one in promise.bounds} if result.is_of_this_code else set[str]()
    assert bounded.union(promise.headline) <= {name for one in result.records for name in one.figures}


def test_every_promise_stands_there_once_and_in_order() -> None:
    numbers = [int(one.sign.removeprefix("R")) for one in PROMISES]
    assert numbers == sorted(set(numbers))


# --- what a promise runs through ------------------------------------------------------------------


def promise_of(*tests: str, files: tuple[str, ...] = ()) -> Promise:
    return Promise("R1", "A title", "a target", "By trying.", tests, files=files)


def test_a_promise_runs_through_what_its_tests_import_and_what_that_imports() -> None:
    found = reach.files_of(promise_of("tests/unit/test_update_gate.py"))
    src = "src/keywright/"
    assert {
        "tests/unit/test_update_gate.py",
        "tests/conftest.py",
        "requirements.lock",
        f"{src}core/__init__.py",
        f"{src}licensing/updates/rules.py",
    } <= found
    assert not [one for one in found if one.startswith((f"{src}http/", f"{src}cli/", "docs/", "clients/"))]


def test_an_import_does_not_run_what_starts_its_package() -> None:
    assert "tests/fuzzing/__main__.py" not in reach.files_of(promise_of("tests/http/test_model.py"))
    assert "tests/fuzzing/__main__.py" in reach.files_of(promise_of("tests/fuzzing/test_coverage_guided.py"))


def test_a_promise_whose_tests_start_the_program_runs_through_all_that_it_imports() -> None:
    found = reach.files_of(promise_of("tests/faults/test_kills.py", files=("deploy", "clients")))
    expected = {
        "src/keywright/cli/backup.py",
        "src/keywright/http/server/run.py",
        "src/keywright/http/update_formats/tauri.py",
        "src/keywright/db/migrations/versions/0016_first_schema.py",
        "deploy/nginx.conf",
        "clients/php/composer.json",
        "tests/server.py",
    }
    assert expected <= found
    assert not [one for one in found if one.startswith("docs/") or one.endswith((".po", ".html", ".md"))]


def test_a_commit_that_is_not_in_the_history_says_nothing() -> None:
    for commit in ("abc1234+", "unknown", "0" * 40):
        found = reach.find_changes(PROMISES[0], commit)
        assert found.changed is None
        assert found.files > 0


def test_what_the_last_commits_have_changed_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(**files: str) -> str:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        git("add", ".")
        git("commit", "-m", "A change.")
        return git("rev-parse", "HEAD")

    monkeypatch.setattr(reach, "ROOT", tmp_path)
    monkeypatch.setattr(reach, "files_of", lambda _: frozenset({"one.py", "two.py"}))
    git("init", "-q")
    first = commit(one="1", two="2", three="3")
    second = commit(three="4", two='"""What it is."""\n2  # A number.')
    commit(one="5")
    assert reach.find_changes(PROMISE, first) == Changes(1, 2)
    assert reach.find_changes(PROMISE, second) == Changes(1, 2)
    assert reach.find_changes(PROMISE, reach.find_commit()) == Changes(0, 2)
    git("checkout", "-q", second)
    assert reach.find_changes(PROMISE, first) == Changes(0, 2)
    (tmp_path / "two.py").write_text("altered")
    assert reach.find_commit().endswith("+")
