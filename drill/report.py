"""The figures of a drill, for people and for programs."""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from drill.judge import Findings
from drill.outages import percentile
from drill.rounds import Round

#: How many findings of a kind are shown in words.
_SHOWN = 5
#: What may follow from the loss of changes, when that is allowed.
_CONSEQUENCES = ("missing", "unasked", "misinformed")

#: What a table says of some rounds.
Cell = Callable[[list[Round]], str]


class Report(msgspec.Struct):
    """What was drilled; ``trouble`` ended it too early."""

    is_synchronous: bool
    rounds: list[Round]
    trouble: str | None = None

    @property
    def missing(self) -> int:
        """How many acknowledged changes are lost."""
        return sum(len(one.findings.missing) for one in self.rounds)

    @property
    def is_right(self) -> bool:
        """Whether all is as it must be: nothing wrong, or, without synchronous replication, a loss."""
        if self.trouble is not None or not self.rounds:
            return False
        if self.is_synchronous:
            return not any(one.findings for one in self.rounds)
        return self.missing > 0 and not any(_is_inexcusable(one.findings) for one in self.rounds)


def save(report: Report, file: Path) -> None:
    """Write the report as JSON."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def show(report: Report, console: Console) -> None:
    """Print the report: a column for each kind of fault, and one for all."""
    kinds = list(dict.fromkeys(one.kind for one in report.rounds))
    columns = {kind: [one for one in report.rounds if one.kind == kind] for kind in kinds}
    if len(kinds) > 1:
        columns["all"] = report.rounds
    if columns:
        console.print(_table(report, columns))
    for name, words in _in_words(report.rounds):
        console.print(f"{name}: {words}", markup=False)
    console.print(_verdict(report), markup=False)


def _table(report: Report, columns: dict[str, list[Round]]) -> Table:
    replication = "synchronous" if report.is_synchronous else "asynchronous"
    table = Table(title=f"{replication} replication", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for kind in columns:
        table.add_column(kind, justify="right")
    for section in (_changes(), _wrongs(), _outages(), _troubles(report.rounds)):
        for name, cell in section.items():
            table.add_row(name, *(cell(some) for some in columns.values()))
        table.add_section()
    return table


def _changes() -> dict[str, Cell]:
    return {
        "rounds": lambda some: f"{len(some):,}",
        "acknowledged changes": lambda some: f"{sum(one.acknowledged for one in some):,}",
        "changes of unknown fate": lambda some: f"{sum(one.unknown for one in some):,}",
    }


def _wrongs() -> dict[str, Cell]:
    def number(name: str) -> Cell:
        return lambda some: f"{sum(len(getattr(one.findings, name)) for one in some):,}"

    return {name.replace("_", " "): number(name) for name in Findings.__struct_fields__}


def _outages() -> dict[str, Cell]:
    def spread(seconds: Callable[[Round], float], share: float) -> Cell:
        return lambda some: f"{percentile([seconds(one) for one in some], share):.1f} s"

    ways: dict[str, Callable[[Round], float]] = {
        "no new primary": lambda one: one.cluster_outage,
        "no writes": lambda one: one.write_outage,
        "no validations": lambda one: one.read_outage,
        "longest wait": lambda one: one.longest_wait,
    }
    return {
        f"{name}, {label}": spread(seconds, share)
        for name, seconds in ways.items()
        for label, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
    }


def _troubles(rounds: list[Round]) -> dict[str, Cell]:
    def number(name: str) -> Cell:
        return lambda some: f"{sum(one.troubles[name] for one in some):,}"

    names = sorted({name for one in rounds for name in one.troubles})
    return {f"attempts that ended in {name}": number(name) for name in names}


def _in_words(rounds: list[Round]) -> Iterable[tuple[str, str]]:
    for name in Findings.__struct_fields__:
        found = [words for one in rounds for words in getattr(one.findings, name)]
        if found:
            more = f", and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
            yield name.replace("_", " "), "; ".join(found[:_SHOWN]) + more


def _verdict(report: Report) -> str:
    if report.trouble is not None:
        return f"The drill did not come to its end: {report.trouble}"
    if report.is_synchronous:
        return "All is as it must be." if report.is_right else "This must not be."
    if report.missing == 0:
        return "Nothing was lost, although it could be: this drill would not notice a loss."
    return f"{report.missing:,} acknowledged changes were lost, as can be without synchronous replication."


def _is_inexcusable(findings: Findings) -> bool:
    """Whether something is wrong that the loss of changes does not bring about."""
    return any(getattr(findings, name) for name in Findings.__struct_fields__ if name not in _CONSEQUENCES)
