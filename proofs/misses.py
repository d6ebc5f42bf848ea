"""Figures of the long runs that exceed their bounds, and the known reasons."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from proofs.promises import Promise
from proofs.results import Result

FILE = Path(__file__).with_name("misses.toml")


class Name(NamedTuple):
    """Identifies a figure of one run. It includes the commit, so that an old reason does not explain a new
    miss.
    """

    promise: str
    part: str
    figure: str
    commit: str


class Miss(NamedTuple):
    """A figure, and the bound that it exceeds."""

    name: Name
    value: float
    highest: float


Reasons = Mapping[Name, str]


def find_misses(promise: Promise, result: Result) -> Iterator[Miss]:
    """Yield the figures above their bounds; controls have no bounds."""
    for run, record in ((one, record) for one in result.runs for record in one.records):
        for figure, value in {} if record.is_control else record.figures.items():
            highest = promise.bound_of(figure, record.part)
            if highest is not None and value > highest:
                yield Miss(Name(promise.sign, record.part, figure, run.commit), value, highest)


def load_reasons(file: Path = FILE) -> Reasons:
    """Load the documented reasons."""
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["miss"]
    return {Name(*(one[field] for field in Name._fields)): one["reason"] for one in entries}
