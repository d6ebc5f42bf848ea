"""A license under its terms: its state, and what is refused over v2 and v3."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from keywright.core.errors import (
    LicenseDisabled,
    LicenseExpired,
    LicenseInactive,
    Refusal,
    VersionNotCovered,
)
from keywright.licensing.activations import rules as activation_rules
from keywright.licensing.licenses import rules
from keywright.licensing.licenses.model import License, State, Status
from keywright.licensing.terms.model import AfterExpiry, Starts, Terms
from tests.makers import KEY, LATER, NOW, a_deactivated_activation, a_license, a_license_with
from tests.tables import each_row

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
GRACE = {"grace_days": 7}
ALLOW = {"after_expiry": "allow"}
OLDER = {"after_expiry": "older_versions"}
BEFORE, AFTER = NOW - DAY, NOW + DAY


def expired(terms: dict[str, Any], **fields: Any) -> License:
    """A license that has expired just now."""
    return a_license_with(terms, expires_at=NOW, **fields)


def refusal_over_v2(license: License, now: datetime = NOW) -> type[Refusal] | None:
    try:
        rules.require_usable(license, now)
    except Refusal as refusal:
        return type(refusal)
    return None


def refusal_over_v3(
    license: License, now: datetime = NOW, built_at: datetime | None = None
) -> type[Refusal] | None:
    try:
        rules.require_activatable(license, rules.terms_of(license), now, built_at)
    except Refusal as refusal:
        return type(refusal)
    return None


def test_the_terms_of_a_license_come_from_its_three_columns() -> None:
    license = a_license(terms='{"grace_days":7}', times_activated_max=3, valid_for_days=30)
    assert rules.terms_of(license) == Terms(3, 30, Starts.FIRST_ACTIVATION, grace_days=7)


def test_grace_is_counted_from_the_expiry_up_to_the_end_of_time() -> None:
    assert rules.grace_until(a_license_with(GRACE)) is None
    assert rules.grace_until(a_license(expires_at=NOW)) == NOW
    assert rules.grace_until(expired(GRACE)) == NOW + 7 * DAY
    last = rules.END_OF_TIME - DAY
    assert rules.grace_until(a_license_with(GRACE, expires_at=last)) == rules.END_OF_TIME


@each_row(
    ("terms", "now", "state"),
    [
        ({}, NOW - SECOND, State.VALID),
        ({}, NOW, State.EXPIRED),
        (GRACE, NOW - SECOND, State.VALID),
        (GRACE, NOW, State.GRACE),
        (GRACE, NOW + 7 * DAY - SECOND, State.GRACE),
        (GRACE, NOW + 7 * DAY, State.EXPIRED),
        (GRACE, NOW + 8 * DAY, State.EXPIRED),
        (ALLOW, NOW - SECOND, State.VALID),
        (ALLOW, NOW + 900 * DAY, State.VALID),
        (GRACE | ALLOW, NOW, State.VALID),
        (OLDER, NOW - SECOND, State.VALID),
        (OLDER, NOW, State.EXPIRED),
        (GRACE | OLDER, NOW, State.EXPIRED),
    ],
)
def test_after_the_expiry_the_terms_say_the_state_and_what_v2_refuses(
    terms: dict[str, Any], now: datetime, state: State
) -> None:
    assert rules.state(expired(terms), now) is state
    assert refusal_over_v2(expired(terms), now) is (LicenseExpired if state is State.EXPIRED else None)


def test_a_license_that_never_expires_is_valid() -> None:
    assert rules.state(a_license_with(OLDER), rules.END_OF_TIME) is State.VALID
    assert rules.valid_until(a_license_with(OLDER), Terms(after_expiry=AfterExpiry.OLDER_VERSIONS)) is None


@each_row(("status", "state"), [(Status.INACTIVE, State.INACTIVE), (Status.DISABLED, State.DISABLED)])
@each_row("license", [a_license(), expired(GRACE), expired({})])
def test_a_status_comes_before_the_expiry_in_a_state(license: License, status: Status, state: State) -> None:
    assert rules.state(a_license(status=status, expires_at=license.expires_at), NOW) is state


@each_row(
    ("terms", "built_at", "until"),
    [
        ({}, None, NOW),
        (GRACE, BEFORE, NOW + 7 * DAY),
        (GRACE | ALLOW, None, None),
        (GRACE | OLDER, None, NOW),
        (OLDER, NOW, NOW),
        (OLDER, AFTER, NOW),
        (OLDER, NOW - SECOND, None),
    ],
)
def test_a_license_is_good_for_a_build_until_its_terms_refuse_it(
    terms: dict[str, Any], built_at: datetime | None, until: datetime | None
) -> None:
    license = expired(terms)
    assert rules.valid_until(license, rules.terms_of(license), built_at) == until


def test_every_build_is_covered_by_a_license_that_never_expires() -> None:
    assert rules.is_covered(a_license(), None)
    assert rules.is_covered(a_license(), AFTER)


def test_v2_names_the_expiry_when_the_grace_is_over() -> None:
    with pytest.raises(LicenseExpired) as refusal:
        rules.require_usable(expired(GRACE), NOW + 7 * DAY)
    assert refusal.value.expires_at == NOW


def test_a_license_that_wants_a_device_is_inactive_for_v2() -> None:
    license = a_license_with({"device": "required"}, times_activated=1)
    with pytest.raises(LicenseInactive) as refusal:
        activation_rules.activate(license, NOW)
    assert refusal.value.key == KEY
    with pytest.raises(LicenseInactive):
        activation_rules.reactivate(license, a_deactivated_activation(), NOW)
    assert refusal_over_v3(license) is None


def test_a_license_with_other_terms_is_usable_over_v2() -> None:
    assert refusal_over_v2(a_license_with({"trial": True})) is None


def test_v2_looks_at_the_expiry_and_the_status_before_the_device() -> None:
    terms = {"device": "required"}
    assert refusal_over_v2(expired(terms)) is LicenseExpired
    assert refusal_over_v2(a_license_with(terms, status=Status.DISABLED)) is LicenseDisabled


@each_row(
    ("terms", "built_at", "refusal"),
    [
        ({}, None, LicenseExpired),
        ({}, BEFORE, LicenseExpired),
        (GRACE, None, None),
        (ALLOW, AFTER, None),
        (OLDER, None, VersionNotCovered),
        (OLDER, NOW, VersionNotCovered),
        (OLDER, BEFORE, None),
    ],
)
def test_v3_refuses_expired_licenses_as_the_terms_say(
    terms: dict[str, Any], built_at: datetime | None, refusal: type[Refusal] | None
) -> None:
    assert refusal_over_v3(expired(terms), NOW, built_at) is refusal
    assert refusal_over_v3(expired(terms), NOW - SECOND, built_at) is None


def test_v3_looks_at_the_status_before_the_expiry() -> None:
    assert refusal_over_v3(expired({}, status=Status.DISABLED)) is LicenseDisabled
    assert refusal_over_v3(expired({}, status=Status.INACTIVE)) is LicenseInactive
    assert refusal_over_v3(a_license(status=Status.SOLD)) is None
    for status, refused in ((Status.DISABLED, LicenseDisabled), (Status.INACTIVE, LicenseInactive)):
        with pytest.raises(refused) as refusal:
            rules.require_activatable(a_license(status=status), Terms(), NOW, None)
        assert refusal.value.key == KEY


@pytest.mark.parametrize(
    ("product_id", "named", "is_other"),
    [(17, None, False), (17, 17, False), (17, 18, True), (None, 17, True), (None, None, False)],
)
def test_a_named_product_must_be_the_license_s(
    product_id: int | None, named: int | None, is_other: bool
) -> None:
    license = a_license(product_id=product_id)
    assert rules.is_other_product(license, named) is is_other


def test_no_license_is_for_no_product() -> None:
    assert rules.NO_PRODUCT == -1
    assert rules.is_other_product(a_license(), rules.NO_PRODUCT)


def test_days_from_the_creation_are_counted_at_once() -> None:
    assert rules.expiry_of_new(Terms(valid_for_days=30), NOW) == NOW + 30 * DAY
    assert rules.expiry_of_new(Terms(), NOW) is None
    assert rules.expiry_of_new(Terms(valid_for_days=30, starts=Starts.FIRST_ACTIVATION), NOW) is None


def test_an_activation_starts_the_days_only_where_the_terms_say_so() -> None:
    assert rules.expiry_of_activated(a_license(valid_for_days=30), NOW) == NOW + 30 * DAY
    assert rules.expiry_of_activated(a_license(valid_for_days=30, expires_at=LATER), NOW) == LATER
    assert rules.expiry_of_activated(a_license(), NOW) is None
    # It was made so that its days began at once, and then its expiry was taken away.
    endless = a_license_with({"starts": "creation"}, valid_for_days=30)
    assert activation_rules.activate(endless, NOW).expires_at is None


def test_a_license_that_leases_alone_bound_has_no_files() -> None:
    """A machine without a network holds no lease."""
    rows = [
        (Terms(), True),
        (Terms(offline_days=0), False),
        (Terms(offline_days=1), True),
        (Terms(max_leases=2), False),
        (Terms(max_leases=2, max_activations=3), True),
    ]
    assert [(terms, rules.allows_files(terms)) for terms, _ in rows] == rows


def test_a_signed_answer_is_good_until_the_first_of_its_ends() -> None:
    check, lease = NOW + timedelta(seconds=rules.CHECK_SECONDS), NOW + timedelta(seconds=600)
    floating = {"max_leases": 2, "max_activations": 2}
    rows: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], datetime]] = [
        # Terms, the license, the request; good until.
        ({}, {}, {}, NOW + 14 * DAY),
        ({}, {}, {"days": 3}, NOW + 3 * DAY),
        ({}, {}, {"days": 30}, NOW + 14 * DAY),
        ({"offline_days": 0}, {}, {}, check),
        ({}, {"expires_at": NOW + DAY}, {}, NOW + DAY),
        (GRACE, {"expires_at": NOW + DAY}, {}, NOW + 8 * DAY),
        (OLDER, {"expires_at": NOW + DAY}, {"built_at": BEFORE}, NOW + 14 * DAY),
        (OLDER, {"expires_at": NOW + DAY}, {}, NOW + DAY),
        ({}, {}, {"lease_ends_at": lease}, lease),
        (floating, {}, {"lease_ends_at": lease}, lease),
        (floating, {}, {}, check),
        (floating, {}, {"is_file": True}, NOW + 14 * DAY),
    ]
    found = [rules.signed_until(a_license_with(terms, **of), NOW, **asked) for terms, of, asked, _ in rows]
    assert found == [until for *_, until in rows]
