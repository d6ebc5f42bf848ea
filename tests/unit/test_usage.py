"""Usage of meters: periods, limits and overage."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from keywright.core.errors import InvalidParameters, LicenseExpired, UsageExceeded
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import END_OF_TIME, terms_of
from keywright.licensing.terms.model import AfterExpiry, Meter, Overage, Period
from keywright.licensing.terms.rules import to_text
from keywright.licensing.usage import rules
from keywright.licensing.usage.model import MeterUsage
from tests.makers import NOW, a_license_with

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


def used(amount: int, start: datetime = STARTS[Period.MONTH]) -> MeterUsage:
    """So much of exports was used this month."""
    return MeterUsage(1, "exports", start, amount)


def add(
    license: License, usage: MeterUsage | None, amount: int, now: datetime = NOW, name: str = "exports"
) -> MeterUsage:
    """Count an amount for a build of 1970."""
    terms = terms_of(license)
    return rules.add_usage(license, terms, name, usage, amount=amount, now=now, built_at=BEGINNING)


@pytest.mark.parametrize("per", Period)
def test_a_period_is_one_of_the_calendar(per: Period) -> None:
    assert rules.period_start(per, NOW) == STARTS[per]
    assert rules.resets_at(per, NOW) == ENDS[per]
    assert rules.list_starts(NOW) == list(STARTS.values())


def test_a_year_begins_in_january() -> None:
    summer = datetime(2026, 6, 15, 12, tzinfo=UTC)
    assert rules.period_start(Period.YEAR, summer) == datetime(2026, 1, 1, tzinfo=UTC)
    assert rules.resets_at(Period.YEAR, summer) == datetime(2027, 1, 1, tzinfo=UTC)


@given(st.sampled_from([Period.DAY, Period.MONTH, Period.YEAR]), MOMENTS)
def test_periods_follow_each_other_without_a_gap(per: Period, now: datetime) -> None:
    start, end = rules.period_start(per, now), rules.resets_at(per, now)
    assert end is not None
    assert start <= now < end
    assert rules.period_start(per, end) == end
    assert rules.period_start(per, start) == start


@pytest.mark.parametrize("per", [Period.DAY, Period.MONTH, Period.YEAR])
def test_the_last_year_of_all_does_not_end(per: Period) -> None:
    assert rules.resets_at(per, END_OF_TIME) is None
    assert rules.resets_at(per, END_OF_TIME - timedelta(days=366)) is not None


def test_a_period_begins_at_midnight_to_the_microsecond() -> None:
    assert rules.period_start(Period.DAY, NOW.replace(microsecond=7)) == STARTS[Period.DAY]


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
        add(license, used(1, BEGINNING), 1)
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
    rows = [used(5), MeterUsage(1, "calls", BEGINNING, 7), MeterUsage(1, "gone", BEGINNING, 9)]
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
