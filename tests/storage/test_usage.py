"""Usage of meters: what is counted, refused and stored."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from keywright.core.command import Context
from keywright.core.errors import InvalidParameters, ProductMismatch, UsageExceeded
from keywright.db import Storage
from keywright.db.schema import past_usage
from keywright.engine.executor import Executor
from keywright.licensing.licenses import store as license_store
from keywright.licensing.management.store import list_managed
from keywright.licensing.usage import store
from keywright.licensing.usage.model import MeterUsage
from keywright.maintenance.commands import PurgeUsage
from tests.databases import KINDS
from tests.makers import KEY, NOW, a_retry, an_origin, create, delete, record_usage, rename, set_terms

DATABASES = KINDS
TERMS: Mapping[str, Any] = {
    "meters": {
        "exports": {"limit": 10, "per": "day"},
        "minutes": {"limit": 10, "per": "month", "overage": "allow"},
    }
}
TODAY, TOMORROW, AFTER, THIS_MONTH = (datetime(2026, 1, day, tzinfo=UTC) for day in (15, 16, 17, 1))


@pytest.fixture
def metered(executor: Executor) -> Executor:
    """One license with two meters."""
    assert not [one for one in executor.execute([create(), set_terms(TERMS)]) if isinstance(one, Exception)]
    return executor


def list_stored(storage: Storage) -> list[MeterUsage]:
    with storage.read() as tx:
        return sorted(store.list_usage(tx, [1]).get(1, []), key=lambda one: one.meter)


def test_amounts_are_added_up_by_meter(metered: Executor, storage: Storage) -> None:
    [first] = metered.execute([record_usage("exports", 3)])
    assert (first.usage, first.limit, first.resets_at) == (MeterUsage(1, "exports", TODAY, 3), 10, TOMORROW)
    outcomes = metered.execute(
        [record_usage("exports"), record_usage("minutes", 11), record_usage("exports")]
    )
    assert [one.usage.used for one in outcomes] == [4, 11, 5]
    assert list_stored(storage) == [
        MeterUsage(1, "exports", TODAY, 5),
        MeterUsage(1, "minutes", THIS_MONTH, 11),
    ]


def test_what_does_not_fit_is_not_counted(metered: Executor, storage: Storage) -> None:
    outcomes = metered.execute([record_usage("exports", one) for one in (9, 2, 1, 1)])
    assert [isinstance(one, UsageExceeded) for one in outcomes] == [False, True, False, True]
    assert (outcomes[1].used, outcomes[1].limit, outcomes[1].resets_at) == (9, 10, TOMORROW)
    assert list_stored(storage) == [MeterUsage(1, "exports", TODAY, 10)]


def test_a_new_period_begins_at_nothing(metered: Executor, storage: Storage) -> None:
    metered.execute([record_usage("exports", 10, now=NOW)])
    [next_day] = metered.execute([record_usage("exports", 4, now=TOMORROW)])
    assert next_day.usage == MeterUsage(1, "exports", TOMORROW, 4)
    assert list_stored(storage) == [MeterUsage(1, "exports", TOMORROW, 4)]


def test_other_meters_and_other_products_are_refused(metered: Executor, storage: Storage) -> None:
    outcomes = metered.execute(
        [record_usage("\0"), record_usage("seats"), record_usage("exports", product=7)]
    )
    assert [type(one) for one in outcomes] == [InvalidParameters, InvalidParameters, ProductMismatch]
    assert outcomes[1].reasons == {"meter": "must be a meter of the license"}
    assert list_stored(storage) == []


def test_a_repeated_call_is_counted_once(metered: Executor, storage: Storage) -> None:
    once = record_usage("exports", 2, idempotency=a_retry("one"))
    metered.execute([once, once])
    metered.execute([once])
    assert list_stored(storage) == [MeterUsage(1, "exports", TODAY, 2)]


def test_usage_stays_with_a_license_that_gets_another_key(metered: Executor, storage: Storage) -> None:
    metered.execute([record_usage("exports", 2)])
    metered.execute([rename(KEY, "KEY-2"), record_usage("exports", 3, "KEY-2")])
    assert list_stored(storage) == [MeterUsage(1, "exports", TODAY, 5)]


def test_a_count_from_before_the_newest_period_goes_to_its_own(metered: Executor, storage: Storage) -> None:
    """A clock was ahead, or the last second of a day is decided after the first one of the next day."""
    metered.execute([record_usage("exports", 5), record_usage("exports", 4, now=TOMORROW)])
    late = [record_usage("exports", amount) for amount in (4, 2)]
    [fits, one_too_many], [again] = metered.execute(late), metered.execute([record_usage("exports")])
    assert (fits.usage, again.usage) == (
        MeterUsage(1, "exports", TODAY, 9),
        MeterUsage(1, "exports", TODAY, 10),
    )
    assert isinstance(one_too_many, UsageExceeded)
    [ahead] = metered.execute([record_usage("exports", 6, now=TOMORROW)])
    assert ahead.usage == MeterUsage(1, "exports", TOMORROW, 10)
    # What is shown is the usage of the moment that is asked for.
    with storage.read() as tx:
        license = license_store.find_licenses(tx, [KEY])[KEY]
        shown = [list_managed(tx, [license], at)[0].usage["exports"] for at in (NOW, TOMORROW, AFTER)]
    assert shown == [10, 10, 0]


def test_periods_that_are_over_are_kept(metered: Executor, storage: Storage) -> None:
    for day, now in enumerate((NOW, TOMORROW, AFTER), start=1):
        metered.execute([record_usage("exports", day, now=now), record_usage("minutes", now=now)])
    metered.execute([delete(KEY)])
    with storage.read() as tx:
        rows = [tuple(one) for one in tx.connection.execute(select(past_usage).order_by("period_start"))]
    assert rows == [(1, "exports", int(one.timestamp()), used) for one, used in ((TODAY, 1), (TOMORROW, 2))]
    purges = [PurgeUsage(context=Context(NOW, an_origin()), before=one) for one in (TOMORROW, AFTER, AFTER)]
    assert [metered.execute([one])[0] for one in purges] == [1, 1, 0]


@pytest.mark.usefixtures("clock_of_database")
def test_servers_whose_clocks_differ_count_in_one_period(metered: Executor, database: str) -> None:
    """Two seconds apart, at a month's end: the database's clock decides, where there are several servers."""
    before, after = (datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC), datetime(2026, 2, 1, 0, 0, 1, tzinfo=UTC))
    terms = {"meters": {"exports": {"limit": 10, "per": "month"}}}
    metered.execute([set_terms(terms)])
    outcomes = [metered.execute([record_usage("exports", 3, now=at)])[0] for at in 5 * (before, after)]
    counted = [one.usage.used for one in outcomes if not isinstance(one, UsageExceeded)]
    assert counted == ([3, 6, 9] if database == "postgresql" else [3, 3, 6, 6, 9, 9])
