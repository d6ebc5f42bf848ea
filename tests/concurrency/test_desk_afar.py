"""The desk with a database at the other end of a network: nobody waits for what others asked."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from keywright.core.errors import StoreConflict
from keywright.db import open_storage, session
from keywright.registry import open_executor
from tests.concurrency.desks import Observed, a_desk, a_url, in_a_loop, results, start_calls, turns
from tests.databases import execute
from tests.makers import (
    KEY,
    KEY_RING,
    activate,
    create,
    validate,
)

DATABASES = ("postgresql",)


@pytest.fixture
def url(database: str, tmp_path: Path) -> Iterator[str]:
    with a_url(database, tmp_path) as url:
        yield url


@pytest.fixture
def storage(url: str) -> Iterator[Observed]:
    with closing(open_storage(url, KEY_RING)) as inner:
        open_executor(inner).execute([create(), create("other")])
        storage = Observed(inner)
        yield storage
        storage.go_on.set()


async def until_somebody_waits(url: str) -> None:
    """Return when a session waits for a lock."""
    while execute(url, "SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]:
        await asyncio.sleep(0)


def hold(connection: psycopg.Connection, key: str = KEY) -> None:
    """Another program holds the license."""
    query = "SELECT id FROM licenses WHERE key_hmac = %s FOR UPDATE"
    assert connection.execute(query, (KEY_RING.blind_index(key),)).fetchall() != []


@in_a_loop
async def test_a_slow_change_holds_up_no_question_and_what_comes_meanwhile_is_decided_together(
    storage: Observed,
) -> None:
    desk = a_desk(storage)
    storage.go_on.clear()
    calls = start_calls(desk.execute(activate()))
    await turns(5)
    calls += start_calls(*(desk.execute(activate()) for _ in range(20)))
    assert (await desk.query(validate())).license.times_activated == 0
    assert not any(call.done() for call in calls)
    storage.go_on.set()
    outcomes = await asyncio.gather(*calls)
    assert [one.license.times_activated for one in outcomes] == list(range(1, 22))
    assert storage.writes == ["aside", "aside"]
    await desk.close()


@in_a_loop
async def test_a_license_that_another_program_holds_is_waited_for_while_questions_go_on(
    storage: Observed, url: str
) -> None:
    desk = a_desk(storage)
    with closing(psycopg.connect(url)) as other:
        hold(other)
        calls = start_calls(*(desk.execute(activate()) for _ in range(3)))
        await until_somebody_waits(url)
        assert (await desk.query(validate())).license.times_activated == 0
        assert not any(call.done() for call in calls)
        other.rollback()
        assert [one.license.times_activated for one in await asyncio.gather(*calls)] == [1, 2, 3]
    await desk.close()


@in_a_loop
async def test_waiting_in_vain_is_told_to_those_who_want_that_license_and_to_no_others(
    storage: Observed, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_SETUP", session._SETUP.replace("'1s'", "'50ms'"))
    monkeypatch.setattr("keywright.engine.executor.HOLD_OFF", 0)
    storage.inner.close()
    desk = a_desk(storage)
    with closing(psycopg.connect(url)) as other:
        hold(other)
        outcomes = await results(
            desk.execute(activate()), desk.execute(activate("other")), desk.execute(activate())
        )
        other.rollback()
    assert [isinstance(one, StoreConflict) for one in outcomes] == [True, False, True]
    assert (await desk.execute(activate())).license.times_activated == 1
    await desk.close()
