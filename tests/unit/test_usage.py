"""Usage of meters: periods, limits and overage."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from keywright.core.command import Context
from keywright.core.errors import InvalidParameters, LicenseExpired, UsageExceeded
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import END_OF_TIME, terms_of
from keywright.licensing.terms.model import AfterExpiry, Meter, Overage, Period, Terms
from keywright.licensing.terms.rules import to_text
from keywright.licensing.usage import rules
from keywright.licensing.usage.model import ClosePeriods, MeterUsage
from tests.makers import NOW, a_license_with, an_origin
from tests.tables import each_row

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC))
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
OLDER = AfterExpiry.OLDER_VERSIONS
#: NOW is 2026-01-15.
STARTS = {
    Period.DAY: datetime(2026, 1, 15, tzinfo=UTC),
    Period.MONTH: datetime(2026, 1, 1, tzinfo=UTC),
    Period.YEAR: datetime(2026, 1, 1, tzinfo=UTC),
    Period.LICENSE: BEGINNING,
}
ENDS = {
    Period.DAY: datetime(2026, 1, 16, tzinfo=UTC),
    Period.MONTH: datetime(2026, 2, 1, tzinfo=UTC),
    Period.YEAR: datetime(2027, 1, 1, tzinfo=UTC),
    Period.LICENSE: None,
}


def metered(limit: int = 10, per: Period = Period.MONTH, overage: str = "refuse", **fields: Any) -> License:
    """A license with one meter, exports."""
    meter = {"limit": limit, "per": per.value, "overage": overage}
    return a_license_with({"meters": {"exports": meter}}, **fields)


def used(amount: int, start: datetime = STARTS[Period.MONTH], end: datetime | None = None) -> MeterUsage:
    """So much of exports was used this month."""
    return MeterUsage(1, "exports", start, amount, end or rules.period_of(Period.MONTH, start, start)[1])


def add(
    license: License, usage: MeterUsage | None, amount: int, now: datetime = NOW, name: str = "exports"
) -> MeterUsage:
    """Count an amount for a build of 1970."""
    meter = rules.require_countable(license, terms_of(license), name, now=now, built_at=BEGINNING)
    is_current = usage is not None and rules.is_in(usage, now)
    current = usage if usage is not None and is_current else rules.begin(license, name, meter.per, now)
    return rules.add_usage(current, meter, amount)


@pytest.mark.parametrize("per", STARTS)
def test_a_period_is_one_of_the_calendar(per: Period) -> None:
    assert rules.period_of(per, NOW, NOW) == (STARTS[per], ENDS[per] or END_OF_TIME)


def test_a_year_begins_in_january() -> None:
    summer = datetime(2026, 6, 15, 12, tzinfo=UTC)
    years = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    assert rules.period_of(Period.YEAR, summer, summer) == years


def test_months_and_years_of_a_license_are_counted_from_its_creation() -> None:
    """A day that a month does not have is its last one, and the one after has it again."""
    at = datetime.fromisoformat
    month, year = Period.LICENSE_MONTH, Period.LICENSE_YEAR
    rows = [
        (month, "2026-01-15T08:30:00", "2026-03-15T08:29:59", "2026-02-15T08:30:00", "2026-03-15T08:30:00"),
        (month, "2026-01-15T08:30:00", "2026-03-15T08:30:00", "2026-03-15T08:30:00", "2026-04-15T08:30:00"),
        (month, "2026-01-31T00:00:00", "2026-02-28T00:00:00", "2026-02-28T00:00:00", "2026-03-31T00:00:00"),
        (month, "2026-01-31T00:00:00", "2026-02-27T23:59:59", "2026-01-31T00:00:00", "2026-02-28T00:00:00"),
        (month, "2026-12-31T00:00:00", "2027-01-05T00:00:00", "2026-12-31T00:00:00", "2027-01-31T00:00:00"),
        (year, "2024-02-29T12:00:00", "2025-02-28T12:00:00", "2025-02-28T12:00:00", "2026-02-28T12:00:00"),
        (year, "2024-02-29T12:00:00", "2028-02-29T11:59:59", "2027-02-28T12:00:00", "2028-02-29T12:00:00"),
        (year, "2024-05-01T00:00:00", "2024-04-30T23:59:59", "2023-05-01T00:00:00", "2024-05-01T00:00:00"),
    ]
    found = [(*row[:3], *map(str, rules.period_of(row[0], at(row[1]), at(row[2])))) for row in rows]
    assert found == [(*row[:3], *(str(at(one)) for one in row[3:])) for row in rows]


@given(st.sampled_from([one for one in Period if one is not Period.LICENSE]), MOMENTS, MOMENTS)
def test_periods_follow_each_other_without_a_gap(per: Period, made: datetime, now: datetime) -> None:
    created_at = made.replace(microsecond=0, year=max(made.year, 1971))
    start, end = rules.period_of(per, created_at, now)
    assert start <= now < end
    assert rules.period_of(per, created_at, end)[0] == end
    assert rules.period_of(per, created_at, start) == (start, end)


@each_row("per", Period)
def test_the_last_year_of_all_does_not_end(per: Period) -> None:
    assert rules.period_of(per, NOW, END_OF_TIME - timedelta(seconds=1))[1] == END_OF_TIME


def test_a_period_begins_at_midnight_to_the_microsecond() -> None:
    assert rules.period_of(Period.DAY, NOW, NOW.replace(microsecond=7))[0] == STARTS[Period.DAY]


def test_use_is_counted_up_to_the_limit_and_not_beyond() -> None:
    license = metered(10)
    first = add(license, None, 4)
    assert first == used(4)
    assert add(license, first, 6) == used(10)
    with pytest.raises(UsageExceeded) as refusal:
        add(license, first, 7)
    assert (refusal.value.meter, refusal.value.limit, refusal.value.used) == ("exports", 10, 4)
    assert refusal.value.resets_at == ENDS[Period.MONTH]
    assert refusal.value.problem_members() == {
        "meter": "exports",
        "limit": 10,
        "used": 4,
        "resets_at": "2026-02-01T00:00:00Z",
    }


def test_a_meter_that_never_starts_again_says_so() -> None:
    license = metered(1, Period.LICENSE)
    with pytest.raises(UsageExceeded) as refusal:
        add(license, used(1, BEGINNING, END_OF_TIME), 1)
    assert refusal.value.problem_members()["resets_at"] is None


def test_overage_is_counted_where_it_is_allowed() -> None:
    assert add(metered(10, overage="allow"), used(9), 1_000_000) == used(1_000_009)


def test_a_new_period_begins_with_nothing_used() -> None:
    license, february = metered(10), datetime(2026, 2, 1, tzinfo=UTC)
    assert add(license, used(10), 3, now=february) == used(3, february)


def test_an_unknown_meter_is_a_wrong_member_of_the_body() -> None:
    with pytest.raises(InvalidParameters) as refusal:
        add(metered(), None, 1, name="imports")
    assert refusal.value.reasons == {"meter": "must be a meter of the license"}


def test_an_expired_license_counts_nothing() -> None:
    with pytest.raises(LicenseExpired):
        add(metered(expires_at=NOW), None, 1)


def test_an_expired_license_counts_for_the_builds_that_it_covers() -> None:
    license = metered(expires_at=NOW)
    covering = replace(license, terms=to_text(replace(terms_of(license), after_expiry=OLDER)))
    assert add(covering, None, 1) == used(1)


def test_usage_is_told_of_each_meter_of_the_terms() -> None:
    license = a_license_with(
        {"meters": {"exports": {"limit": 1, "per": "month"}, "calls": {"limit": 1, "per": "day"}}}
    )
    others = [MeterUsage(1, name, BEGINNING, 7, STARTS[Period.DAY]) for name in ("calls", "gone")]
    rows = [used(5), *others]
    assert rules.usage_by_meter(terms_of(license), rows, NOW) == {"exports": 5, "calls": 0}


@pytest.mark.parametrize(
    ("meter", "amount", "is_exceeded"),
    [
        (Meter(10, Period.DAY), 9, False),
        (Meter(10, Period.DAY), 10, True),
        (Meter(10, Period.DAY), 11, True),
        (Meter(0, Period.DAY), 0, True),
        (Meter(10, Period.DAY, Overage.ALLOW), 11, False),
    ],
)
def test_a_meter_is_exceeded_at_its_limit_where_overage_is_refused(
    meter: Meter, amount: int, is_exceeded: bool
) -> None:
    assert rules.is_exceeded(meter, amount) is is_exceeded


@given(st.lists(st.integers(1, 12), max_size=30), st.integers(0, 40))
def test_whatever_is_added_the_limit_holds_and_refusals_count_nothing(amounts: list[int], limit: int) -> None:
    license, usage, counted = metered(limit), None, 0
    for amount in amounts:
        if counted + amount > limit:
            with pytest.raises(UsageExceeded):
                add(license, usage, amount)
            continue
        usage = add(license, usage, amount)
        counted += amount
        assert usage.used == counted <= limit


def test_what_an_older_version_has_begun_ends_with_its_period() -> None:
    """It writes a beginning, and no end, or leaves that of the period before."""
    meter, january = Meter(10, Period.MONTH), STARTS[Period.MONTH]
    ends = [rules.complete(used(1, january, end), meter).period_end for end in (BEGINNING, january)]
    assert ends == [ENDS[Period.MONTH], ENDS[Period.MONTH]]
    assert rules.usage_by_meter(terms_of(metered()), [used(5, january, BEGINNING)], NOW) == {"exports": 5}
    cut_short = used(1, january, january + timedelta(days=1))
    assert rules.complete(cut_short, meter) is cut_short
    package = replace(used(1), period_start=BEGINNING, period_end=BEGINNING)
    assert rules.complete(package, Meter(10, Period.LICENSE)).period_end == END_OF_TIME


def test_meters_end_that_are_gone_or_start_again_at_other_times() -> None:
    before = {name: Meter(1, Period.MONTH) for name in ("kept", "more", "gone", "daily")}
    after = {
        "kept": before["kept"],
        "more": Meter(2, Period.MONTH, Overage.ALLOW),
        "daily": Meter(1, Period.DAY),
        "new": Meter(1, Period.DAY),
    }
    assert rules.ended_meters(Terms(meters=before), Terms(meters=after)) == ["gone", "daily"]


def test_overage_is_what_is_above_the_limit_that_is_known() -> None:
    rows = [(None, 0), (5, 0), (4, 1), (0, 5)]
    assert [(limit, replace(used(5), meter_limit=limit).overage) for limit, _ in rows] == rows


def test_a_period_begins_where_the_last_one_has_ended() -> None:
    after = rules.begin(metered(), "exports", Period.MONTH, NOW, NOW)
    assert after == used(0, NOW, ENDS[Period.MONTH])
    assert rules.begin(metered(), "exports", Period.MONTH, NOW, BEGINNING) == used(0)
    made_at = NOW - timedelta(hours=1)
    license = metered(created_at=made_at)
    assert rules.begin(license, "exports", Period.LICENSE_MONTH, NOW).period_start == made_at


def test_what_is_closed_keeps_what_its_license_had() -> None:
    license, meter = metered(3, product_id=17, customer_id=7), Meter(3, Period.MONTH)
    detached = rules.detach(used(5), license, meter)
    told = (detached.meter_limit, detached.overage, detached.product_id, detached.customer_id)
    assert told == (3, 2, 17, 7)
    assert rules.detach(detached, None, None) == detached
    # A meter that is gone has the limit that it had, or none that is known.
    assert [rules.detach(one, license, None).meter_limit for one in (detached, used(5))] == [3, None]
    package = rules.begin(license, "exports", Period.LICENSE, NOW)
    assert rules.detach(package, license, meter).period_start == license.created_at


def test_a_closed_period_has_at_least_a_second() -> None:
    closed = rules.close(used(5), NOW, NOW)
    assert (closed.period_end, closed.closed_at, rules.resets_at(closed)) == (NOW, NOW, NOW)
    assert rules.close(used(5, NOW), NOW, NOW).period_end == NOW + timedelta(seconds=1)


def test_periods_are_in_the_order_of_license_meter_and_beginning() -> None:
    periods = [
        MeterUsage(license_id, meter, start, 0, end)
        for license_id in (1, 2)
        for meter in ("calls", "exports")
        for start, end in ((STARTS[Period.YEAR], ENDS[Period.YEAR]), (ENDS[Period.YEAR], END_OF_TIME))
        if start and end
    ]
    assert sorted(reversed(periods), key=lambda one: one.place) == periods
    assert len({one.place for one in periods}) == 8


def test_the_event_of_a_period_has_what_was_used_above_its_limit() -> None:
    period = MeterUsage(1, "calls", STARTS[Period.DAY], 12, NOW, meter_limit=10, product_id=7, customer_id=8)
    assert period.to_details() == {
        "meter": "calls",
        "period_start": STARTS[Period.DAY],
        "period_end": NOW,
        "used": 12,
        "limit": 10,
        "overage": 2,
        "customer_id": 8,
        "product_id": 7,
    }


def test_periods_are_closed_with_their_licenses_locked() -> None:
    assert ClosePeriods(context=Context(NOW, an_origin()), license_ids=(3, 7)).locks == (3, 7)
