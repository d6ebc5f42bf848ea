"""Usage of meters: what is counted, refused and stored."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from keywright.core.errors import InvalidParameters, ProductMismatch, UsageExceeded
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.licensing.usage import store
from keywright.licensing.usage.model import MeterUsage
from tests.databases import KINDS
from tests.makers import KEY, NOW, a_retry, create, record_usage, rename, set_terms

DATABASES = KINDS
TERMS: Mapping[str, Any] = {
    "meters": {
        "exports": {"limit": 10, "per": "day"},
        "minutes": {"limit": 10, "per": "month", "overage": "allow"},
    }
}
TODAY, TOMORROW, THIS_MONTH = (datetime(2026, 1, day, tzinfo=UTC) for day in (15, 16, 1))


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
