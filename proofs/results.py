"""The results of the long runs, kept as a file for each promise: one run, or several that add up."""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from benchmarks.machine import Machine

FOLDER = Path(__file__).with_name("results")


class Record(msgspec.Struct):
    """A line of ``tests.proving.record``, or several lines merged."""

    promise: str
    #: A kind of database, another part of the proof, or ``control: …``.
    part: str
    counted: dict[str, int] = {}
    worst: dict[str, float] = {}

    @property
    def is_control(self) -> bool:
        """True when something was wrong on purpose."""
        return self.part.startswith("control")

    @property
    def figures(self) -> dict[str, float]:
        """All figures by name."""
        return {**self.counted, **self.worst}


class Changes(msgspec.Struct):
    """What has become of the code since a run: of so many files that it ran through, so many have changed."""

    #: None: unknown, because the commit is not in the history, or its code was altered.
    changed: int | None
    files: int


class Run(msgspec.Struct):
    """A run of a promise's long form, or of a part of it."""

    promise: str
    #: Day, in UTC: ``2026-11-21``.
    ran_on: str
    minutes: float
    #: The share of the long form that was run; 1 is all of it.
    part: float
    #: True when every test passed.
    is_kept: bool
    #: The number of tests.
    tests: int
    #: The commit that ran, with ``+`` when its code was altered.
    commit: str
    machine: Machine
    records: list[Record]
    #: What the tests have drawn depends on; empty: unknown.
    seed: str = ""


class Result(msgspec.Struct):
    """What is known of a promise: the last run, and those before it that ran through the same code."""

    runs: list[Run]
    #: Since the last run, at the commit of the page.
    since: Changes | None = None

    @property
    def days(self) -> str:
        """The day of the runs, or the first and the last one."""
        return " to ".join(sorted({self.runs[0].ran_on, self.runs[-1].ran_on}))

    @property
    def commits(self) -> str:
        """The commits that ran, each once."""
        return ", ".join(dict.fromkeys(one.commit for one in self.runs))

    @property
    def is_of_this_code(self) -> bool:
        """True when nothing that it ran through has changed since."""
        return self.since is not None and self.since.changed == 0

    @property
    def part(self) -> float:
        """The share of the long form that all runs together have done; 1 or more is all of it."""
        return round(sum(one.part for one in self.runs), 4)

    @property
    def is_kept(self) -> bool:
        """True when every test of every run passed."""
        return all(one.is_kept for one in self.runs)

    @property
    def records(self) -> list[Record]:
        """The figures of all runs: counted ones are added up; of the worst, the highest stays."""
        return merged(record for run in self.runs for record in run.records)


def read(lines: Iterable[str]) -> list[Record]:
    """The records of these lines, merged."""
    return merged(msgspec.json.decode(line, type=Record) for line in lines)


def merged(records: Iterable[Record]) -> list[Record]:
    """One record for each promise and part, in the order of the first ones: counted figures are added up; of
    the worst, the highest stays.
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
    """What has changed since the last run of each promise, counted at this commit."""

    commit: str = "unknown"
    promises: dict[str, Changes] = {}


def compared(folder: Path = FOLDER) -> Compared:
    """Read what was counted last."""
    file = folder / "since.json"
    return msgspec.json.decode(file.read_bytes(), type=Compared) if file.exists() else Compared()


def load(folder: Path = FOLDER) -> dict[str, Result]:
    """Read what is known of each promise that was ever run, by its sign."""
    since = compared(folder).promises
    runs = {file.stem: _runs(file) for file in folder.glob("R*.json")}
    return {sign: Result(found, since.get(sign)) for sign, found in runs.items()}


def add(run: Run, counts: Callable[[Run], bool], folder: Path = FOLDER) -> None:
    """Add a run to the earlier ones of its promise that still count; the others are forgotten."""
    file = folder / f"{run.promise}.json"
    write(file, [*filter(counts, _runs(file) if file.exists() else []), run])


def write(file: Path, content: list[Run] | Compared) -> None:
    """Write one of the files."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def _runs(file: Path) -> list[Run]:
    return msgspec.json.decode(file.read_bytes(), type=list[Run])
