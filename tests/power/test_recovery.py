"""The judge of what is left after the loss of power finds what is missing, half done or broken."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.power.ledger import State, state_of
from tests.power.life import Life
from tests.power.recovery import (
    CORRUPT,
    DATABASE,
    FINE,
    HALF_DONE,
    LOST,
    Found,
    examine,
    judge_recovery,
)


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path, 1, batches=20)


@pytest.fixture
def states(life: Life) -> list[State]:
    return life.states


def recover(folder: Path, right: list[State], old: list[State]) -> Found:
    return judge_recovery(folder, right, old, is_thorough=True)


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount == 1


def test_a_database_says_what_its_callers_were_told(life: Life, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        assert state_of(connection) == life.states[-1]
    assert life.acknowledged > 40


def test_what_was_acknowledged_is_right_and_so_is_what_was_under_way(
    states: list[State], tmp_path: Path
) -> None:
    assert recover(tmp_path, states[-1:], states[:-1]) == (FINE, 0, states[-1])
    assert recover(tmp_path, states[-2:], states[:-2]) == (FINE, 0, states[-1])


def test_an_acknowledged_change_that_is_missing_is_found(states: list[State], tmp_path: Path) -> None:
    assert states[-1] is not None
    licenses, activations, *others = states[-1]
    later = (licenses, [*activations, (1, "a token", 1)], *others)
    assert recover(tmp_path, [later], states) == (LOST, 1, states[-1])


def test_a_database_without_tables_has_lost_everything(states: list[State], tmp_path: Path) -> None:
    (tmp_path / DATABASE).unlink()
    lost = recover(tmp_path, states[-1:], states[:-1])
    assert (lost.word, lost.state) == (LOST, None)
    assert lost.places_missing > 20


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE id = 7",
        "UPDATE licenses SET times_activated = times_activated + 1 WHERE id = 1",
        "DELETE FROM activations WHERE id = 5",
        "DELETE FROM idempotency_records WHERE scope = (SELECT max(scope) FROM idempotency_records)",
    ],
)
def test_a_change_that_is_half_there_is_found(states: list[State], tmp_path: Path, statement: str) -> None:
    change(tmp_path, statement)
    assert recover(tmp_path, states[-2:], states[:-2]).word == HALF_DONE


def test_a_broken_page_is_found(states: list[State], tmp_path: Path) -> None:
    with (tmp_path / DATABASE).open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"garbage" * 500)
    assert recover(tmp_path, states[-1:], states[:-1]).word == CORRUPT


def test_a_file_that_is_no_database_is_found(states: list[State], tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"garbage" * 500)
    assert recover(tmp_path, states[-1:], states[:-1]).word == CORRUPT


def test_what_the_doctor_finds_is_found(life: Life, tmp_path: Path) -> None:
    change(tmp_path, "DELETE FROM events WHERE id = 1")
    (finding,) = set(examine(tmp_path, life.states[-1]))
    assert finding.startswith("the events of license 1 do not match its activations")


def test_a_commit_is_certain_from_its_acknowledgement_on_and_possible_from_its_beginning(life: Life) -> None:
    making, first = life.commits[:2]
    assert life.commits_at(making.begun_at) == range(1)
    assert life.commits_at(making.begun_at + 1) == range(2)
    assert life.commits_at(making.done_at) == range(1, 2)
    assert life.commits_at(first.begun_at + 1) == range(1, 3)
    assert life.commits_at(first.done_at - 1) == range(1, 3)
    assert life.commits_at(first.done_at) == range(2, 3)
    assert life.commits_at(len(life.operations)) == range(len(life.commits), len(life.commits) + 1)
