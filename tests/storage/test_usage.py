"""Usage of meters: what is counted, refused and stored."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy import update as update_rows

from keywright.core.command import Command, Context
from keywright.core.errors import InvalidParameters, ProductMismatch, UnknownLicenseId, UsageExceeded
from keywright.db import Storage, open_storage
from keywright.db.rows import to_seconds
from keywright.db.schema import events, meter_usage
from keywright.engine.executor import Executor
from keywright.events.store import list_events
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.licensing.undo.rules import RestoreLicense
from keywright.licensing.usage import store
from keywright.licensing.usage.model import (
    ClosePeriods,
    FindDuePeriods,
    ListPeriods,
    MeterUsage,
    PeriodFilter,
)
from keywright.licensing.views_store import list_managed
from keywright.maintenance.tasks import PurgeDeletedLicenses, PurgeUsage
from keywright.registry import open_executor
from tests.databases import KINDS
from tests.makers import (
    KEY,
    KEY_RING,
    NOW,
    a_retry,
    an_origin,
    create,
    delete,
    record_usage,
    rename,
    set_terms,
    update,
)

DATABASES = KINDS
pytestmark = pytest.mark.of_the_database
TERMS: Mapping[str, Any] = {
    "meters": {
        "exports": {"limit": 10, "per": "day"},
        "minutes": {"limit": 10, "per": "month", "overage": "allow"},
    }
}
TODAY, TOMORROW, AFTER, THIS_MONTH = (datetime(2026, 1, day, tzinfo=UTC) for day in (15, 16, 17, 1))
FEBRUARY = datetime(2026, 2, 1, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
#: The moment from which today's periods can be closed.
CLOSES_AT = TOMORROW + HOUR


@pytest.fixture
def metered(executor: Executor) -> Executor:
    """One license with two meters."""
    assert not [one for one in executor.execute([create(), set_terms(TERMS)]) if isinstance(one, Exception)]
    return executor


def today(used: int) -> MeterUsage:
    return MeterUsage(1, "exports", TODAY, used, TOMORROW)


def do(executor: Executor, *commands: Command) -> list[Any]:
    """Execute these commands one after the other; none is refused."""
    outcomes = [executor.execute([one])[0] for one in commands]
    assert not [one for one in outcomes if isinstance(one, Exception)], outcomes
    return outcomes


def close_periods(executor: Executor, now: datetime) -> None:
    """Close what is over, as the server does."""
    while due := executor.query([FindDuePeriods(now=now)])[0]:
        do(executor, ClosePeriods(context=Context(now, an_origin()), license_ids=due))


def list_periods(executor: Executor, **where: Any) -> list[MeterUsage]:
    """All periods that match, two at a time."""
    found: list[MeterUsage] = []
    after = None
    while True:
        query = ListPeriods(where=PeriodFilter(**where), after=after, limit=2, is_counted=True)
        [page] = executor.query([query])
        assert not isinstance(page, Exception), page
        found += page.items
        if len(page.items) < 2:
            assert page.total == len(found)
            return found
        last = page.items[-1]
        after = (last.license_id, last.meter, to_seconds(last.period_start))


def show(found: Iterable[MeterUsage]) -> list[tuple[str, datetime, datetime, int, int | None, bool]]:
    fields = attrgetter("meter", "period_start", "period_end", "used", "meter_limit")
    return [(*fields(one), one.closed_at is not None) for one in found]


def closings(storage: Storage) -> list[dict[str, Any]]:
    """The details of the events of periods that were closed."""
    with storage.read() as tx:
        found = list_events(tx, 1, limit=100)[::-1]
    return [dict(one.details or {}) for one in found if one.name == "usage.period_closed"]


def list_stored(storage: Storage) -> list[MeterUsage]:
    with storage.read() as tx:
        return sorted(store.list_usage(tx, [1]).get(1, []), key=lambda one: one.meter)


def test_amounts_are_added_up_by_meter(metered: Executor, storage: Storage) -> None:
    [first] = metered.execute([record_usage("exports", 3)])
    assert (first.usage, first.limit, first.resets_at) == (today(3), 10, TOMORROW)
    outcomes = metered.execute(
        [record_usage("exports"), record_usage("minutes", 11), record_usage("exports")]
    )
    assert [one.usage.used for one in outcomes] == [4, 11, 5]
    assert list_stored(storage) == [
        today(5),
        MeterUsage(1, "minutes", THIS_MONTH, 11, FEBRUARY),
    ]


def test_what_does_not_fit_is_not_counted(metered: Executor, storage: Storage) -> None:
    outcomes = metered.execute([record_usage("exports", one) for one in (9, 2, 1, 1)])
    assert [isinstance(one, UsageExceeded) for one in outcomes] == [False, True, False, True]
    assert (outcomes[1].used, outcomes[1].limit, outcomes[1].resets_at) == (9, 10, TOMORROW)
    assert list_stored(storage) == [today(10)]


def test_a_new_period_begins_at_nothing(metered: Executor, storage: Storage) -> None:
    metered.execute([record_usage("exports", 10, now=NOW)])
    [next_day] = metered.execute([record_usage("exports", 4, now=TOMORROW)])
    assert next_day.usage == MeterUsage(1, "exports", TOMORROW, 4, AFTER)
    assert list_stored(storage) == [MeterUsage(1, "exports", TOMORROW, 4, AFTER)]


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
    assert list_stored(storage) == [today(2)]


def test_usage_stays_with_a_license_that_gets_another_key(metered: Executor, storage: Storage) -> None:
    metered.execute([record_usage("exports", 2)])
    metered.execute([rename(KEY, "KEY-2"), record_usage("exports", 3, "KEY-2")])
    assert list_stored(storage) == [today(5)]


def test_a_count_from_before_the_newest_period_goes_to_its_own(metered: Executor, storage: Storage) -> None:
    """A clock was ahead, or the last second of a day is decided after the first one of the next day."""
    metered.execute([record_usage("exports", 5), record_usage("exports", 4, now=TOMORROW)])
    late = [record_usage("exports", amount) for amount in (4, 2)]
    [fits, one_too_many], [again] = metered.execute(late), metered.execute([record_usage("exports")])
    assert (fits.usage, again.usage) == (
        today(9),
        today(10),
    )
    assert isinstance(one_too_many, UsageExceeded)
    [ahead] = metered.execute([record_usage("exports", 6, now=TOMORROW)])
    assert ahead.usage == MeterUsage(1, "exports", TOMORROW, 10, AFTER)
    # What is shown is the usage of the moment that is asked for.
    with storage.read() as tx:
        license = license_store.find_licenses(tx, [KEY])[KEY]
        shown = [list_managed(tx, [license], at)[0].usage["exports"] for at in (NOW, TOMORROW, AFTER)]
    assert shown == [10, 10, 0]


def test_a_period_is_closed_once_an_hour_after_its_end(metered: Executor, storage: Storage) -> None:
    """Until then late counts go into it, and after that into the present one; the meter need not be used."""
    do(metered, update(KEY, customer_id=7), record_usage("exports", 3))
    close_periods(metered, CLOSES_AT - SECOND)
    do(metered, record_usage("exports", 5, now=TOMORROW), record_usage("exports", 4))
    assert closings(storage) == []
    do(metered, set_terms({"meters": {"exports": {"limit": 6, "per": "day"}}}))
    close_periods(metered, CLOSES_AT)
    close_periods(metered, CLOSES_AT + HOUR)
    told = {
        "meter": "exports",
        "period_start": "2026-01-15T00:00:00Z",
        "period_end": "2026-01-16T00:00:00Z",
        "used": 7,
        "limit": 6,
        "overage": 1,
        "customer_id": 7,
        "product_id": None,
    }
    assert closings(storage) == [told]
    [late] = do(metered, record_usage("exports", 1))
    assert late.usage == MeterUsage(1, "exports", TOMORROW, 6, AFTER)
    close_periods(metered, AFTER + HOUR)
    [later] = do(metered, record_usage("exports", 2))
    assert later.usage == MeterUsage(1, "exports", AFTER, 2, AFTER + timedelta(days=1))
    assert show(list_periods(metered, license_id=1)) == [
        ("exports", TODAY, TOMORROW, 7, 6, True),
        ("exports", TOMORROW, AFTER, 6, 6, True),
        ("exports", AFTER, AFTER + timedelta(days=1), 2, 6, False),
    ]


def test_a_period_that_is_over_is_closed_though_its_meter_is_used_no_more(
    metered: Executor, storage: Storage
) -> None:
    do(metered, record_usage("exports", 3))
    close_periods(metered, NOW + timedelta(days=40))
    assert [one["used"] for one in closings(storage)] == [3]
    assert list_stored(storage) == []
    # A license that was used is not unmade, also when nothing is counted in now.
    with storage.read() as tx:
        assert store.has_any(tx, 1)


def test_a_meter_that_is_gone_or_starts_again_at_other_times_is_closed_then(
    metered: Executor, storage: Storage
) -> None:
    """With the limit that it had; what is counted after that is in another period."""
    do(metered, record_usage("exports", 3), record_usage("minutes", 11))
    noon, later = NOW + HOUR, NOW + 2 * HOUR
    monthly = {"meters": {"exports": {"limit": 20, "per": "month"}}}
    do(metered, set_terms(monthly, now=noon))
    assert [(one["meter"], one["used"], one["limit"], one["overage"]) for one in closings(storage)] == [
        ("exports", 3, 10, 0),
        ("minutes", 11, 10, 1),
    ]
    # Those of the same second have periods of their own, too.
    daily = {"meters": {"exports": {"limit": 20, "per": "day"}}}
    for terms in (daily, monthly, daily, TERMS):
        do(metered, record_usage("exports", 2, now=later), set_terms(terms, now=later))
    do(metered, record_usage("exports", 1, now=later), record_usage("minutes", 1, now=later))
    close_periods(metered, FEBRUARY + HOUR)
    found = list_periods(metered, meter="exports")
    assert [one.used for one in found] == [3, 2, 2, 2, 3]
    assert found[0].period_end == found[1].period_start == noon
    assert all(one.period_end <= next.period_start for one, next in pairwise(found))
    assert [one.used for one in list_periods(metered, meter="minutes")] == [11, 1]
    assert len(closings(storage)) == 7


def test_the_usage_of_a_deleted_license_is_closed_when_its_period_ends(
    metered: Executor, storage: Storage
) -> None:
    package = {"meters": {"exports": {"limit": 2, "per": "day"}, "pages": {"limit": 5, "per": "license"}}}
    do(metered, update(KEY, product_id=17), set_terms(package))
    do(metered, record_usage("exports", 2), record_usage("pages", 3), delete(KEY))
    still_open = ("pages", NOW, END_OF_TIME, 3, 5, False)
    close_periods(metered, CLOSES_AT)
    closed = ("exports", TODAY, TOMORROW, 2, 2, True)
    assert show(list_periods(metered, license_id=1)) == [closed, still_open]
    # A package ends when the license can come back no more.
    purge = PurgeDeletedLicenses(context=Context(AFTER, an_origin()), before=TOMORROW)
    do(metered, purge)
    close_periods(metered, AFTER)
    assert show(list_periods(metered, license_id=1, is_closed=True)) == [
        closed,
        ("pages", NOW, TOMORROW, 3, 5, True),
    ]
    assert [(one["meter"], one["limit"], one["product_id"]) for one in closings(storage)] == [
        ("exports", 2, 17),
        ("pages", 5, 17),
    ]
    with pytest.raises(UnknownLicenseId):
        raise metered.query([ListPeriods(where=PeriodFilter(license_id=2), limit=1)])[0]


def test_a_license_that_comes_back_goes_on_with_its_usage(metered: Executor, storage: Storage) -> None:
    """Nothing is lost or doubled, whether its period was closed meanwhile or not."""
    do(metered, record_usage("exports", 2), record_usage("minutes", 3))
    metered.execute([record_usage("exports", 1), delete(KEY)])
    restore = RestoreLicense(context=Context(NOW, an_origin()), license=1)
    do(metered, restore)
    assert list_stored(storage) == [today(3), MeterUsage(1, "minutes", THIS_MONTH, 3, FEBRUARY)]
    assert [one.closed_at for one in list_periods(metered)] == [None, None]
    do(metered, delete(KEY))
    close_periods(metered, CLOSES_AT)
    do(metered, restore, record_usage("exports", 4), record_usage("minutes", 4))
    assert [(one.used, one.closed_at is None) for one in list_periods(metered)] == [
        (3, False),
        (4, True),
        (7, True),
    ]


def test_what_an_older_version_has_counted_is_closed(metered: Executor, storage: Storage) -> None:
    do(metered, record_usage("exports", 3))
    with storage.write() as tx:
        tx.connection.execute(update_rows(meter_usage).values(period_start=to_seconds(TOMORROW)))
    close_periods(metered, AFTER)
    assert show(list_periods(metered)) == [("exports", TOMORROW, AFTER, 3, 10, False)]
    close_periods(metered, AFTER + HOUR)
    assert show(list_periods(metered)) == [("exports", TOMORROW, AFTER, 3, 10, True)]


def test_periods_are_listed_by_what_they_are_about(metered: Executor) -> None:
    package = {"meters": {"exports": {"limit": 5, "per": "license"}}}
    do(metered, create("KEY-2", product_id=17), set_terms(package, "KEY-2"), record_usage("minutes", 1))
    for now in (NOW, TOMORROW, AFTER):
        do(metered, record_usage("exports", now=now), record_usage("exports", 1, "KEY-2", now=now))
    close_periods(metered, TOMORROW + HOUR)
    rows: list[tuple[dict[str, Any], list[tuple[int, str, int]]]] = [
        ({}, [(1, "exports", 1)] * 3 + [(1, "minutes", 1), (2, "exports", 3)]),
        ({"license_id": 2}, [(2, "exports", 3)]),
        ({"product_id": 17}, [(2, "exports", 3)]),
        ({"only_product_id": 17, "product_id": 18}, []),
        ({"meter": "minutes"}, [(1, "minutes", 1)]),
        ({"is_closed": True}, [(1, "exports", 1)]),
        ({"is_closed": False, "license_id": 1}, [(1, "exports", 1)] * 2 + [(1, "minutes", 1)]),
        ({"since": TODAY, "until": AFTER}, [(1, "exports", 1)] * 2 + [(2, "exports", 3)]),
        ({"until": TODAY}, [(1, "minutes", 1)]),
    ]
    found = [(where, list_periods(metered, **where)) for where, _ in rows]
    shown = [(where, [(one.license_id, one.meter, one.used) for one in some]) for where, some in found]
    assert shown == rows


def test_closed_periods_are_kept_for_a_time(metered: Executor) -> None:
    do(metered, record_usage("exports", 1), delete(KEY))
    close_periods(metered, CLOSES_AT)
    befores = (CLOSES_AT, CLOSES_AT + SECOND, CLOSES_AT + SECOND)
    purges = [PurgeUsage(context=Context(NOW, an_origin()), before=one) for one in befores]
    assert do(metered, *purges) == [0, 1, 0]


@pytest.mark.usefixtures("clock_of_database")
def test_periods_are_closed_by_the_clock_of_the_database(metered: Executor, database: str) -> None:
    """A server whose clock is ahead closes none, where there are several servers."""
    now = datetime.now(UTC).replace(microsecond=0)
    do(metered, record_usage("exports", 1, now=now))
    close_periods(metered, now + timedelta(days=2))
    assert [one.closed_at is None for one in list_periods(metered)] == [database == "postgresql"]


@pytest.mark.databases("postgresql")
def test_several_servers_close_a_period_once(metered: Executor, storage: Storage, url: str) -> None:
    commands: list[Command] = [create(f"LICENSE-{one}") for one in range(20)]
    commands += [set_terms(TERMS, f"LICENSE-{one}") for one in range(20)]
    do(metered, *commands, *(record_usage("minutes", 1 + one, f"LICENSE-{one}") for one in range(20)))
    with closing(open_executor(open_storage(url, KEY_RING))) as second, ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(close_periods, now=FEBRUARY + HOUR), (metered, second)))
    with storage.read() as tx:
        names = [one for one in tx.connection.execute(select(events.c.license_id, events.c.name))]
    closed = [id for id, name in names if name == "usage.period_closed"]
    assert sorted(closed) == sorted(one.license_id for one in list_periods(metered, is_closed=True))
    assert sum(one.used for one in list_periods(metered)) == 210


@pytest.mark.usefixtures("clock_of_database")
def test_servers_whose_clocks_differ_count_in_one_period(metered: Executor, database: str) -> None:
    """Two seconds apart, at a month's end: the database's clock decides, where there are several servers."""
    before, after = (datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC), datetime(2026, 2, 1, 0, 0, 1, tzinfo=UTC))
    terms = {"meters": {"exports": {"limit": 10, "per": "month"}}}
    metered.execute([set_terms(terms)])
    outcomes = [metered.execute([record_usage("exports", 3, now=at)])[0] for at in 5 * (before, after)]
    counted = [one.usage.used for one in outcomes if not isinstance(one, UsageExceeded)]
    assert counted == ([3, 6, 9] if database == "postgresql" else [3, 3, 6, 6, 9, 9])
