"""The results of the long runs, kept as a file for each promise."""

import json
from collections.abc import Iterable
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


class Result(msgspec.Struct):
    """The last run of a promise's long form."""

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
    #: The commit that ran, with ``+`` when files were changed since.
    commit: str
    machine: Machine
    records: list[Record]


def merged(lines: Iterable[str]) -> list[Record]:
    """One record for each promise and part, in the order of their first lines: counted figures are added
    up; of the worst, the highest stays.
    """
    found: dict[tuple[str, str], Record] = {}
    for line in lines:
        one = msgspec.convert(json.loads(line), Record)
        so_far = found.setdefault((one.promise, one.part), Record(one.promise, one.part))
        for name, number in one.counted.items():
            so_far.counted[name] = so_far.counted.get(name, 0) + number
        for name, figure in one.worst.items():
            so_far.worst[name] = max(so_far.worst.get(name, figure), figure)
    return list(found.values())


def load(folder: Path = FOLDER) -> dict[str, Result]:
    """Read the last result of each promise that was ever run, by its sign."""
    results = [msgspec.json.decode(file.read_bytes(), type=Result) for file in folder.glob("*.json")]
    return {one.promise: one for one in results}


def save(result: Result, folder: Path = FOLDER) -> None:
    """Replace the promise's earlier result by this one."""
    folder.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(result), indent=2)
    (folder / f"{result.promise}.json").write_bytes(text + b"\n")
