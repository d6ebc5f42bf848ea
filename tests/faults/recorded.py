"""Read what ``altered("recording")`` has written down: what connections did to a database file, and when."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Deed(NamedTuple):
    """A connection that may write has ``opened``; its transaction has ``begun``, was ``committed`` or
    ``undone``, or has ``failed``; it was ``refused`` one; it is ``closing``, or was ``closed``.
    """

    process: int
    connection: int
    what: str
    #: A moment of ``time.monotonic``, which all processes share.
    at: float


class Turn(NamedTuple):
    """The time of a transaction, from the moment it could change something until its commit has returned:
    SQLite may move the log into the database at the end of it.
    """

    process: int
    began_at: float
    ended_at: float


def deeds(record: Path) -> list[Deed]:
    """All of them, in the order they were written down."""
    if not record.exists():
        return []
    # Somebody may be writing the last line.
    lines = record.read_text().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [Deed(process, number, what, at / 1e9) for process, number, what, at in rows]


def turns(found: Iterable[Deed], killed_at: dict[int, float] | None = None) -> list[Turn]:
    """Every transaction, in the order they began; those that were cut off ended when their process did."""
    begun: dict[tuple[int, int], float] = {}
    ended = []
    for one in found:
        who = (one.process, one.connection)
        if one.what == "begun":
            begun[who] = one.at
        elif one.what in ("committed", "undone") and who in begun:
            ended.append(Turn(one.process, begun.pop(who), one.at))
    killed_at = killed_at or {}
    ended += [
        Turn(process, at, killed_at[process]) for (process, _), at in begun.items() if process in killed_at
    ]
    return sorted(ended, key=lambda turn: turn.began_at)


def find_interleaved(found: Iterable[Turn]) -> list[tuple[Turn, Turn]]:
    """Transactions that began before another process's had ended, each after that one."""
    met: list[tuple[Turn, Turn]] = []
    latest: Turn | None = None
    for turn in found:
        if latest is not None and turn.began_at < latest.ended_at and turn.process != latest.process:
            met.append((latest, turn))
        if latest is None or turn.ended_at > latest.ended_at:
            latest = turn
    return met


def failures(found: Iterable[Deed]) -> int:
    """How many transactions failed."""
    return Counter(one.what for one in found)["failed"]


def find_used_after_failure(found: Iterable[Deed]) -> list[Deed]:
    """What connections did that had failed before, instead of being closed."""
    by_connection: dict[tuple[int, int], list[Deed]] = {}
    for one in found:
        by_connection.setdefault((one.process, one.connection), []).append(one)
    used = []
    for of_one in by_connection.values():
        has_failed = False
        for one in of_one:
            has_failed = has_failed or one.what == "failed"
            if has_failed and one.what in ("begun", "committed"):
                used.append(one)
    return used
