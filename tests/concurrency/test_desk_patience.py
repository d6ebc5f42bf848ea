"""The desk with a database that is at the other end of a network and does not answer: how long it is waited
for, and what happens then.

The database is an SQLite file that is asked and answers as one elsewhere does: in another thread, and not
before it is let go on.
"""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from keywright.core.command import Context
from keywright.core.errors import (
    FateUnknown,
    Fault,
    StoreConflict,
    StoreUnavailable,
    TookTooLong,
    WaitedTooLong,
)
from keywright.db import ReadTransaction, Storage, WriteTransaction
from keywright.engine import lane
from keywright.jobs.model import ExportStep
from keywright.licensing.activations.model import FindLicenses
from keywright.licensing.licenses.model import LicenseFilter
from keywright.registry import open_executor
from tests.concurrency.desks import Observed, a_desk, in_a_loop, results, start_calls, turns
from tests.makers import (
    KEY,
    NOW,
    a_storage,
    activate,
    an_origin,
    create,
    create_policy,
    generate,
    validate,
)

#: A wait that is over at once, and one that no test waits for, in seconds.
SHORT, ENDLESS = 0.02, 1000.0


class Afar(Observed):
    """Goes on after so many interruptions."""

    def __init__(self, storage: Storage, *, is_near: bool = False) -> None:
        super().__init__(storage)
        self.is_local = is_near
        #: Of each interruption, whether it was of a change.
        self.interruptions: list[bool] = []
        self.interruptions_needed = 1
        #: Set while a connection beside this one can be opened.
        self.opening = threading.Event()
        self.opening.set()
        #: What a change meets that was broken off; none where it is made nevertheless.
        self.broken: list[Fault] = []
        #: Held while somebody is at it: nobody may close it then.
        self.in_use = {"write": threading.Lock(), "read": threading.Lock()}

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        with self.in_use["write"], super().write(wait=wait) as tx:
            if self.interruptions and self.broken:
                raise self.broken[0]
            yield tx

    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        with self.in_use["read"]:
            if not self.is_local:
                self.go_on.wait(timeout=10)
            with super().read(is_single=is_single) as tx:
                yield tx

    def clone(self) -> "Afar":
        self.opening.wait(timeout=10)
        other = Afar(self.inner.clone())
        other.go_on, other.interruptions, other.broken = self.go_on, self.interruptions, self.broken
        return other

    def close(self) -> None:
        self.go_on.set()
        with self.in_use["write"], self.in_use["read"]:
            self.inner.close()

    def interrupt(self, *, writing: bool) -> None:
        self.interruptions.append(writing)
        if len(self.interruptions) >= self.interruptions_needed:
            self.go_on.set()


@pytest.fixture
def inner(tmp_path: Path) -> Storage:
    storage = a_storage(tmp_path)
    open_executor(storage).execute([create(), create_policy()])
    return storage


@pytest.fixture
def afar(inner: Storage) -> Iterator[Afar]:
    with closing(Afar(inner)) as storage:
        yield storage


@pytest.fixture
def near(inner: Storage) -> Iterator[Afar]:
    with closing(Afar(inner, is_near=True)) as storage:
        yield storage


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "_TIMEOUT", SHORT)
    monkeypatch.setattr(lane, "_LONG_TIMEOUT", ENDLESS)


def a_step() -> ExportStep:
    """Of a job that there is not."""
    fields: dict[str, Any] = {"job_id": 1, "claimed_by": "a worker", "position": 0, "is_last": True}
    return ExportStep(context=Context(NOW, an_origin()), chunk=b"", amount=0, last_id=0, **fields)


async def until_patience_is_over() -> None:
    """Return when whatever was to happen after ``SHORT`` has happened: timers go off in their order."""
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(2 * SHORT, over.set_result, None)
    await over
    await turns(3)


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_a_change_that_is_not_answered_is_broken_off_and_the_desk_goes_on(
    afar: Afar, caplog: pytest.LogCaptureFixture
) -> None:
    desk = a_desk(afar)
    afar.go_on.clear()
    assert (await desk.execute(activate())).license.times_activated == 1
    assert set(afar.interruptions) == {True}
    assert {(one.name, one.levelno) for one in caplog.records} == {("keywright.engine.lane", logging.ERROR)}
    assert set(caplog.messages) == {"the database has not answered for 0 s; its connections are broken"}
    assert (await desk.execute(activate())).license.times_activated == 2
    await desk.close()


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_a_question_that_is_not_answered_is_broken_off_as_a_question(afar: Afar) -> None:
    desk = a_desk(afar)
    afar.go_on.clear()
    assert (await desk.query(validate())).license.times_activated == 0
    assert set(afar.interruptions) == {False}
    await desk.close()


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_whatever_is_not_answered_even_then_is_broken_off_again(
    afar: Afar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lane, "_LONG_TIMEOUT", 3 * SHORT)
    desk = a_desk(afar)
    afar.interruptions_needed = 3
    afar.go_on.clear()
    await desk.execute(generate(1, 1))
    assert afar.interruptions[:3] == [True, True, True]
    assert [one.args for one in caplog.records][:3] == [(3 * SHORT,), (SHORT,), (SHORT,)]
    await desk.close()


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_a_long_command_is_waited_for_longer(afar: Afar) -> None:
    desk = a_desk(afar)
    afar.go_on.clear()
    (long,) = start_calls(desk.execute(generate(1, 1)))
    await turns(5)
    await until_patience_is_over()
    assert afar.interruptions == []
    afar.go_on.set()
    assert len(await long) == 1
    await desk.close()


@pytest.mark.parametrize("fault", [StoreUnavailable("gone"), StoreConflict("gone")])
@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_a_step_of_a_job_has_its_own_time_and_is_told_that_it_took_too_long(
    afar: Afar, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(lane, "_TIMEOUT", ENDLESS)
    monkeypatch.setattr(lane, "STEP_TIMEOUT", SHORT)
    desk = a_desk(afar)
    afar.broken.append(fault)
    afar.go_on.clear()
    (outcome,) = await results(desk.execute(a_step()))
    assert type(outcome) is TookTooLong
    assert str(outcome) == "gone"
    assert afar.interruptions == [True]
    assert afar.writes == []
    afar.broken.clear()
    assert (await desk.execute(activate())).license.times_activated == 1
    await desk.close()


@in_a_loop
async def test_what_fails_by_itself_is_not_told_that_it_took_too_long(afar: Afar) -> None:
    desk = a_desk(afar)
    afar.interruptions.append(True)
    afar.broken.append(StoreUnavailable("gone"))
    (outcome,) = await results(desk.execute(activate()))
    assert type(outcome) is StoreUnavailable
    await desk.close()


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_a_list_is_broken_off_as_a_question_beside_the_others(
    afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "_TIMEOUT", ENDLESS)
    monkeypatch.setattr(lane, "_LONG_TIMEOUT", SHORT)
    desk = a_desk(afar)
    afar.go_on.clear()
    assert len(await desk.query(FindLicenses(where=LicenseFilter(), after_id=0, limit=9))) == 1
    assert afar.interruptions == [False]
    await desk.close()


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_what_has_no_connection_yet_is_waited_for(afar: Afar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "_LONG_TIMEOUT", SHORT)
    desk = a_desk(afar)
    afar.opening.clear()
    (call,) = start_calls(desk.query(FindLicenses(where=LicenseFilter(), after_id=0, limit=9)))
    await turns(5)
    await until_patience_is_over()
    assert afar.interruptions == []
    afar.opening.set()
    assert len(await call) == 1
    await desk.close()


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_the_patience_with_one_batch_ends_with_its_answer(
    afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = a_desk(afar)
    await results(desk.execute(activate()), desk.query(validate()))
    monkeypatch.setattr(lane, "_TIMEOUT", ENDLESS)
    afar.interruptions.clear()
    afar.go_on.clear()
    (call,) = start_calls(desk.execute(activate()))
    await until_patience_is_over()
    assert afar.interruptions == []
    afar.go_on.set()
    assert (await call).license.times_activated == 2
    await desk.close()


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_a_near_database_is_never_broken_off(
    near: Afar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lane, "_LONG_TIMEOUT", SHORT)
    desk = a_desk(near)
    near.go_on.clear()
    (long,) = start_calls(desk.execute(generate(1, 1)))
    await turns(5)
    await until_patience_is_over()
    assert (near.interruptions, caplog.records) == ([], [])
    near.go_on.set()
    assert len(await long) == 1
    await desk.close()


@pytest.mark.usefixtures("short_patience")
@in_a_loop
async def test_when_the_event_loop_ends_before_its_time_the_fate_of_what_runs_is_unknown(afar: Afar) -> None:
    desk = a_desk(afar)
    before = asyncio.all_tasks()
    afar.go_on.clear()
    calls = start_calls(desk.execute(activate()), desk.execute(activate()))
    await turns(5)
    (aside,) = asyncio.all_tasks() - before - set(calls)
    aside.cancel()
    outcomes = await results(*(asyncio.wait_for(call, 10) for call in calls))
    assert [type(one) for one in outcomes] == [FateUnknown, FateUnknown]
    assert str(outcomes[0]) == "the server ended"
    assert aside.cancelled()
    afar.go_on.set()
    await desk.close()


@in_a_loop
async def test_what_is_answered_in_time_is_never_broken_off(
    afar: Afar, caplog: pytest.LogCaptureFixture
) -> None:
    desk = a_desk(afar)
    calls = (desk.execute(activate()), desk.execute(generate(1, 1)), desk.query(validate()))
    changed, made, answer = await results(*calls)
    assert (changed.license.times_activated, len(made), answer.license.key) == (1, 1, KEY)
    assert (afar.interruptions, caplog.records) == ([], [])
    await desk.close()


@in_a_loop
async def test_one_timer_looks_for_late_callers_however_many_batches_there_are(
    afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "_CHECK_INTERVAL", ENDLESS)
    loop, timers = asyncio.get_running_loop(), []
    call_later = loop.call_later

    def observed(delay: float, *call: Any, **options: Any) -> asyncio.TimerHandle:
        timers.append(delay)
        return call_later(delay, *call, **options)

    monkeypatch.setattr(loop, "call_later", observed)
    desk = a_desk(afar)
    for _ in range(3):
        await desk.execute(activate())
    assert timers.count(ENDLESS) == 1
    await desk.close()


@in_a_loop
async def test_late_callers_are_looked_for_for_as_long_as_there_are_calls(
    afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "_CHECK_INTERVAL", SHORT / 4)
    desk = a_desk(afar, answer_within=SHORT)
    afar.go_on.clear()
    (first,) = start_calls(desk.query(validate()))
    await until_patience_is_over()
    (late,) = start_calls(desk.query(validate()))
    with pytest.raises(WaitedTooLong):
        await asyncio.wait_for(late, 10)
    assert not first.done()
    afar.go_on.set()
    assert (await first).license.key == KEY
    await desk.close()
