"""What one command does to one license; the sequences are in test_rules_over_time.py."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keywright.core.errors import (
    AlreadyActivated,
    LicenseDisabled,
    LicenseExpired,
    LicenseInactive,
    LimitReached,
    NothingActive,
    Refusal,
    TokenNotActive,
)
from keywright.licensing.activations import rules as activation_rules
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import Status
from tests.makers import KEY, LATER, NOW, TOKEN, a_deactivated_activation, a_license, an_activation
from tests.tables import each_row

SECOND = timedelta(seconds=1)


def refusal_in_order(
    *, expired: bool, status: Status, active: bool = False, full: bool = False
) -> type[Refusal] | None:
    """The contract's order of refusal (§3): expired, inactive or disabled, already active, the limit."""
    reasons = (
        (expired, LicenseExpired),
        (status is Status.INACTIVE, LicenseInactive),
        (status is Status.DISABLED, LicenseDisabled),
        (active, AlreadyActivated),
        (full, LimitReached),
    )
    return next((refusal for applies, refusal in reasons if applies), None)


def test_activate_takes_one_place() -> None:
    license = activation_rules.activate(a_license(times_activated=2, times_activated_max=3), LATER)
    assert license == a_license(times_activated=3, times_activated_max=3, updated_at=LATER)


def test_activate_needs_a_free_place() -> None:
    with pytest.raises(LimitReached) as refusal:
        activation_rules.activate(a_license(times_activated=3, times_activated_max=3), NOW)
    assert refusal.value.key == KEY
    assert refusal.value.problem_members() == {"limit": 3, "activations": 3}


def test_a_license_without_a_limit_has_always_a_free_place() -> None:
    assert activation_rules.activate(a_license(times_activated=10**9), NOW).times_activated == 10**9 + 1


def test_a_limit_that_was_lowered_below_what_is_taken_has_no_free_place() -> None:
    with pytest.raises(LimitReached):
        activation_rules.activate(a_license(times_activated=5, times_activated_max=3), NOW)


@each_row(("expired", "status", "full"), list(product((False, True), Status, (False, True))))
def test_activate_refuses_in_the_order_of_the_contract(expired: bool, status: Status, full: bool) -> None:
    license = a_license(
        expires_at=NOW if expired else LATER,
        status=status,
        times_activated=int(full),
        times_activated_max=1,
    )
    expected = refusal_in_order(expired=expired, status=status, full=full)
    if expected is None:
        assert activation_rules.activate(license, NOW).times_activated == 1
    else:
        with pytest.raises(expected):
            activation_rules.activate(license, NOW)


@pytest.mark.parametrize(
    ("status", "refused"), [(Status.INACTIVE, LicenseInactive), (Status.DISABLED, LicenseDisabled)]
)
def test_a_refusal_of_a_license_names_its_key(
    status: Status, refused: type[LicenseInactive | LicenseDisabled]
) -> None:
    with pytest.raises(refused) as refusal:
        license_rules.require_usable(a_license(status=status), NOW)
    assert refusal.value.key == KEY


@each_row(
    ("expired", "status", "active", "full"),
    list(product((False, True), Status, (False, True), (False, True))),
)
def test_reactivate_refuses_in_the_order_of_the_contract(
    expired: bool, status: Status, active: bool, full: bool
) -> None:
    license = a_license(
        expires_at=NOW if expired else LATER,
        status=status,
        times_activated=int(full),
        times_activated_max=1,
    )
    record = an_activation() if active else a_deactivated_activation()
    expected = refusal_in_order(expired=expired, status=status, active=active, full=full)
    if expected is None:
        assert activation_rules.reactivate(license, record, NOW)[0].times_activated == 1
    else:
        with pytest.raises(expected):
            activation_rules.reactivate(license, record, NOW)


def test_reactivate_takes_the_place_back_under_the_same_token() -> None:
    license, record = activation_rules.reactivate(
        a_license(times_activated=1, times_activated_max=2), a_deactivated_activation(), LATER
    )
    assert license == a_license(times_activated=2, times_activated_max=2, updated_at=LATER)
    assert record == an_activation(updated_at=LATER, deactivated_at=None)


def test_reactivate_needs_a_free_place() -> None:
    full = a_license(times_activated=1, times_activated_max=1)
    with pytest.raises(LimitReached):
        activation_rules.reactivate(full, a_deactivated_activation(), NOW)


def test_an_active_record_cannot_be_reactivated() -> None:
    with pytest.raises(AlreadyActivated) as refusal:
        activation_rules.reactivate(a_license(times_activated=1), an_activation(), NOW)
    assert refusal.value.token == TOKEN


def test_deactivate_gives_up_one_place() -> None:
    license, record = activation_rules.deactivate(a_license(times_activated=2), an_activation(), LATER)
    assert license == a_license(times_activated=1, deactivated_count=1, updated_at=LATER)
    assert record == an_activation(updated_at=LATER, deactivated_at=LATER)


def test_a_deactivated_record_cannot_be_deactivated_again() -> None:
    with pytest.raises(TokenNotActive) as refusal:
        activation_rules.deactivate(a_license(), a_deactivated_activation(), NOW)
    assert refusal.value.token == TOKEN


@pytest.mark.parametrize("status", Status)
def test_deactivation_works_in_any_status_and_after_the_expiry(status: Status) -> None:
    license = a_license(status=status, expires_at=NOW, times_activated=1)
    assert activation_rules.deactivate(license, an_activation(), LATER)[0].times_activated == 0
    assert activation_rules.deactivate_all(license, [an_activation()], LATER)[0].times_activated == 0


def test_deactivate_all_gives_up_every_place_and_reports_only_the_records_it_ended() -> None:
    records = [an_activation(id=1), a_deactivated_activation(id=2), an_activation(id=3)]
    license, ended = activation_rules.deactivate_all(a_license(times_activated=2), records, LATER)
    assert license == a_license(times_activated=0, deactivated_count=2, updated_at=LATER)
    assert [one.id for one in ended] == [1, 3]
    assert all(one.deactivated_at == one.updated_at == LATER for one in ended)


@pytest.mark.parametrize("records", [[], [a_deactivated_activation()]])
def test_deactivate_all_needs_an_active_record(records: list[Activation]) -> None:
    with pytest.raises(NothingActive) as refusal:
        activation_rules.deactivate_all(a_license(), records, NOW)
    assert refusal.value.key == KEY


def test_a_license_expires_exactly_at_expires_at() -> None:
    license = a_license(expires_at=NOW)
    assert not license_rules.is_expired(license, NOW - SECOND)
    assert license_rules.is_expired(license, NOW)
    assert license_rules.is_expired(license, NOW + SECOND)
    license_rules.require_usable(license, NOW - SECOND)
    with pytest.raises(LicenseExpired) as refusal:
        license_rules.require_usable(license, NOW)
    assert refusal.value.expires_at == NOW


def test_a_license_without_expires_at_never_expires() -> None:
    assert not license_rules.is_expired(a_license(), license_rules.END_OF_TIME)


@pytest.mark.parametrize("status", [Status.SOLD, Status.DELIVERED, Status.ACTIVE])
def test_sold_delivered_and_active_licenses_can_be_used(status: Status) -> None:
    license_rules.require_usable(a_license(status=status), NOW)


def test_the_first_activation_turns_valid_for_into_expires_at() -> None:
    license = activation_rules.activate(a_license(valid_for_days=30), NOW)
    assert license.expires_at == NOW + timedelta(days=30)
    assert license.valid_for_days == 30


def test_later_activations_leave_expires_at_alone() -> None:
    once = activation_rules.activate(a_license(valid_for_days=30), NOW)
    assert activation_rules.activate(once, LATER).expires_at == NOW + timedelta(days=30)
    again, _ = activation_rules.reactivate(once, a_deactivated_activation(), LATER)
    assert again.expires_at == NOW + timedelta(days=30)


def test_an_expires_at_that_was_given_wins_over_valid_for() -> None:
    license = activation_rules.activate(a_license(valid_for_days=30, expires_at=LATER), NOW)
    assert license.expires_at == LATER


def test_the_end_of_time_is_its_last_second() -> None:
    with pytest.raises(OverflowError):
        license_rules.END_OF_TIME + SECOND


def test_valid_for_reaches_the_end_of_time_and_not_beyond() -> None:
    left = (license_rules.END_OF_TIME - NOW).days
    assert license_rules.expiry_after(NOW, left) == NOW + timedelta(days=left)
    assert license_rules.expiry_after(NOW, left + 1) == license_rules.END_OF_TIME
    assert (
        activation_rules.activate(a_license(valid_for_days=2**31 - 1), NOW).expires_at
        == license_rules.END_OF_TIME
    )


def test_an_extension_by_months_ends_with_a_day_of_its_time_zone() -> None:
    berlin, end = ZoneInfo("Europe/Berlin"), license_rules.END_OF_TIME
    january = datetime(2026, 1, 31, 23, tzinfo=UTC)
    rows = (
        # In Berlin it is the first moment of February, and then of March.
        (january, {"months": 1, "zone": berlin}, datetime(2026, 2, 28, 23, tzinfo=UTC)),
        (january, {"months": 1}, datetime(2026, 2, 28, 23, tzinfo=UTC)),
        (january, {"months": 5, "zone": berlin}, datetime(2026, 6, 30, 22, tzinfo=UTC)),
        (january, {"months": 12, "days": 1}, datetime(2027, 2, 1, 23, tzinfo=UTC)),
        (january, {"months": 12 * 9999}, end),
        (january, {"days": 1, "is_from_now": True}, NOW + timedelta(days=1)),
        (NOW - timedelta(days=9), {"days": 1, "is_from_later": True}, NOW + timedelta(days=1)),
        (NOW + timedelta(days=9), {"days": 1, "is_from_later": True}, NOW + timedelta(days=10)),
        (None, {"days": 1}, NOW + timedelta(days=1)),
        (end.replace(month=1), {"days": 1}, end.replace(month=1) + timedelta(days=1)),
    )
    wrong = [
        (before, by, after)
        for before, by, after in rows
        if license_rules.extended(a_license(expires_at=before), NOW, **by) != after
    ]
    assert not wrong


def test_months_lead_back_to_the_first_of_the_calendar() -> None:
    moments = [license_rules.add_months(datetime(1, 3, 5), -months) for months in (2, 3)]
    assert moments == [datetime(1, 1, 5), datetime(1, 12, 5)]


def test_the_details_of_events_have_the_count_and_the_limit_where_there_is_one() -> None:
    assert license_rules.count_places(a_license(times_activated=2)) == {"activation_count": 2}
    limited = a_license(times_activated=2, times_activated_max=3)
    assert license_rules.count_places(limited) == {"activation_count": 2, "max_activations": 3}


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),
    st.integers(0, 2**31 - 1),
)
def test_no_number_of_days_leads_beyond_the_end_of_time(now: datetime, days: int) -> None:
    now = now.replace(microsecond=0)
    expiry = license_rules.expiry_after(now, days)
    assert now <= expiry <= license_rules.END_OF_TIME
    assert expiry == license_rules.END_OF_TIME or expiry - now == timedelta(days=days)


def test_validation_reports_every_record_deactivated_ones_included() -> None:
    records = (an_activation(id=1), a_deactivated_activation(id=2))
    assert activation_rules.validate(records, None) == records
    assert activation_rules.validate((), None) == ()


def test_validation_with_a_token_reports_that_active_record_alone() -> None:
    records = [an_activation(id=1, token="a" * 40), an_activation(id=2, token="b" * 40)]
    assert activation_rules.validate(records, "b" * 40) == (records[1],)


@pytest.mark.parametrize("records", [[], [a_deactivated_activation()], [an_activation(token="b" * 40)]])
def test_validation_with_a_token_needs_an_active_record_with_it(records: list[Activation]) -> None:
    with pytest.raises(TokenNotActive) as refusal:
        activation_rules.validate(records, TOKEN)
    assert refusal.value.token == TOKEN


@pytest.mark.parametrize(
    ("limit", "taken", "is_over"), [(None, 7, False), (3, 2, False), (3, 3, False), (3, 4, True)]
)
def test_a_license_is_over_its_limit_with_more_places_taken_than_it_allows(
    limit: int | None, taken: int, is_over: bool
) -> None:
    license = a_license(times_activated=taken, times_activated_max=limit)
    assert license_rules.is_over_limit(license) is is_over


@pytest.mark.parametrize(("limit", "taken", "left"), [(None, 7, None), (3, 1, 2), (3, 3, 0), (3, 5, -2)])
def test_remaining_activations_are_the_limit_less_what_is_taken(
    limit: int | None, taken: int, left: int | None
) -> None:
    license = a_license(times_activated=taken, times_activated_max=limit)
    assert license_rules.remaining_activations(license) == left


def test_records_are_in_the_order_in_which_they_were_made_and_of_one_second_in_that_of_their_numbers() -> (
    None
):
    records = [
        an_activation(id=3, created_at=NOW),
        an_activation(id=4, created_at=NOW),
        an_activation(id=1, created_at=LATER),
    ]
    assert sorted(reversed(records), key=activation_rules.by_age) == records


def test_records_are_kept_for_a_day_and_at_most_ten_thousand_and_a_mebibyte_is_listed() -> None:
    numbers = (
        activation_rules.KEPT_FOR,
        activation_rules.MAX_KEPT_RECORDS,
        activation_rules.MAX_LISTED_BYTES,
    )
    assert numbers == (timedelta(days=1), 10_000, 2**20)


@each_row(
    ("records", "limit", "surplus"),
    [
        (0, None, (0, 0)),
        (100, None, (0, 0)),
        (101, None, (0, 1)),
        (101, 50, (0, 1)),
        (102, 51, (0, 0)),
        (103, 51, (0, 1)),
        (10_000, None, (0, 9_900)),
        (10_001, None, (1, 9_900)),
        (10_003, 6_000, (3, 0)),
    ],
)
def test_a_hundred_deactivated_records_are_kept_or_twice_the_limit_where_that_is_more(
    records: int, limit: int | None, surplus: tuple[int, int]
) -> None:
    license = a_license(deactivated_count=records, times_activated_max=limit)
    assert activation_rules.surplus(license, 100) == surplus


def test_a_license_without_a_limit_keeps_as_few_records_as_asked_for() -> None:
    assert activation_rules.surplus(a_license(deactivated_count=3), 1) == (0, 2)


@pytest.mark.parametrize(("records", "left"), [(3, 2), (1, 0), (0, 0)])
def test_a_record_that_is_taken_back_is_no_longer_counted_as_deactivated(records: int, left: int) -> None:
    license = a_license(deactivated_count=records)
    assert activation_rules.reactivate(license, a_deactivated_activation(), NOW)[0].deactivated_count == left


def test_active_records_are_listed_before_the_latest_deactivated_ones_and_the_oldest_stands_on_top() -> None:
    records = [
        a_deactivated_activation(id=1, deactivated_at=LATER),
        an_activation(id=2, created_at=NOW + SECOND),
        a_deactivated_activation(id=3, deactivated_at=NOW),
        an_activation(id=4),
        a_deactivated_activation(id=5, deactivated_at=LATER),
    ]
    chosen = [[one.id for one in activation_rules.limit_listed(records, most, 10**6)] for most in range(7)]
    assert chosen == [[], [2], [4, 2], [4, 5, 2], [1, 4, 5, 2], [1, 3, 4, 5, 2], [1, 3, 4, 5, 2]]


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({}, 350),
        ({"user_agent": "\u00e4gent"}, 356),
        ({"label": "desk \u2116 7"}, 360),
        ({"meta_data": {"os": "Linux", "\u00e4": ""}}, 359),
    ],
)
def test_records_are_listed_while_their_bytes_fit(fields: dict[str, Any], size: int) -> None:
    records = [an_activation(id=1, **fields), an_activation(id=2, **fields), an_activation(id=3, **fields)]
    assert len(activation_rules.limit_listed(records, 9, 2 * size)) == 2
    assert len(activation_rules.limit_listed(records, 9, 2 * size - 1)) == 1
