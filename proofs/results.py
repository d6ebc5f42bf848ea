"""What the long forms have found, kept as a file for each promise."""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchmarks.machine import Machine

FOLDER = Path(__file__).with_name("results")


class Record(msgspec.Struct):
    """A line of ``tests.proving.record``; or what several of them say together."""

    promise: str
    #: A kind of database, another part of the proof, or ``control: …``.
    part: str
    counted: dict[str, int] = {}
    worst: dict[str, float] = {}

    @property
    def is_control(self) -> bool:
        """Whether something was wrong on purpose."""
        return self.part.startswith("control")


class Result(msgspec.Struct):
    """The last run of a promise's long form."""

    promise: str
    #: Day, in UTC: ``2026-11-21``.
    ran_on: str
    minutes: float
    #: The part of the long form that was run; 1 is all of it.
    part: float
    #: Whether every test passed, and how many there were.
    is_kept: bool
    tests: int
    #: The commit that ran, ``+`` when files were changed since.
    commit: str
    machine: Machine
    records: list[Record]


def merged(lines: Iterable[str]) -> list[Record]:
    """One record for each promise and part, in the order in which they first came: figures that were
    counted are added up; of the worst, the highest stays.
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
    """The last result of each promise that was ever run, by its sign."""
    results = [msgspec.json.decode(file.read_bytes(), type=Result) for file in folder.glob("*.json")]
    return {one.promise: one for one in results}


def save(result: Result, folder: Path = FOLDER) -> None:
    """Keep this result instead of an earlier one."""
    folder.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(result), indent=2)
    (folder / f"{result.promise}.json").write_bytes(text + b"\n")
