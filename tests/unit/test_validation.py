"""Each finding of a validation by itself, and their order."""

from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keywright.licensing.licenses.model import Status
from keywright.licensing.licenses.rules import END_OF_TIME, NO_PRODUCT
from keywright.licensing.validation import Code, Facts, Findings, ValidateLicense, next_check_at, validate
from tests.makers import (
    LATER,
    NOW,
    a_deactivated_activation,
    a_lease,
    a_license,
    a_license_with,
    an_activation,
)
from tests.tables import each_row

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
FLOATING = {"max_leases": 2}
LOST = a_lease(expires_at=NOW - SECOND, ended_at=NOW - SECOND)
METERS = {"meters": {"exports": {"limit": 1000, "per": "month"}, "calls": {"limit": 5, "per": "day"}}}
BLOCKING = [
    "unknown_license",
    "product_mismatch",
    "disabled",
    "inactive",
    "key_rotated",
    "expired",
    "version_not_covered",
    "not_activated",
    "fingerprint_required",
    "lease_lost",
    "lease_required",
    "entitlement_missing",
]
NOT_BLOCKING = ["over_limit", "usage_exceeded", "grace", "expired_allowed", "version_covered", "valid"]


def find(terms: dict[str, Any] | None = None, *, of: dict[str, Any] | None = None, **facts: Any) -> Findings:
    """The findings about a license with these terms, and other fields (``of``)."""
    return validate(Facts(license=a_license_with(terms or {}, **of or {}), **{"now": NOW} | facts))


def test_codes_are_those_of_the_contract_in_rank_order_and_the_first_eleven_block() -> None:
    assert [code.value for code in Code] == BLOCKING + NOT_BLOCKING
    assert [code.value for code in Code if not Findings((code,), "").is_valid] == BLOCKING


def test_nothing_is_found_of_a_good_license() -> None:
    findings = find()
    assert findings == Findings((Code.VALID,), "The license is valid.")
    assert (findings.code, findings.is_valid, findings.shows_license) == (Code.VALID, True, True)
    until = "The license is valid until 2026-01-16 08:00:00 (UTC)."
    assert find(of={"expires_at": LATER}).detail == until


def test_an_unknown_key() -> None:
    findings = validate(Facts(license=None, now=NOW))
    assert findings == Findings((Code.UNKNOWN_LICENSE,), "No license has this key.")
    assert not findings.shows_license


@pytest.mark.parametrize(
    ("product_id", "named"), [(17, 18), (None, 18), (17, NO_PRODUCT), (None, NO_PRODUCT)]
)
def test_a_license_of_another_product_tells_nothing_else(product_id: int | None, named: int) -> None:
    of = {"product_id": product_id, "status": Status.DISABLED, "expires_at": NOW}
    findings = find(of=of, product_id=named, is_key_rotated=True, entitlements=("pro",))
    assert findings == Findings((Code.PRODUCT_MISMATCH,), "The license is for another product.")
    assert not findings.shows_license


def test_the_product_of_a_license_may_be_named_or_not() -> None:
    assert find(of={"product_id": 17}, product_id=17).code is Code.VALID
    assert find(of={"product_id": 17}).code is Code.VALID


@pytest.mark.parametrize("status", Status)
def test_a_status_that_forbids_use(status: Status) -> None:
    sentences = {
        Status.DISABLED: (Code.DISABLED, "The license is disabled."),
        Status.INACTIVE: (Code.INACTIVE, "The license is inactive."),
    }
    code, sentence = sentences.get(status, (Code.VALID, "The license is valid."))
    assert find(of={"status": status}) == Findings((code,), sentence)


@pytest.mark.parametrize("of", [{"expires_at": NOW}, {"status": Status.DISABLED}])
def test_a_rotated_key_is_told_nothing_else(of: dict[str, Any]) -> None:
    findings = find(of=of, is_key_rotated=True, entitlements=("pro",))
    assert findings.codes == (Code.KEY_ROTATED,)
    assert findings.detail == "The license has a new key; this one is no longer accepted."
    assert not findings.shows_license


@each_row(
    ("terms", "built_at", "codes", "detail"),
    [
        ({}, None, ["expired"], "."),
        (
            {"grace_days": 1},
            None,
            ["grace"],
            " and can be used until 2026-01-16 12:30:45 (UTC).",
        ),
        (
            {"grace_days": 1, "after_expiry": "allow"},
            None,
            ["expired_allowed"],
            " and stays valid.",
        ),
        (
            {"grace_days": 1, "after_expiry": "older_versions"},
            None,
            ["expired", "version_not_covered"],
            ": it covers builds made before that, and this one has no build date.",
        ),
        (
            {"after_expiry": "older_versions"},
            NOW,
            ["expired", "version_not_covered"],
            ": it covers builds made before that, and this one is newer.",
        ),
        (
            {"after_expiry": "older_versions"},
            NOW - SECOND,
            ["version_covered"],
            "; this build was made before that.",
        ),
    ],
)
def test_after_the_expiry_the_terms_decide(
    terms: dict[str, Any], built_at: datetime | None, codes: list[str], detail: str
) -> None:
    findings = find(terms, of={"expires_at": NOW}, built_at=built_at)
    assert list(findings.codes) == codes
    assert findings.detail == f"The license expired on 2026-01-15 12:30:45 (UTC){detail}"
    assert find(terms, of={"expires_at": NOW + SECOND}, built_at=built_at).code is Code.VALID


@pytest.mark.parametrize(("days", "words"), [(1, "1 day"), (7, "7 days")])
def test_grace_ends_exactly_after_its_days(days: int, words: str) -> None:
    of, end = {"expires_at": NOW}, NOW + days * DAY
    assert find({"grace_days": days}, of=of, now=end - SECOND).code is Code.GRACE
    findings = find({"grace_days": days}, of=of, now=end)
    assert findings.code is Code.EXPIRED
    past = "The license expired on 2026-01-15 12:30:45 (UTC)"
    assert findings.detail == f"{past}, and its {words} of grace are over."
    assert find({"grace_days": days}, of=of, now=end + SECOND).code is Code.EXPIRED


@pytest.mark.parametrize("record", [None, a_deactivated_activation()])
def test_a_named_device_must_hold_a_place(record: Any) -> None:
    findings = find(is_device_named=True, activation=record)
    assert findings == Findings((Code.NOT_ACTIVATED,), "The device holds no place; 0 are taken.")
    assert find(is_device_named=True, activation=an_activation()).code is Code.VALID
    of = {"times_activated": 1, "times_activated_max": 3}
    assert find(of=of, is_device_named=True).detail == "The device holds no place; 1 of 3 is taken."


def test_a_device_must_be_named_where_the_terms_want_one() -> None:
    findings = find({"device": "required"})
    assert findings.codes == (Code.FINGERPRINT_REQUIRED,)
    assert findings.detail == "The license requires a fingerprint of the device."
    assert find({"device": "required"}, is_device_named=True).codes == (Code.NOT_ACTIVATED,)
    assert find({"device": "required"}, is_device_named=True, activation=an_activation()).is_valid


def test_a_lease_that_ended_by_itself_is_lost() -> None:
    findings = find(FLOATING, lease=LOST)
    assert findings == Findings((Code.LEASE_LOST,), "The lease ended on 2026-01-15 12:30:44 (UTC).")
    assert find(FLOATING, lease=a_lease(expires_at=NOW)).code is Code.LEASE_LOST
    assert find(FLOATING, lease=a_lease()).code is Code.VALID
    assert find(FLOATING).code is Code.VALID


def test_a_floating_license_is_for_those_who_hold_a_lease_where_one_is_needed() -> None:
    findings = find(FLOATING, needs_lease=True)
    sentence = "The license requires a lease, and this caller holds none."
    assert findings == Findings((Code.LEASE_REQUIRED,), sentence)
    assert not findings.is_valid
    assert findings.shows_license
    assert find(FLOATING, needs_lease=True, lease=a_lease()).code is Code.VALID
    assert find(FLOATING, needs_lease=True, lease=LOST).codes == (Code.LEASE_LOST,)
    assert find(needs_lease=True).code is Code.VALID
    assert find(lease=LOST).code is Code.VALID


def test_every_entitlement_asked_for_must_be_held() -> None:
    terms = {"entitlements": ["pro", "export"]}
    assert find(terms, entitlements=("export", "pro")).code is Code.VALID
    findings = find(terms, entitlements=("sync", "pro", "beta"))
    assert findings == Findings((Code.ENTITLEMENT_MISSING,), "The license does not include sync, beta.")


def test_more_places_taken_than_the_limit_do_not_block() -> None:
    findings = find(of={"times_activated": 5, "times_activated_max": 3})
    detail = "More places are taken than the license has: 5 of 3 are taken."
    assert findings == Findings((Code.OVER_LIMIT,), detail)
    assert findings.is_valid
    assert find(of={"times_activated": 3, "times_activated_max": 3}).code is Code.VALID


def test_a_meter_at_its_limit_does_not_block() -> None:
    findings = find(METERS, usage={"exports": 1000})
    detail = "The meter exports is at its limit: 1,000 of 1,000 are used."
    assert findings == Findings((Code.USAGE_EXCEEDED,), detail)
    assert findings.is_valid
    assert find(METERS, usage={"exports": 1000, "calls": 5}).codes == (Code.USAGE_EXCEEDED,)
    assert find(METERS, usage={"exports": 999, "other": 9}).code is Code.VALID
    assert find({"meters": {"calls": {"limit": 1, "per": "day"}}}).code is Code.VALID


def test_all_findings_are_told_in_the_order_of_their_rank() -> None:
    of = {"status": Status.DISABLED, "expires_at": NOW, "times_activated": 2, "times_activated_max": 1}
    everything = {"lease": LOST, "entitlements": ("pro",), "usage": {"exports": 1000}}
    findings = find(FLOATING | METERS, of=of, is_device_named=True, **everything)
    assert list(findings.codes) == [
        "disabled",
        "expired",
        "not_activated",
        "lease_lost",
        "entitlement_missing",
        "over_limit",
        "usage_exceeded",
    ]
    assert findings.detail == "The license is disabled."
    in_grace = find(FLOATING | METERS | {"grace_days": 1, "device": "required"}, of=of, **everything)
    assert list(in_grace.codes) == [
        "disabled",
        "fingerprint_required",
        "lease_lost",
        "entitlement_missing",
        "over_limit",
        "usage_exceeded",
        "grace",
    ]


FACTS = st.fixed_dictionaries(
    {
        "is_key_rotated": st.booleans(),
        "product_id": st.sampled_from([None, 17, 18]),
        "is_device_named": st.booleans(),
        "activation": st.sampled_from([None, an_activation(), a_deactivated_activation()]),
        "lease": st.sampled_from([None, LOST, a_lease()]),
        "needs_lease": st.booleans(),
        "entitlements": st.sampled_from([(), ("pro",)]),
        "usage": st.sampled_from([{}, {"exports": 1000}]),
        "built_at": st.sampled_from([None, NOW - DAY, NOW + DAY]),
    }
)
FIELDS = st.fixed_dictionaries(
    {
        "product_id": st.sampled_from([None, 17]),
        "status": st.sampled_from(Status),
        "expires_at": st.sampled_from([None, NOW - DAY, NOW, LATER]),
        "times_activated": st.integers(0, 2),
        "times_activated_max": st.sampled_from([None, 1]),
    }
)
TERMS = st.fixed_dictionaries(
    {
        "grace_days": st.sampled_from([0, 1, 2]),
        "after_expiry": st.sampled_from(["refuse", "allow", "older_versions"]),
        "device": st.sampled_from(["optional", "required"]),
        "max_leases": st.sampled_from([None, 2]),
        "entitlements": st.sampled_from([[], ["pro"]]),
        "meters": st.sampled_from([{}, METERS["meters"]]),
    }
)


@given(TERMS, FIELDS, FACTS)
def test_codes_are_in_rank_order_without_doubles_and_valid_stands_alone(
    terms: dict[str, Any], fields: dict[str, Any], facts: dict[str, Any]
) -> None:
    findings = find(terms, of=fields, **facts)
    ranks = [list(Code).index(code) for code in findings.codes]
    assert ranks == sorted(set(ranks))
    assert findings.is_valid is not any(code.value in BLOCKING for code in findings.codes)
    assert findings.codes == (Code.VALID,) or Code.VALID not in findings.codes
    assert findings.detail.endswith(".")


@given(st.integers(1, 31_536_000), st.integers(1, 2**63 - 1), st.datetimes(NOW.replace(tzinfo=None)))
def test_the_next_check_is_up_to_a_tenth_of_the_time_away_from_it(
    seconds: int, license_id: int, when: datetime
) -> None:
    now = min(when.replace(tzinfo=NOW.tzinfo, microsecond=0), END_OF_TIME - 500 * DAY)
    facts = Facts(license=a_license_with({"next_check_seconds": seconds}, id=license_id), now=now)
    after = next_check_at(facts)
    assert after is not None
    assert abs((after - now).total_seconds() - seconds) <= seconds // 10
    assert next_check_at(facts) == after


def test_the_next_check_is_found_from_the_license_the_place_and_the_time_alone() -> None:
    license = a_license_with({"next_check_seconds": 100})
    facts = [Facts(license=license, now=NOW + number * SECOND) for number in range(200)]
    waits = {((next_check_at(one) or NOW) - one.now).total_seconds() for one in facts}
    assert waits == set(range(90, 111))
    on_device = Facts(license=license, now=NOW, activation=an_activation(id=7))
    expected = 90 + crc32(b"1 0 1768480245") % 21, 90 + crc32(b"1 7 1768480245") % 21
    assert next_check_at(facts[0]) == NOW + expected[0] * SECOND
    assert next_check_at(on_device) == NOW + expected[1] * SECOND


def test_programs_do_not_come_all_at_once() -> None:
    by_license = {next_check_at(Facts(license=a_license(id=number), now=NOW)) for number in range(1000)}
    by_device = {
        next_check_at(Facts(license=a_license(), now=NOW, activation=an_activation(id=number)))
        for number in range(1000)
    }
    by_time = {
        (next_check_at(Facts(license=a_license(), now=moment)) or moment) - moment
        for moment in (NOW + number * SECOND for number in range(1000))
    }
    assert min(len(by_license), len(by_device), len(by_time)) > 900


def test_nothing_is_said_about_the_next_check_of_an_unknown_key() -> None:
    assert next_check_at(Facts(license=None, now=NOW)) is None


def test_a_device_is_named_by_its_fingerprint_or_its_token() -> None:
    given: tuple[dict[str, Any], ...] = ({}, {"fingerprint": "f"}, {"token": "t"})
    named = [ValidateLicense(key="K", now=NOW, **one).is_device_named for one in given]
    assert named == [False, True, True]
