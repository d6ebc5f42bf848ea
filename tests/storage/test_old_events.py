"""Events are kept for a retention period, and those of client calls on one license up to a maximum."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from keywright.core.command import Context
from keywright.core.errors import KeywrightError
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import events
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.identity.model import Permissions
from keywright.maintenance import doctor, old_events
from keywright.maintenance.old_events import PurgeResult
from keywright.maintenance.tasks import PurgeEvents
from tests.makers import (
    NOW,
    activate,
    an_event,
    an_origin,
    create,
    deactivate,
    deactivate_all,
    issue_api_key,
)
from tests.storage.projected import follow_all, list_counts

DATABASES = ("sqlite",)

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small limits, which show the same as large ones."""
    monkeypatch.setattr(old_events, "MAX_PER_DAY", 5)
    monkeypatch.setattr(old_events, "MAX_TOTAL", 12)


def forget(executor: Executor, **fields: Any) -> PurgeResult | None:
    """Run one step."""
    [outcome] = executor.execute([PurgeEvents(context=Context(NOW, an_origin()), **fields)])
    assert not isinstance(outcome, KeywrightError), outcome
    found: PurgeResult | None = outcome
    return found


def forget_all(executor: Executor, **fields: Any) -> None:
    """Delete everything past retention, as the server does."""
    for _ in range(1_000):
        step = forget(executor, **fields)
        assert step is not None
        for license_id in step.crowded:
            while not (one := forget(executor, license_id=license_id)) or not one.is_last:
                pass
        if step.is_last:
            return
    raise AssertionError("it never ends")


def save_events_of_days(storage: Storage, license_id: int, days: list[int], **fields: Any) -> None:
    """Save an event of a client call on each of these days."""
    some = [
        an_event(license_id=license_id, occurred_at=NOW + n * DAY, activation_id=i, **fields)
        for i, n in enumerate(days)
    ]
    run_write(storage, lambda tx: event_store.save_events(tx, some))


def list_events_left(storage: Storage, license_id: int) -> list[tuple[int, int | None]]:
    """The days and activation IDs of the license's events, oldest first."""
    query = select(events.c.occurred_at, events.c.activation_id).where(events.c.license_id == license_id)
    found = run_read(storage, lambda tx: tx.connection.execute(query.order_by(events.c.id)).all())
    return [((at - int(NOW.timestamp())) // 86_400, number) for at, number in found]


def test_events_are_kept_for_so_long(storage: Storage, executor: Executor) -> None:
    save_events_of_days(storage, 1, [0, 1, 2, 3, 4], name="license.updated", actor="user:1")
    follow_all(executor)
    forget_all(executor, before=NOW + 2 * DAY)
    assert list_events_left(storage, 1) == [(2, 2), (3, 3), (4, 4)]
    forget_all(executor)
    assert len(list_events_left(storage, 1)) == 3


@pytest.mark.smoke
def test_what_has_not_been_followed_stays(storage: Storage, executor: Executor) -> None:
    save_events_of_days(storage, 1, [0, 1])
    save_events_of_days(storage, 2, [1] * 30)
    forget_all(executor, before=NOW + 9 * DAY - 8 * DAY)
    assert (len(list_events_left(storage, 1)), len(list_events_left(storage, 2))) == (2, 30)
    follow_all(executor)
    counted = list_counts(storage)
    forget_all(executor, before=NOW + DAY)
    assert (len(list_events_left(storage, 1)), len(list_events_left(storage, 2))) == (1, 5)
    assert list_counts(storage) == counted
    assert sum(counted.values()) == 32


def test_nothing_goes_when_even_the_newest_event_seems_too_old(storage: Storage, executor: Executor) -> None:
    save_events_of_days(storage, 1, [0, 1])
    follow_all(executor)
    assert forget(executor, before=NOW + 500 * DAY) is None
    assert len(list_events_left(storage, 1)) == 2


def test_of_one_license_s_own_calls_so_many_are_kept_of_each_day_and_in_all(
    storage: Storage, executor: Executor
) -> None:
    save_events_of_days(storage, 1, [0] * 4 + [1] * 9 + [2] * 5)
    save_events_of_days(storage, 2, [0] * 5)
    follow_all(executor)
    forget_all(executor)
    # The last five of the second day, and two of the first day, which makes twelve.
    assert list_events_left(storage, 1) == [
        (0, 2),
        (0, 3),
        *((1, n) for n in range(8, 13)),
        *((2, n) for n in range(13, 18)),
    ]
    assert len(list_events_left(storage, 2)) == 5
    save_events_of_days(storage, 1, [2] * 3)
    follow_all(executor)
    forget_all(executor)
    assert [number for day, number in list_events_left(storage, 1) if day == 2] == [16, 17, 0, 1, 2]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, 5),
        ({"name": "license.deactivated"}, 5),
        ({"name": "license.reactivated"}, 5),
        ({"name": "license.updated"}, 30),
        ({"actor": "user:1"}, 30),
        ({"actor": "cli:root"}, 30),
        ({"actor": "api_key:1"}, 30),
        ({"actor": "api_key:2"}, 5),
    ],
)
def test_only_calls_without_a_secret_are_a_license_s_own(
    storage: Storage, executor: Executor, fields: dict[str, Any], kept: int
) -> None:
    for permissions in (Permissions.READ_WRITE, Permissions.CLIENT):
        issue_api_key(storage, "a key", permissions, NOW)
    save_events_of_days(storage, 1, [0] * 30, **fields)
    follow_all(executor)
    forget_all(executor)
    assert len(list_events_left(storage, 1)) == kept


@pytest.mark.parametrize(
    "happen",
    [
        lambda token: [deactivate(token), activate()] * 10,
        lambda token: [deactivate_all(), activate()] * 10,
    ],
)
def test_the_doctor_does_not_miss_what_is_gone(
    storage: Storage, executor: Executor, happen: Callable[[str], list[Any]]
) -> None:
    _, taken = executor.execute([create(), activate()])
    for command in happen(taken.activations[0].token):
        executor.execute([command])
    follow_all(executor)
    forget_all(executor)
    assert list(doctor.examine(storage, lambda _: None)) == []
    forget_all(executor, before=NOW)
    assert list(doctor.examine(storage, lambda _: None)) == []
