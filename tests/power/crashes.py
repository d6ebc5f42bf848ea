"""Lose the power at many points of a life, let SQLite recover what survived, and judge what it says."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.power.disk import Operation
from tests.power.ledger import State
from tests.power.life import Life
from tests.power.recovery import (
    CORRUPT,
    FINE,
    HALF_DONE,
    LOST,
    examine,
    judge_recovery,
    lay_out,
    scratch,
)
from tests.power.survivors import WEATHERS, Files, Platter, survivors

#: Every so often SQLite looks at more than it usually does; and the doctor looks.
_SELDOM = 10
_VERY_SELDOM = 100
_MAX_EVIDENCE = 3
#: What happens with every commit.
_ORDINARY = "sync keywright.db-wal"


class Expected(NamedTuple):
    """What a database may say: the ``right`` things, the first of which is what was acknowledged; and what is
    ``old``, from before that.
    """

    right: Sequence[State]
    old: Sequence[State] = ()


def sort_of(operation: Operation) -> str:
    """What was done to which file, in words."""
    return f"{operation.kind} {operation.name}".strip()


class Judge:
    """Counts what was found; the files of what was wrong are left in ``evidence``."""

    def __init__(self, evidence: Path, seed: int, *, has_doctor: bool = True) -> None:
        #: How many crash points came after which kind of operation on which file.
        self.sorts: Counter[str] = Counter()
        self._words: Counter[str] = Counter()
        self._places_missing = 0
        self._examined = 0
        self._findings: list[str] = []
        self._seen: set[object] = set()
        self._evidence = evidence
        self._has_doctor = has_doctor
        self._rng = random.Random(seed)

    @property
    def counted(self) -> dict[str, int]:
        """The figures, as they are printed."""
        return {
            "crash points": self._words.total(),
            "acknowledged changes missing": self._words[LOST],
            "acknowledged activations missing": self._places_missing,
            "changes half done": self._words[HALF_DONE],
            "corrupt databases": self._words[CORRUPT],
            "examined by the doctor": self._examined,
            "findings of the doctor": len(self._findings),
        }

    @property
    def is_satisfied(self) -> bool:
        """Whether nothing was wrong."""
        return self._words.total() == self._words[FINE] and not self._findings

    def crash(self, life: Life, points: int) -> None:
        """Lose the power at that many points of a life."""
        states = life.states

        def expected(position: int) -> Expected:
            commits = life.commits_at(position)
            return Expected([states[number] for number in commits], states[: commits[0]])

        self.crash_at(self._points(life.operations, points), life.operations, expected)

    def crash_at(
        self,
        points: Iterable[int],
        operations: Sequence[Operation],
        expected: Expected | Callable[[int], Expected],
    ) -> None:
        """Lose the power after (or in) as many of the operations as each of the points says."""
        platter, position = Platter(), 0
        with scratch() as folder:
            for stop in sorted(points):
                for operation in operations[position:stop]:
                    platter.take(operation)
                position = stop
                then = expected if isinstance(expected, Expected) else expected(stop)
                self._crash(platter, operations[stop - 1], then, folder)

    def _crash(self, platter: Platter, last: Operation, expected: Expected, folder: Path) -> None:
        weather = self._rng.choice(list(WEATHERS))
        is_cut = last.kind == "write" and self._rng.random() < 0.3
        files = survivors(platter, weather, self._rng, is_cut=is_cut)
        lay_out(files, folder)
        is_thorough = self._words.total() % _SELDOM == 0
        found = judge_recovery(folder, expected.right, expected.old, is_thorough=is_thorough)
        sort = sort_of(last)
        self.sorts[sort] += 1
        self._words[found.word] += 1
        self._places_missing += found.places_missing
        if found.word != FINE:
            self._keep(files, f"{found.word}: {weather} after {sort}")
        elif self._has_doctor and self._is_of_interest((sort, is_cut)):
            lay_out(files, folder)
            self._examined += 1
            for finding in examine(folder, found.state):
                self._findings.append(finding)
                self._keep(files, f"{finding}: {weather} after {sort}")

    def _points(self, operations: Sequence[Operation], points: int) -> list[int]:
        """Where to lose the power: after each sort of operation once; the rest, in three equal parts, around
        checkpoints, openings and closings, around syncs of the log, and anywhere.
        """
        sorts = [sort_of(one) for one in operations]
        firsts = sorted(sorts.index(one) + 1 for one in set(sorts))
        rest = points - len(firsts)
        around: dict[bool, list[int]] = {True: [], False: []}
        for number, one in enumerate(operations, 1):
            if one.kind != "write" or not one.name.endswith("-wal") or not one.offset:
                around[sorts[number - 1] == _ORDINARY] += [number, max(number - 1, 1)]
        anywhere = range(1, len(operations) + 1)
        chosen = [*firsts, *self._rng.choices(anywhere, k=rest - rest // 3 * 2)]
        for places in around.values():
            chosen += self._rng.choices(places or anywhere, k=rest // 3)
        return chosen

    def _is_of_interest(self, sort: object) -> bool:
        """Whether this is the first crash point of its sort; or one in a hundred."""
        is_first = sort not in self._seen
        self._seen.add(sort)
        return is_first or self._words.total() % _VERY_SELDOM == 0

    def _keep(self, files: Files, what: str) -> None:
        for number in range(_MAX_EVIDENCE):
            folder = self._evidence / f"crash-{number}"
            if not folder.exists():
                folder.mkdir(parents=True)
                lay_out(files, folder)
                print(f"{what}; the files are in {folder}")
                return
