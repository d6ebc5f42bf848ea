"""What of a disk's files is left after the power was lost.

What was synced is there. Of every write and truncation since, and of every name that was made or deleted
since, anything may have happened: a write is kept or lost whatever became of those before it, or torn: of its
512-byte sectors some were written, others not, and others hold garbage. Bytes beside those that a write was
about stay as they are: SQLite counts on that (https://sqlite.org/psow.html), as the system promises it.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from tests.power.disk import Operation

SECTOR = 512

Fate = Literal["kept", "lost", "torn"]
#: What became of some operations in a row.
Weather = Callable[[random.Random, int], list[Fate]]
Files = dict[str, bytearray]


class Platter:
    """The disk after some operations: what it holds for certain, and what it was not told to keep yet."""

    def __init__(self, operations: Sequence[Operation] = ()) -> None:
        self.names: dict[str, int] = {}
        self.contents: dict[int, bytearray] = {}
        self.loose_names: list[Operation] = []
        self.loose: list[Operation] = []
        for one in operations:
            self.take(one)

    def take(self, operation: Operation) -> None:
        """Go on to after this operation."""
        match operation.kind:
            case "create" | "delete":
                self.loose_names.append(operation)
            case "write" | "truncate":
                self.loose.append(operation)
            case "sync folder":
                for one in self.loose_names:
                    self._name(one)
                self.loose_names.clear()
            case "sync":
                content = self.contents.setdefault(operation.file, bytearray())
                for one in self.loose:
                    if one.file == operation.file:
                        apply(one, content)
                self.loose = [one for one in self.loose if one.file != operation.file]

    def _name(self, operation: Operation) -> None:
        if operation.kind == "create":
            self.names[operation.name] = operation.file
        else:
            self.contents.pop(self.names.pop(operation.name, 0), None)


def apply(operation: Operation, content: bytearray) -> None:
    """Do to a file's content what a write or truncation does to it; gaps are filled with zeros."""
    if operation.kind == "truncate":
        del content[operation.offset :]
        grow(content, operation.offset)
    else:
        overwrite(content, operation.offset, operation.data)


def overwrite(content: bytearray, offset: int, data: bytes) -> None:
    grow(content, offset)
    content[offset : offset + len(data)] = data


def grow(content: bytearray, size: int) -> None:
    """Make it as long as that with zeros, unless it is longer."""
    if len(content) < size:
        content.extend(bytes(size - len(content)))


# --- kinds of weather -----------------------------------------------------------------------------


def _in_order(rng: random.Random, amount: int) -> list[Fate]:
    first = rng.randrange(amount + 1)
    fates: list[Fate] = ["lost"] * amount
    fates[:first] = ["kept"] * first
    fates[first : first + 1] = ["torn"] * (amount > first)
    return fates


def _latest(rng: random.Random, amount: int) -> list[Fate]:
    return _in_order(rng, amount)[::-1]


def _one_missing(rng: random.Random, amount: int) -> list[Fate]:
    fates: list[Fate] = ["kept"] * amount
    if amount:
        fates[rng.randrange(amount)] = rng.choice(("lost", "torn"))
    return fates


def _one_only(rng: random.Random, amount: int) -> list[Fate]:
    fates: list[Fate] = ["lost"] * amount
    if amount:
        fates[rng.randrange(amount)] = rng.choice(("kept", "torn"))
    return fates


def _each_by_itself(rng: random.Random, amount: int) -> list[Fate]:
    weights = [rng.random() for _ in range(3)]
    return rng.choices(("kept", "lost", "torn"), weights, k=amount)


WEATHERS: dict[str, Weather] = {
    "all is lost": lambda _, amount: ["lost"] * amount,
    "all is kept": lambda _, amount: ["kept"] * amount,
    "the first are kept": _in_order,
    "the latest are kept": _latest,
    "one is missing": _one_missing,
    "one is kept": _one_only,
    "each by itself": _each_by_itself,
}


# --- what is left ---------------------------------------------------------------------------------


def survivors(platter: Platter, weather: str, rng: random.Random, *, is_cut: bool = False) -> Files:
    """The files that are there after the loss of power. With ``is_cut`` it came in the middle of the last
    write.
    """
    fates = WEATHERS[weather](rng, len(platter.loose))
    if is_cut and fates:
        fates[-1] = "torn"
    names = dict(platter.names)
    for name in {one.name for one in platter.loose_names}:
        bound = [names.pop(name, None), *(_bound(one) for one in platter.loose_names if one.name == name)]
        number = bound[_which(weather, rng, len(bound))]
        if number is not None:
            names[name] = number
    return {name: _content(platter, number, fates, rng) for name, number in names.items()}


def _bound(operation: Operation) -> int | None:
    return operation.file if operation.kind == "create" else None


def _which(weather: str, rng: random.Random, amount: int) -> int:
    """Names do not change their order: one of the states that the folder was in is there."""
    extremes = {"all is lost": 0, "all is kept": amount - 1}
    return extremes[weather] if weather in extremes else rng.randrange(amount)


def _content(platter: Platter, number: int, fates: Sequence[Fate], rng: random.Random) -> bytearray:
    content = bytearray(platter.contents.get(number, b""))
    size = 0
    for operation, fate in zip(platter.loose, fates, strict=True):
        if operation.file != number:
            continue
        if operation.kind == "write":
            size = max(size, operation.offset + len(operation.data))
        if fate == "kept" or (fate == "torn" and operation.kind == "truncate" and rng.random() < 0.5):
            apply(operation, content)
        elif fate == "torn":
            for offset, piece in _pieces(operation, rng):
                overwrite(content, offset, piece)
    # The system may have made the file longer before it wrote what belongs there.
    if size > len(content) and rng.random() < 0.5:
        grow(content, rng.randint(len(content), size))
    return content


def _pieces(operation: Operation, rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """The sectors of a torn write that were written, some of them with garbage."""
    sectors = list(_sectors(operation))
    if not sectors:
        return
    cut = rng.randrange(len(sectors))
    written: Sequence[int] = rng.choice((range(cut), range(cut, len(sectors)), (cut,)))
    if rng.random() < 0.3:
        written = [number for number in range(len(sectors)) if rng.random() < 0.5]
    has_garbage = rng.random() < 0.5
    for number, (offset, data) in enumerate(sectors):
        if number in written:
            yield offset, data
        elif has_garbage and rng.random() < 0.5:
            yield offset, rng.randbytes(len(data))


def _sectors(operation: Operation) -> Iterator[tuple[int, bytes]]:
    start, end = operation.offset, operation.offset + len(operation.data)
    while start < end:
        stop = min(end, start - start % SECTOR + SECTOR)
        yield start, operation.data[start - operation.offset : stop - operation.offset]
        start = stop
