"""The reports: sold, renewed and lapsed licenses per month, and devices per day."""

import random
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Text, cast, literal, select
from sqlalchemy import delete as deleted_from
from sqlalchemy import update as updated

from keywright.core.command import Context, Origin
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import activations, checkpoints, report_counts, report_events
from keywright.engine.executor import Executor
from keywright.licensing.activations.model import SaveLastSeen
from keywright.licensing.licenses.model import Status, UpdateLicense
from keywright.maintenance import doctor
from keywright.search import reports
from keywright.search.feed import list_events
from keywright.search.reports_rules import LICENSE, MONTH, VERSION, Counted, day_of
from keywright.search.reports_store import list_counts
from keywright.search.statistics import CountDevices
from keywright.search.store import EventFilter
from tests.makers import (
    NOW,
    activate_device,
    an_origin,
    create,
    create_policy,
    delete,
    set_terms,
    start_trial,
    update,
)
from tests.storage.projected import follow_all
from tests.storage.test_moments import pass_moments

DAY = timedelta(days=1)
EXPIRY = NOW + 20 * DAY
_MONTHS = tuple(day_of(datetime(2026 + at // 12, at % 12 + 1, 1, tzinfo=UTC)) for at in range(-2, 30))
FIGURES = ("made", "trials", "bought", "expiries", "renewed", "lapsed", "refunded")


def months(storage: Storage, product_id: int = 0) -> dict[str, int]:
    """The figures of all months, with names like `2026-01 made`."""
    found = run_read(storage, lambda tx: list_counts(tx, MONTH, subjects=(product_id,)))
    return {f"{reports.date_of(day):%Y-%m} {name}": amount for (_, _, day, name), amount in found.items()}


def live(executor: Executor) -> None:
    """Simulate licenses that are renewed early and late, lapse, are moved and refunded; and trials."""
    done = executor.execute([create(key, expires_at=EXPIRY, product_id=7) for key in "abcd"])
    done += executor.execute(
        [create("forever", product_id=17), update("a", now=NOW + 2 * DAY, expires_at=EXPIRY + 365 * DAY)]
    )
    done += executor.execute([create_policy(product_id=17, terms={"trial": True, "valid_for_days": 14})])
    done += executor.execute([start_trial("one"), start_trial("two")])
    pass_moments(executor, NOW)
    pass_moments(executor, EXPIRY + DAY)
    shop = Context(NOW, Origin("connection:1", "", ""))
    later = [
        update("b", now=EXPIRY + 30 * DAY, expires_at=EXPIRY + 400 * DAY),
        update("c", now=EXPIRY + 31 * DAY, product_id=8),
        set_terms({"trial": False}, done[-1].view.license.id),
        UpdateLicense(context=shop, license="d", changes={"status": Status.DISABLED}),
        delete("c"),
    ]
    for command in later:
        done += executor.execute([command])
    assert not [one for one in done if isinstance(one, Exception)]


def test_months_are_counted_once_and_can_be_counted_again(executor: Executor, storage: Storage) -> None:
    live(executor)
    for limit in (3, 500, 1):
        follow_all(executor, limit)
    expected = {"2026-01 made": 5, "2026-01 trials": 2, "2026-01 bought": 1, "2026-01 refunded": 1}
    assert months(storage) == expected | {"2026-02 expiries": 4, "2026-02 renewed": 2}
    assert months(storage, 7) == {
        "2026-01 made": 4,
        "2026-01 refunded": 1,
        "2026-02 expiries": 4,
        "2026-02 renewed": 2,
    }
    assert months(storage, 8) == {}
    before = months(storage)
    assert not list(doctor.examine(storage, lambda _: None))
    with storage.write() as tx:
        tx.connection.execute(
            updated(report_counts).values(amount=9).where(report_counts.c.name == "renewed")
        )
        tx.connection.execute(deleted_from(report_counts).where(report_counts.c.name == "trials"))
    found = list(doctor.examine(storage, lambda _: None))
    assert {one.code for one in found} == {"report.wrong"}
    doctor.repair(storage, found[0], NOW, an_origin())
    assert months(storage) == before
    assert not list(doctor.examine(storage, lambda _: None))
    follow_all(executor)
    assert months(storage) == before


def live_at_random(executor: Executor, chance: random.Random, steps: int) -> None:
    """Simulate random licenses and trials: renewed early, late and twice, bought, moved and refunded."""
    now, keys = NOW, list[str]()
    shop = Origin("connection:1", "", "")
    for step in range(steps):
        now += timedelta(days=chance.choice([0, 1, 5, 20]))
        product_id = chance.choice([None, 7, 8])
        if not keys or chance.random() < 0.3:
            keys.append(f"key-{step}")
            expires_at = chance.choice([None, now + 3 * DAY, now + 40 * DAY])
            executor.execute([create(keys[-1], now=now, expires_at=expires_at, product_id=product_id)])
        if chance.random() < 0.1:
            (trial,) = executor.execute([start_trial(f"device-{step}")])
            keys.append(trial.view.license.key)
        key = chance.choice(keys)
        moved = now + timedelta(days=chance.choice([-10, 10, 40, 400]))
        changes: list[Any] = [
            update(key, now=now, expires_at=moved),
            update(key, now=now, expires_at=chance.choice([None, NOW + 40 * DAY])),
            update(key, now=now, product_id=product_id),
            UpdateLicense(context=Context(now, shop), license=key, changes={"status": Status.DISABLED}),
            update(key, now=now, status=Status.ACTIVE),
            set_terms({"trial": False}, key, now=now),
        ]
        executor.execute([chance.choice(changes)])
        if chance.random() < 0.3:
            pass_moments(executor, now)
        if chance.random() < 0.2:
            follow_all(executor, chance.choice([1, 3, 500]))
    executor.execute([delete(one) for one in keys[::5]])


def list_all(storage: Storage, name: str, subject: int = 0, months: Iterable[int] = ()) -> list[int]:
    """List the events of a figure, in pages."""
    where = EventFilter(counted=Counted(name, (*months,) or _MONTHS, subject))
    found, before_id = list[int](), None
    for _ in range(1000):
        page = run_read(storage, partial(list_events, where=where, before_id=before_id, limit=20))
        found += [one.id for one in page.events]
        if (before_id := page.before_id) is None:
            return found
    raise AssertionError("it never ends")


def list_wrong_figures(storage: Storage, now: datetime) -> list[tuple[Any, ...]]:
    """The figures that differ from the length of their lists, per month and in total."""
    wrong = list[tuple[Any, ...]]()
    for subject in (0, 7, 8, 17):
        every = run_read(storage, partial(reports.list_months, now=now, months=36, product_id=subject))
        for name in FIGURES:
            amounts = {(one.first - date(1970, 1, 1)).days: getattr(one, name) for one in every}
            whole = list_all(storage, name, subject)
            parts = {day: len(list_all(storage, name, subject, [day])) for day in amounts if amounts[day]}
            if len({*whole}) != sum(amounts.values()) or any(amounts[day] != parts[day] for day in parts):
                wrong.append((subject, name, whole, amounts, parts))
    return wrong


def test_the_list_of_each_figure_has_as_many_events_as_it_states(
    executor: Executor, storage: Storage
) -> None:
    chance = random.Random(7)
    policy = create_policy(product_id=17, terms={"trial": True, "valid_for_days": 14})
    for command in (create("one", product_id=17), policy):
        executor.execute([command])
    live_at_random(executor, chance, 60)
    follow_all(executor)
    assert not list_wrong_figures(storage, NOW + 900 * DAY)
    assert not list(doctor.examine(storage, lambda _: None))
    before = [list_all(storage, name) for name in FIGURES]
    assert all(before)
    # A server of an older release counted without writing the lists.
    with storage.write() as tx:
        tx.connection.execute(deleted_from(report_events))
        tx.connection.execute(
            updated(checkpoints).values(last_id=0).where(checkpoints.c.name == "reports_listed")
        )
    follow_all(executor, 100)
    assert [list_all(storage, name) for name in FIGURES] == before


def count_all(executor: Executor, now: Any = NOW) -> None:
    for _ in range(50):
        (has_more,) = executor.execute([CountDevices(context=Context(now, an_origin()))])
        if has_more is False:
            return
    raise AssertionError("it never ends")


def versions(storage: Storage, **where: Any) -> dict[tuple[int, str], int]:
    found = run_read(storage, lambda tx: list_counts(tx, VERSION, **where))
    return {(subject, name): amount for (_, subject, _, name), amount in found.items()}


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_MAX_DEVICES", 3)
    monkeypatch.setattr(reports, "MAX_VERSIONS", 2)


def test_devices_are_counted_once_a_day_however_many_steps_it_takes(
    executor: Executor, storage: Storage, small_steps: None
) -> None:
    follow_all(executor)
    executor.execute([create(key, product_id=7 if key < "c" else None) for key in "abcd"])
    calls = [
        activate_device(f"device-{key}{number}", key)
        for key in "abcd"
        for number in range("abcd".index(key) + 2)
    ]
    places = [one.activation for one in executor.execute(calls)]
    seen = {(one.license_id, one.id): int(NOW.timestamp()) for one in places[:-1]}
    executor.execute([SaveLastSeen(context=Context(NOW, an_origin()), seen=seen)])
    for number, one in enumerate(places):
        version = {"app_version": f"1.{min(number, 2)}", "platform": "Linux"}
        run_write(storage, partial(_describe, one.id, version))
    count_all(executor)
    first = versions(storage)
    assert first == {
        (7, "1.1\tLinux\t1"): 1,
        (7, "1.2\tLinux\t1"): 3,
        (7, "*\t\t1"): 1,
        (0, "1.2\tLinux\t1"): 8,
    }
    count_all(executor)
    assert versions(storage) == first
    # A day later, with an incomplete count.
    tomorrow = NOW + DAY
    executor.execute([CountDevices(context=Context(tomorrow, an_origin()))])
    count_all(executor, tomorrow + DAY)
    days = {key[2] for key in run_read(storage, lambda tx: list_counts(tx, VERSION))}
    assert days == {day_of(NOW), day_of(tomorrow + DAY)}
    assert sum(versions(storage, since=day_of(tomorrow)).values()) == 13


def _describe(id: int, values: dict[str, str], tx: Any) -> None:
    tx.connection.execute(updated(activations).where(activations.c.id == id).values(values))


def test_licenses_with_more_than_their_like_are_listed(executor: Executor, storage: Storage) -> None:
    follow_all(executor)
    executor.execute([create(f"key-{number}") for number in range(9)])
    executor.execute([activate_device("one", f"key-{number}") for number in range(8)])
    executor.execute([activate_device(f"device-{number}", "key-8") for number in range(12)])
    with storage.write() as tx:
        column = activations.c
        network = literal("10.").concat(cast(column.id, Text)).concat(".0.1")
        of_many = column.fingerprint.like("device-%")
        tx.connection.execute(updated(activations).where(of_many).values(ip_address=network))
    count_all(executor)
    count_all(executor, NOW + DAY)
    found = run_read(storage, lambda tx: list_counts(tx, LICENSE))
    query = select(activations.c.license_id).where(activations.c.fingerprint == "device-3")
    number = run_read(storage, lambda tx: tx.connection.execute(query).scalar_one())
    assert {key[1:2] + key[3:]: amount for key, amount in found.items()} == {
        (number, "devices"): 12,
        (number, "networks"): 12,
        (number, "refusals"): 0,
        (number, "score"): 1080,
    }
