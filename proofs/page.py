"""docs/explanation/never-wrong.md, written from the results of the long runs."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from benchmarks.machine import Machine
from proofs.misses import Miss, Reasons, find_misses, load_reasons
from proofs.promises import PROMISES, Promise
from proofs.reach import ROOT
from proofs.results import Record, Result, compared

PAGE = ROOT / "docs" / "explanation" / "never-wrong.md"
_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}

_INTRODUCTION = """\
# Never wrong, and how we know

<!-- Written by `make prove` from proofs/results: changes by hand are lost. -->

A license server is trusted by two sides at once: the vendor trusts that nothing beyond what was sold can be
activated, and the customer that what was paid for keeps working. Each line below is a promise, and each
promise is a test: in a short form with every change of the code, in its long form with `make prove`.

A proof that cannot fail proves nothing. So each has a *control*, in which something is wrong on purpose and
must be found; the control is a test, too. Every test of a fault ends with the checks of
[`keywright doctor`](../reference/commands.md), which must find nothing.

**How to read the figures.** Where several runs are shown as one, counts are added up; of times and sizes, the
highest is shown. A percentage after the figures is the share of the long form that was run: a shorter run
is weaker evidence. A figure above what is promised is **marked**, with the reason as far as it is known.
Runs add up only where none of the files that they run through has changed in between. **Older code** marks
a row where some have changed after its last run, up to commit {commit}: its figures speak of that code, not
of today's. Which files a promise runs through is found from the imports of its tests; where these start a
server, all that the program imports counts. A change of comments or docstrings alone does not count.
"""
_HOW = """\
## Run it yourself

```text
make prove                           every promise in its long form: plan a night
make prove ARGS="--only R3,R4"       some of them
make prove ARGS="--part 0.1"         a tenth of each; ten such runs make a whole
make prove ARGS=--page               run nothing; count what has changed since, and write this page
```

`make prove` keeps its results in `proofs/results` and writes this page from them. A test compares the two.
Each run draws anew, and prints its seed. A run that failed stays until the code that it ran through changes.
"""


def page(results: dict[str, Result], reasons: Reasons, commit: str) -> str:
    """The whole page; the changes since were counted at this commit."""
    sections = [_INTRODUCTION.replace("{commit}", commit), _summary(results)]
    sections += [section(promise, results.get(promise.sign), reasons) for promise in PROMISES]
    return "\n".join([*sections, _HOW])


def write(results: dict[str, Result], file: Path = PAGE) -> None:
    """Write the page."""
    text = page(results, load_reasons(), compared().commit)
    file.write_text(text, encoding="utf-8")


def _summary(results: dict[str, Result]) -> str:
    lines = ["| | promise | wanted | long runs | when |", "|---|---|---|---|---|"]
    for promise in PROMISES:
        result = results.get(promise.sign)
        link = f"[{promise.sign}](#{promise.anchor})"
        lines.append(
            f"| {link} | {promise.title} | {promise.target} | {reached(promise, result)} | {_when(result)} |"
        )
    return "\n".join([*lines, ""])


def _when(result: Result | None) -> str:
    if result is None:
        return ""
    times = f"{result.days}, {_duration(result)}, {result.commits}"
    return times if result.is_of_this_code else f"{times}; **older code**: {_since(result)}"


def _since(result: Result) -> str:
    if result.since is None or result.since.changed is None:
        return "what has changed since is not known"
    return f"{result.since.changed:,} of {result.since.files:,} files changed since"


def reached(promise: Promise, result: Result | None) -> str:
    """The most important figures of the runs, in a line."""
    if result is None:
        return "not run yet"
    parts = [f"{_name(one.part)}: {_headline(promise, one)}" for one in result.records]
    parts = [one for one in parts if not one.endswith(": ")]
    parts += [", ".join(_totals(promise, result))] if promise.totals else []
    share = "" if result.part >= 1 else f" ({result.part:.0%})"
    return "; ".join([*_warnings(promise, result), *parts]) + share


def _warnings(promise: Promise, result: Result) -> Iterator[str]:
    if not result.is_kept:
        yield "**NOT KEPT**"
    if any(find_misses(promise, result)):
        yield "**MISSED**"


def _headline(promise: Promise, record: Record) -> str:
    if record.is_control:
        return ""
    shown = {name: record.figures[name] for name in promise.headline if name in record.figures}
    return ", ".join(f"{_marked(promise, record, name)} {name}" for name in shown)


def _totals(promise: Promise, result: Result) -> Iterator[str]:
    """Figures of all parts together: counts added up, of times and sizes the highest."""
    records = [one for one in result.records if not one.is_control]
    for name in promise.totals:
        counts = [one.counted[name] for one in records if name in one.counted]
        worst = [one.worst[name] for one in records if name in one.worst]
        if counts or worst:
            yield f"{_number(sum(counts) if counts else max(worst))} {name}"


def section(promise: Promise, result: Result | None, reasons: Reasons) -> str:
    """A promise, how it is tested, and what was found."""
    lines = [f"## {promise.heading}", "", f"Wanted: {promise.target}.", "", promise.how, ""]
    if result is None:
        lines += ["Its long form was not run yet.", ""]
    else:
        figures, missed = _figures(promise, result), _missed(promise, result, reasons)
        lines += [*figures, *missed, *_controls(result), _ran(result), ""]
    lines += [f"Tests: {', '.join(f'`{test}`' for test in promise.shown)}.", ""]
    return "\n".join(lines)


def _figures(promise: Promise, result: Result) -> Iterator[str]:
    records = [one for one in result.records if not one.is_control]
    names = list(dict.fromkeys(name for one in records for name in one.figures))
    # Parts with the same figures stand side by side.
    for _, some in groupby(records, key=lambda one: (set(one.counted), set(one.worst))):
        side = list(some)
        rows = [name for name in names if name in side[0].figures]
        if not rows:
            continue
        yield f"| | {' | '.join(_name(one.part) for one in side)} |"
        yield f"|---|{'---:|' * len(side)}"
        for name in rows:
            yield f"| {name} | {' | '.join(_marked(promise, one, name) for one in side)} |"
        yield ""


def _marked(promise: Promise, record: Record, name: str) -> str:
    """A figure; one above its bound is set in bold, with the bound."""
    figure = record.figures[name]
    highest = promise.bound_of(name, record.part)
    if highest is None or figure <= highest:
        return _number(figure)
    return f"**{_number(figure)}** (wanted: {_number(highest)} at most)"


def _missed(promise: Promise, result: Result, reasons: Reasons) -> Iterator[str]:
    misses = list(find_misses(promise, result))
    yield from (_explained(miss, reasons) for miss in misses)
    if misses:
        yield ""


def _explained(miss: Miss, reasons: Reasons) -> str:
    reason = reasons.get(miss.name, "The reason is not known yet.")
    found = f"{_number(miss.value)} {miss.name.figure}, {_number(miss.highest)} at most is wanted"
    return f"- **Missed**, {_name(miss.name.part)}: {found}. {reason}"


def _controls(result: Result) -> Iterator[str]:
    for one in result.records:
        if one.is_control:
            what = one.part.removeprefix("control").removeprefix(":").strip()
            figures = ", ".join(f"{name} {_number(n)}" for name, n in one.figures.items())
            yield f"- Control, {what}: {figures}."
    if any(one.is_control for one in result.records):
        yield ""


def _ran(result: Result) -> str:
    whole = "whole" if result.part >= 1 else f"{result.part:.0%} of its long form"
    several = f", in {len(result.runs)} runs" if len(result.runs) > 1 else ""
    verdict = "" if result.is_kept else " **A test failed.**"
    passed = sum(one.tests for one in result.runs)
    tests = f", {passed:,} tests passed" if passed else ""
    machines = " and ".join(dict.fromkeys(_words(one.machine) for one in result.runs))
    since = _since(result) if result.is_of_this_code else f"**Older code**: {_since(result)}"
    return (
        f"Last run: {result.days}, {whole}{several}, {_duration(result)}{tests}, "
        f"commit {result.commits}; {machines}.{verdict} {since[0].upper()}{since[1:]}."
    )


def _words(machine: Machine) -> str:
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.system}, Python {machine.python}, "
        f"SQLite {machine.sqlite}"
    )


def _duration(result: Result) -> str:
    minutes = sum(one.minutes for one in result.runs)
    return f"{minutes:.0f} min" if minutes >= 2 else f"{minutes * 60:.0f} s"


def _name(part: str) -> str:
    kind, comma, rest = part.partition(",")
    return _NAMES.get(kind, kind) + comma + rest


def _number(figure: float) -> str:
    if isinstance(figure, int) or figure == int(figure):
        return f"{int(figure):,}"
    return f"{figure:,.2f}" if abs(figure) < 10 else f"{figure:,.1f}"
