"""What programs are told over HTTP can be explained by licenses that do one thing after the other, also when
servers are killed meanwhile.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.concurrency.instances import instances
from tests.histories import faulty
from tests.histories.checker import find_order, in_words, is_in_order
from tests.histories.games import Arena, Game, arena
from tests.histories.license import Done, Operation
from tests.http.asking import Client
from tests.proving import record, size
from tests.server import NO_LIMITS, RunningServer, running

AT_ONCE = 40
#: On PostgreSQL.
SERVERS = 3


@contextmanager
def table(servers: Sequence[RunningServer]) -> Iterator["Table"]:
    """Where games can be played with these servers."""
    credentials = servers[0].api_key()
    with arena(servers, credentials) as place, Client(servers[0], credentials) as vendor:
        yield Table(place, vendor)


class Table(NamedTuple):
    """Servers, and who has licenses for them."""

    arena: Arena
    vendor: Client

    def played(self, amount: int, *, kills: int = 0) -> list[Game]:
        """Games that were played at once, while servers were killed that often."""
        games = [Game(self.vendor, is_sale=number % 5 == 0) for number in range(amount)]
        self.arena.play(games, kills=kills)
        return games


def is_right(game: Game, history: Sequence[Operation] | None = None) -> bool:
    """Whether it can have been, or this other history of it can."""
    history = game.history if history is None else history
    if game.strange or find_order(history, game.start) is None:
        return False
    if not game.is_sale:
        return True
    assert game.start.limit is not None
    return is_in_order([one for one in history if one.what == "activate"], game.start.limit)


def test_what_programs_are_told_is_what_a_license_says_that_does_one_thing_after_the_other(
    database: str, tmp_path: Path
) -> None:
    operations = unknown = played = 0
    bad: list[Game] = []
    with instances(tmp_path, SERVERS, database) as servers:
        with table(servers) as at:
            for batch in range(-(-size(200, 10_000) // AT_ONCE)):
                games = at.played(AT_ONCE, kills=batch % 2)
                played += len(games)
                operations += sum(len(game.history) for game in games)
                unknown += sum(one.answer is None for game in games for one in game.history)
                bad += [game for game in games if not is_right(game)]
        found = {"histories": played, "bad histories": len(bad), "kills": at.arena.kills}
        record("R2", database, {**found, "operations": operations, "operations without an answer": unknown})
        assert not bad, explain(bad[0])
        for server in servers:
            assert '"level":"error"' not in server.log
        servers[0].assert_consistent()
    assert at.arena.kills > 0
    assert 0 < unknown < operations / 5


def explain(game: Game) -> str:
    return "\n".join([f"a license with limit {game.start.limit}", *game.strange, in_words(game.history)])


# --- controls -------------------------------------------------------------------------------------


def test_what_really_happened_is_rejected_after_two_answers_are_swapped_or_one_is_doubled(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "data", **NO_LIMITS) as server, table([server]) as at:
        games = at.played(AT_ONCE)
    altered = rejected = 0
    for game in games:
        assert is_right(game), explain(game)
        for is_swapped in (True, False):
            history = with_other_counters(game.history, is_swapped=is_swapped)
            if history is not None:
                altered += 1
                rejected += not is_right(game, history)
    record("R2", "control: altered answers", {"altered": altered, "found": rejected})
    assert altered > AT_ONCE // 4
    # Some can have been, with what others did in between.
    assert rejected > altered * 4 // 5


def with_other_counters(history: Sequence[Operation], *, is_swapped: bool) -> list[Operation] | None:
    """The same, but two activations, of which one was answered before the other began, have each other's
    counters, or one has the other's, too; None where there are no two.
    """
    taken = [one for one in history if one.what == "activate" and isinstance(one.answer, Done)]
    pairs = [
        (one, other)
        for one in taken
        for other in taken
        if one.ended_at < other.started_at and _counter(one) != _counter(other)
    ]
    if not pairs:
        return None
    one, other = random.choice(pairs)
    altered = list(history)
    altered[history.index(one)] = _counting(one, _counter(other))
    if is_swapped:
        altered[history.index(other)] = _counting(other, _counter(one))
    return altered


def _counter(operation: Operation) -> int:
    assert isinstance(operation.answer, Done)
    return operation.answer.times_activated


def _counting(operation: Operation, counter: int) -> Operation:
    assert isinstance(operation.answer, Done)
    return operation._replace(answer=operation.answer._replace(times_activated=counter))


@pytest.mark.parametrize("fault", [faulty.counting_from_before, faulty.answering_before_the_commit])
def test_a_server_whose_batches_are_not_atomic_is_found(
    database: str, tmp_path: Path, fault: Callable[[], None]
) -> None:
    kills = 3 if fault is faulty.answering_before_the_commit else 0
    with (
        instances(tmp_path, 1, database, program=faulty.program(fault)) as servers,
        table(servers) as at,
    ):
        games: list[Game] = []
        bad: list[Game] = []
        # A kill may come when nothing is under way.
        while not bad and len(games) < 10 * AT_ONCE:
            games += at.played(AT_ONCE, kills=kills)
            bad = [game for game in games if not is_right(game)]
    words = fault.__name__.replace("_", " ")
    record("R2", f"control: {words}, {database}", {"histories": len(games), "bad histories": len(bad)})
    assert bad
