"""docs/explanation/never-wrong.md, made from what the long forms have found."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from benchmarks.machine import Machine
from proofs.promises import PROMISES, Promise
from proofs.results import Record, Result
from proofs.run import ROOT

PAGE = ROOT / "docs" / "explanation" / "never-wrong.md"
_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}

_INTRODUCTION = """\
# Never wrong, and how we know

<!-- Written by `make prove` from proofs/results: every change by hand is lost. -->

A license server is trusted by two sides at once: by the vendor, that nobody gets more than was sold, and by
the customer, that what was paid for keeps working. Each line below is a promise, and each promise is a test
that runs: in a short form in `make test`, with every change of the code, and whole in `make prove`.

A proof that cannot fail proves nothing. So each has a *control*, where something is wrong on purpose and must
be found, and the control is a test, too. Every test of a fault ends with the checks of
[`keywright doctor`](../reference/commands.md), which must find nothing.

Where figures of several runs are shown as one, counts are added up; of times and sizes, the highest stays.
"""
_HOW = """\
## Run it yourself

```text
make test                            every promise in its short form
make prove                           every promise whole: plan a night
make prove ARGS="--only R3,R4"       some of them
make prove ARGS="--part 0.1"         a tenth of each
```

What `make prove` finds is kept in `proofs/results`, and this page is written from it. A test compares the
two.
"""


def page(results: dict[str, Result]) -> str:
    """The whole page."""
    sections = [_INTRODUCTION, _summary(results)]
    sections += [section(promise, results.get(promise.sign)) for promise in PROMISES]
    return "\n".join([*sections, _HOW])


def write(results: dict[str, Result], file: Path = PAGE) -> None:
    """Write the page."""
    file.write_text(page(results), encoding="utf-8")


def _summary(results: dict[str, Result]) -> str:
    lines = ["| | promise | wanted | last long run |", "|---|---|---|---|"]
    for promise in PROMISES:
        result = results.get(promise.sign)
        link = f"[{promise.sign}](#{promise.anchor})"
        lines.append(f"| {link} | {promise.title} | {promise.target} | {reached(promise, result)} |")
    return "\n".join([*lines, ""])


def reached(promise: Promise, result: Result | None) -> str:
    """What the last long run has found, in a line."""
    if result is None:
        return "not run yet"
    parts = [f"{_name(one)}: {_headline(promise, one)}" for one in result.records if _headline(promise, one)]
    parts += [", ".join(_totals(promise, result))] if promise.totals else []
    of_it = "" if result.part >= 1 else f" ({result.part:.2g} of the whole)"
    return "; ".join([*([] if result.is_kept else ["**NOT KEPT**"]), *parts]) + of_it


def _headline(promise: Promise, record: Record) -> str:
    if record.is_control:
        return ""
    figures = {**record.counted, **record.worst}
    return ", ".join(f"{_number(figures[name])} {name}" for name in promise.headline if name in figures)


def _totals(promise: Promise, result: Result) -> Iterator[str]:
    """Figures of all parts together: counts added up, of times and sizes the highest."""
    records = [one for one in result.records if not one.is_control]
    for name in promise.totals:
        counts = [one.counted[name] for one in records if name in one.counted]
        worst = [one.worst[name] for one in records if name in one.worst]
        if counts or worst:
            yield f"{_number(sum(counts) if counts else max(worst))} {name}"


def section(promise: Promise, result: Result | None) -> str:
    """How a promise is tested, and what was found."""
    lines = [f"## {promise.heading}", "", promise.how, ""]
    if result is None:
        lines += ["Its long form was not run yet.", ""]
    else:
        lines += [*_figures(result), *_controls(result), _ran(result), ""]
    lines += [f"Tests: {', '.join(f'`{test}`' for test in promise.shown)}.", ""]
    return "\n".join(lines)


def _figures(result: Result) -> Iterator[str]:
    records = [one for one in result.records if not one.is_control]
    names = list(dict.fromkeys(name for one in records for name in (*one.counted, *one.worst)))
    # Parts that say the same things stand side by side.
    for _, some in groupby(records, key=lambda one: (set(one.counted), set(one.worst))):
        side = list(some)
        rows = [name for name in names if name in side[0].counted or name in side[0].worst]
        if not rows:
            continue
        yield f"| | {' | '.join(_name(one) for one in side)} |"
        yield f"|---|{'---:|' * len(side)}"
        for name in rows:
            figures = [_number({**one.counted, **one.worst}[name]) for one in side]
            yield f"| {name} | {' | '.join(figures)} |"
        yield ""


def _controls(result: Result) -> Iterator[str]:
    for one in result.records:
        if one.is_control:
            what = one.part.removeprefix("control").removeprefix(":").strip()
            said = ", ".join(f"{name} {_number(n)}" for name, n in {**one.counted, **one.worst}.items())
            yield f"- Control, {what}: {said}."
    if any(one.is_control for one in result.records):
        yield ""


def _ran(result: Result) -> str:
    whole = "whole" if result.part >= 1 else f"{result.part:.0%} of its long form"
    verdict = "" if result.is_kept else " **A test failed.**"
    tests = f", {result.tests:,} tests passed" if result.tests else ""
    return (
        f"Last run: {result.ran_on}, {whole}, {_duration(result.minutes)}{tests}, "
        f"commit {result.commit}; {_words(result.machine)}.{verdict}"
    )


def _words(machine: Machine) -> str:
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.system}, Python {machine.python}, "
        f"SQLite {machine.sqlite}"
    )


def _duration(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes >= 2 else f"{minutes * 60:.0f} s"


def _name(record: Record) -> str:
    kind, comma, rest = record.part.partition(",")
    return _NAMES.get(kind, kind) + comma + rest


def _number(figure: float) -> str:
    if isinstance(figure, int) or figure == int(figure):
        return f"{int(figure):,}"
    return f"{figure:,.2f}" if abs(figure) < 10 else f"{figure:,.1f}"
