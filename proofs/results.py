"""The results of the long runs, stored in one file per promise: one run, or several that add up."""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from benchmarks.machine import Machine

FOLDER = Path(__file__).with_name("results")


class Record(msgspec.Struct):
    """A line of ``tests.proving.record``, or several lines merged."""

    promise: str
    #: The kind of database, another part of the proof, or ``control: …``.
    part: str
    counted: dict[str, int] = {}
    worst: dict[str, float] = {}

    @property
    def is_control(self) -> bool:
        """Whether something was wrong on purpose."""
        return self.part.startswith("control")

    @property
    def figures(self) -> dict[str, float]:
        """All figures by name."""
        return {**self.counted, **self.worst}


class Changes(msgspec.Struct):
    """How many files that a run used have changed since, of how many."""

    #: None if unknown, because the commit is not in the history, or its code was modified.
    changed: int | None
    files: int


class Run(msgspec.Struct):
    """A run of a promise's long form, or of a share of it."""

    promise: str
    #: The day in UTC, like ``2026-11-21``.
    ran_on: str
    minutes: float
    #: The share of the long form that was run; 1 is all of it.
    part: float
    #: Whether all tests passed.
    is_kept: bool
    #: The number of tests.
    tests: int
    #: The commit that ran, with ``+`` if its code was modified.
    commit: str
    machine: Machine
    records: list[Record]
    #: The random seed of the tests; empty if unknown.
    seed: str = ""


class Result(msgspec.Struct):
    """The results for a promise: the last run, and earlier runs of the same code."""

    runs: list[Run]
    #: The changes from the last run to the commit of the page.
    since: Changes | None = None

    @property
    def days(self) -> str:
        """The day of the runs, or the first and last day."""
        return " to ".join(sorted({self.runs[0].ran_on, self.runs[-1].ran_on}))

    @property
    def commits(self) -> str:
        """The commits that ran, each once."""
        return ", ".join(dict.fromkeys(one.commit for one in self.runs))

    @property
    def is_of_this_code(self) -> bool:
        """Whether no file that the last run used has changed since."""
        return self.since is not None and self.since.changed == 0

    @property
    def part(self) -> float:
        """The share of the long form in all runs together; 1 or more is all of it."""
        return round(sum(one.part for one in self.runs), 4)

    @property
    def is_kept(self) -> bool:
        """Whether all tests of all runs passed."""
        return all(one.is_kept for one in self.runs)

    @property
    def records(self) -> list[Record]:
        """The merged figures of all runs, see ``merged``."""
        return merged(record for run in self.runs for record in run.records)


def read(lines: Iterable[str]) -> list[Record]:
    """Parse and merge the records in these lines."""
    return merged(msgspec.json.decode(line, type=Record) for line in lines)


def merged(records: Iterable[Record]) -> list[Record]:
    """Merge records to one per promise and part, in the order of their first records: add up counted figures,
    and keep the maximum of the worst.
    """
    found: dict[tuple[str, str], Record] = {}
    for one in records:
        so_far = found.setdefault((one.promise, one.part), Record(one.promise, one.part))
        for name, number in one.counted.items():
            so_far.counted[name] = so_far.counted.get(name, 0) + number
        for name, figure in one.worst.items():
            so_far.worst[name] = max(so_far.worst.get(name, figure), figure)
    return list(found.values())


class Compared(msgspec.Struct):
    """The changes since the last run of each promise, counted at this commit."""

    commit: str = "unknown"
    promises: dict[str, Changes] = {}


def compared(folder: Path = FOLDER) -> Compared:
    """Load the changes that were counted last."""
    file = folder / "since.json"
    return msgspec.json.decode(file.read_bytes(), type=Compared) if file.exists() else Compared()


def load(folder: Path = FOLDER) -> dict[str, Result]:
    """Load the results of all promises that were ever run, by sign."""
    since = compared(folder).promises
    runs = {file.stem: _runs(file) for file in folder.glob("R*.json")}
    return {sign: Result(found, since.get(sign)) for sign, found in runs.items()}


def add(run: Run, counts: Callable[[Run], bool], folder: Path = FOLDER) -> None:
    """Store a run with the earlier runs of its promise that still count; drop the others."""
    file = folder / f"{run.promise}.json"
    write(file, [*filter(counts, _runs(file) if file.exists() else []), run])


def write(file: Path, content: list[Run] | Compared) -> None:
    """Write a results file."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def _runs(file: Path) -> list[Run]:
    return msgspec.json.decode(file.read_bytes(), type=list[Run])
