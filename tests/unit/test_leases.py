"""What one call does to the leases of a license; the sequences are in test_terms_over_time.py."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.errors import (
    FingerprintRequired,
    LeaseEndedByCustomer,
    LeasesNotOffered,
    LicenseExpired,
    NoFreeLease,
    NotActivated,
    Refusal,
)
from keywright.licensing.activations.model import Activation
from keywright.licensing.leases import rules
from keywright.licensing.leases.model import HeldLeases, Leased
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.terms.model import Terms
from tests.makers import LATER, NOW, a_deactivated_activation, a_lease, a_license_with, an_activation
from tests.tables import each_row

SECOND, MINUTES = timedelta(seconds=1), timedelta(minutes=10)
TERMS = Terms(max_leases=2)
FREE, FULL = HeldLeases(1, NOW + SECOND), HeldLeases(2, NOW + 90 * SECOND)
ENDED = a_lease(expires_at=NOW, ended_at=NOW)


def refusal_of_leases(
    terms: dict[str, Any], activation: Activation | None = None, *, named: bool = False, **fields: Any
) -> type[Refusal] | None:
    license, built_at = a_license_with(terms, **fields), NOW - MINUTES
    try:
        rules.require_leasable(
            license, terms_of(license), activation, is_device_named=named, built_at=built_at, now=NOW
        )
    except Refusal as refusal:
        return type(refusal)
    return None


def test_leases_must_be_offered_by_a_license_that_can_be_used() -> None:
    assert refusal_of_leases({}) is LeasesNotOffered
    assert refusal_of_leases({"max_leases": 1}) is None
    assert refusal_of_leases({}, expires_at=NOW) is LicenseExpired
    older = {"max_leases": 1, "after_expiry": "older_versions"}
    assert refusal_of_leases(older, expires_at=NOW) is None


def test_where_the_terms_want_a_device_it_must_hold_a_place() -> None:
    terms = {"max_leases": 1, "device": "required"}
    assert refusal_of_leases(terms) is FingerprintRequired
    assert refusal_of_leases(terms, named=True) is NotActivated
    assert refusal_of_leases(terms, a_deactivated_activation(), named=True) is NotActivated
    assert refusal_of_leases(terms, an_activation(), named=True) is None


def test_where_a_device_is_optional_it_needs_no_place() -> None:
    assert refusal_of_leases({"max_leases": 1}, a_deactivated_activation(), named=True) is None


def test_a_lease_is_held_up_to_its_end() -> None:
    lease = a_lease()
    assert not rules.is_over(lease, lease.expires_at - SECOND)
    assert rules.is_over(lease, lease.expires_at)
    assert rules.is_over(ENDED, NOW - SECOND)


def test_leases_that_are_over_are_ended_once() -> None:
    over, held = a_lease(expires_at=NOW), a_lease(expires_at=NOW + SECOND)
    assert rules.end_over([over, held, ENDED], NOW) == (replace(over, ended_at=NOW),)


def test_a_free_lease_is_taken_for_the_seconds_of_the_terms() -> None:
    assert rules.take(a_lease(), None, FREE, TERMS, None) == Leased(a_lease(), 2, is_new=True)


@pytest.mark.parametrize(("asked", "given"), [(None, 600), (60, 60), (600, 600), (601, 600)])
def test_the_seconds_of_a_lease_are_at_most_those_of_the_terms(asked: int | None, given: int) -> None:
    expires_at, new = NOW + timedelta(seconds=given), a_lease(expires_at=NOW)
    current = a_lease(expires_at=NOW + SECOND)
    assert rules.take(new, None, FREE, TERMS, asked).lease.expires_at == expires_at
    assert rules.take(new, current, FREE, TERMS, asked).lease.expires_at == expires_at
    for lease in (current, ENDED):
        renewed = rules.renew(lease, None, FREE, TERMS, seconds=asked, now=NOW)
        assert renewed.lease.expires_at == expires_at


@pytest.mark.parametrize("current", [None, ENDED, a_lease(expires_at=NOW)])
def test_no_lease_is_taken_when_all_are_held(current: Any) -> None:
    with pytest.raises(NoFreeLease) as refusal:
        rules.take(a_lease(), current, FULL, TERMS, None)
    assert (refusal.value.limit, refusal.value.retry_after_seconds) == (2, 90)


@pytest.mark.parametrize(
    ("next_end", "seconds"), [(None, 600), (NOW, 1), (NOW - SECOND, 1), (NOW + MINUTES, 600)]
)
def test_a_refusal_tells_when_the_next_lease_ends(next_end: Any, seconds: int) -> None:
    with pytest.raises(NoFreeLease) as refusal:
        rules.take(a_lease(), None, HeldLeases(3, next_end), TERMS, None)
    assert refusal.value.problem_members() == {"retry_after_seconds": seconds}
    assert refusal.value.fill("{leases} {seconds}") == f"2 leases {refusal.value.facts()['seconds']}"


def test_without_an_offer_nothing_is_free() -> None:
    with pytest.raises(NoFreeLease):
        rules.take(a_lease(), None, HeldLeases(0), Terms(), None)


def test_the_same_holder_goes_on_with_the_lease_it_has_also_when_all_are_held() -> None:
    current = a_lease(
        lease_id="1" * 32, created_at=NOW - MINUTES, renewed_at=NOW - MINUTES, expires_at=NOW + SECOND
    )
    taken = rules.take(a_lease(), current, FULL, TERMS, None)
    assert taken == Leased(replace(current, renewed_at=NOW, expires_at=NOW + MINUTES), 2)


def test_a_lease_that_ended_is_not_gone_on_with_when_its_holder_takes_one() -> None:
    assert rules.take(a_lease(lease_id="1" * 32), ENDED, FREE, TERMS, None).lease.lease_id == "1" * 32


def test_a_held_lease_is_renewed_also_when_all_are_held() -> None:
    now = NOW + MINUTES - SECOND
    renewed = rules.renew(a_lease(), None, FULL, TERMS, seconds=None, now=now)
    assert renewed == Leased(a_lease(renewed_at=now, expires_at=now + MINUTES), 2)


@pytest.mark.parametrize(
    ("ends_in", "then_in"),
    [
        (MINUTES + SECOND, MINUTES + SECOND),
        (2 * MINUTES, 2 * MINUTES),
        (2 * MINUTES + SECOND, MINUTES),
    ],
)
def test_an_end_stays_unless_a_clock_that_was_ahead_has_set_it(
    ends_in: timedelta, then_in: timedelta
) -> None:
    renewed = rules.renew(a_lease(expires_at=NOW + ends_in), None, FULL, TERMS, seconds=None, now=NOW)
    assert renewed.lease.expires_at == NOW + then_in


def test_an_ended_lease_is_renewed_where_one_is_free() -> None:
    renewed = rules.renew(ENDED, None, FREE, TERMS, seconds=None, now=NOW)
    assert renewed == Leased(a_lease(), 2, was_lost=True)
    with pytest.raises(NoFreeLease):
        rules.renew(ENDED, None, FULL, TERMS, seconds=None, now=NOW)


def test_a_lease_that_is_renewed_after_its_bar_is_barred_no_more() -> None:
    barred = replace(ENDED, barred_until=NOW)
    assert rules.renew(barred, None, FREE, TERMS, seconds=None, now=NOW).lease.barred_until is None


def test_a_holder_whose_lease_ended_goes_on_with_the_one_that_was_taken_since() -> None:
    since = a_lease(lease_id="1" * 32, expires_at=NOW + SECOND)
    renewed = rules.renew(ENDED, since, FULL, TERMS, seconds=None, now=NOW)
    assert renewed == Leased(a_lease(lease_id="1" * 32), 2, was_lost=True)


def test_a_lease_that_is_ended_before_its_time_is_lost_from_then_on() -> None:
    assert rules.end(a_lease(), NOW) == a_lease(expires_at=NOW, ended_at=NOW)
    assert rules.end(a_lease(expires_at=NOW - SECOND), NOW).expires_at == NOW - SECOND


def test_a_released_lease_is_counted_no_more_and_an_ended_one_was_not_counted() -> None:
    assert rules.release(a_lease(), 2) == 1
    assert rules.release(ENDED, 2) == 2


@pytest.mark.parametrize(("seconds", "half"), [(600, 300), (11, 5), (10, 5), (86_400 * 3, 43_200 * 3)])
def test_a_lease_is_to_be_renewed_after_half_of_its_time(seconds: int, half: int) -> None:
    lease = a_lease(expires_at=NOW + timedelta(seconds=seconds))
    assert rules.renew_at(lease) == NOW + timedelta(seconds=half)


@pytest.mark.parametrize(("limit", "kept"), [(None, 100), (5, 100), (100, 100), (101, 101)])
def test_a_hundred_ended_leases_are_kept_or_as_many_as_the_limit(limit: int | None, kept: int) -> None:
    assert rules.kept_ended(Terms(max_leases=limit)) == kept


@each_row(
    ("held", "limit", "held_before", "limit_before", "places"),
    [
        (1, 5, 0, 5, 5),
        (5, 9, 5, 5, 9),
        (5, 3, 5, 5, 5),
        (2, 3, 5, 5, 3),
        (5, None, 5, 5, 5),
        (6, 5, 5, 5, 5),
        (4, 2, 4, 3, 4),
        (2, 1, 0, 2, 2),
        (0, None, 0, None, 0),
        (1, None, 0, None, 0),
    ],
)
def test_the_bound_of_a_counter_is_the_limit_or_what_is_held_when_it_is_lowered(
    held: int, limit: int | None, held_before: int, limit_before: int | None, places: int
) -> None:
    assert rules.places(held, limit, held_before=held_before, limit_before=limit_before) == places


def test_a_device_has_a_number_of_its_own_also_without_an_activation() -> None:
    assert rules.device_number(None, None) is None
    assert rules.device_number(an_activation(id=7), "a fingerprint") == 7
    first, second = (rules.device_number(None, one) for one in ("a fingerprint", "another one"))
    assert first == rules.device_number(None, "a fingerprint") != second
    assert all(one is not None and -(2**63) <= one < 0 for one in (first, second))
    assert first == -1 - (int(hashlib.sha256(b"a fingerprint").hexdigest()[:16], 16) >> 1)


def test_a_holder_whose_lease_a_customer_ended_gets_none_for_the_time_of_a_lease() -> None:
    terms = Terms(max_leases=1, lease_seconds=600)
    for seconds, is_refused in ((0, False), (1, True), (1200, True), (1201, False)):
        barred_until = NOW + timedelta(seconds=seconds)
        if is_refused:
            with pytest.raises(LeaseEndedByCustomer) as refusal:
                rules.require_not_barred(barred_until, terms, NOW)
            assert refusal.value.problem_members() == {"retry_after_seconds": seconds}
        else:
            rules.require_not_barred(barred_until, terms, NOW)
    rules.require_not_barred(None, terms, NOW)
    assert rules.end(a_lease(), NOW, LATER).barred_until == LATER
