"""The answers of the gate's rules one by one, in words."""

from datetime import timedelta
from typing import Any

from keywright.licensing.licenses.model import Status
from keywright.licensing.updates.model import ReleaseState, Rollout, Updates
from keywright.licensing.updates.rules import Asked, UpdateCode, UpdateFacts, decide, explain, may_download
from tests.makers import NOW, a_license_with
from tests.unit.test_update_gate import a_known, some_facts

WORDS = {
    "not_offered": "The product offers updates.",
    "unknown_license": "The license exists.",
    "product_mismatch": "The license is for this product.",
    "disabled": "The license is not disabled.",
    "inactive": "The license is not inactive.",
    "key_rotated": "The key was not replaced.",
    "fingerprint_required": "A device is named.",
    "not_activated": "The device holds its place.",
    "not_published": "The release is published.",
    "channel_not_allowed": "The license has the channel stable.",
    "entitlement_missing": "The license has the features that the release requires.",
    "newer_not_covered": "The license covers the release.",
    "no_file_for_platform": "The release has a file for the platform.",
    "requirements_not_met": "The platform is new enough.",
    "must_update_first": "Any version can be updated to it.",
    "held_back_by_rollout": "The rollout of 100 % has reached the device.",
}


def expired_on(day: int) -> Any:
    """A license that covers the releases up to this one."""
    return a_license_with({"after_expiry": "older_versions"}, expires_at=NOW + timedelta(days=day - 100))


def test_a_release_that_a_license_may_have_passes_every_rule() -> None:
    known = a_known(1)
    found = explain(some_facts(known), known)
    assert {one.code.value: one.detail for one in found} == WORDS
    assert all(one.passed is True for one in found)


def test_what_a_release_asks_for_is_named() -> None:
    asks: dict[str, Any] = {"entitlements": ["pro", "max"], "min_from_version": "3.0", "channel": "beta"}
    known = a_known(4, rollout=Rollout(50), **asks)
    nobody = UpdateFacts(now=NOW, asked=Asked(app_version="1.0"))
    failed = {one.code.value: one.detail for one in explain(nobody, known) if one.passed is False}
    assert failed == {
        "unknown_license": WORDS["unknown_license"],
        "channel_not_allowed": "The license has the channel beta.",
        "entitlement_missing": "pro, max",
        "must_update_first": "The program has version 3.0 or newer.",
        "held_back_by_rollout": "The rollout of 50 % has reached the device.",
    }


def test_what_a_program_runs_on_may_be_newer_than_a_release_needs() -> None:
    known = a_known(1, requires={"os": "12", "php": "8.1"})
    asked = Asked(os_version="13", php_version="8.10")
    assert decide(some_facts(known, asked=asked)).offered is known


def test_beside_what_is_offered_stands_the_newest_that_a_renewal_would_bring() -> None:
    known = [a_known(number) for number in (1, 2, 3, 4)]
    facts = UpdateFacts(
        now=NOW, license=expired_on(2), releases=some_facts(*known).releases, asked=Asked(app_version="1.0")
    )
    decision = decide(facts)
    assert (decision.offered, decision.file, decision.not_covered) == (known[1], known[1].files[0], known[3])
    assert decision.codes == (UpdateCode.UPDATE_AVAILABLE, UpdateCode.NEWER_NOT_COVERED)


def test_what_is_offered_has_the_file_of_the_platform() -> None:
    known = a_known(1, platforms=(None, "mac", "windows"))
    found = [decide(some_facts(known, asked=Asked(platform=one))).file for one in ("windows", "mac", "linux")]
    assert found == [known.files[2], known.files[1], known.files[0]]


def test_of_two_releases_with_the_same_numbers_the_later_one_is_newer() -> None:
    known = [a_known(1, version="1.0"), a_known(2, version="1.0.0")]
    assert decide(some_facts(*known, asked=Asked(app_version="1.0"))).offered is known[1]


def test_a_download_is_refused_by_the_first_rule_that_is_not_about_time() -> None:
    known, yanked = (
        a_known(3, rollout=Rollout(0), min_from_version="2.0"),
        a_known(4, state=ReleaseState.YANKED),
    )
    facts = some_facts(known, yanked, asked=Asked(app_version="1.0", platform="linux"))
    disabled = a_license_with({}, status=Status.DISABLED)
    found = [
        may_download(facts, known),
        may_download(facts, yanked),
        may_download(some_facts(known, updates=Updates.CLOSED), known),
        may_download(UpdateFacts(now=NOW, license=disabled), known),
        may_download(UpdateFacts(now=NOW, license=expired_on(2)), known),
    ]
    assert found == [
        None,
        UpdateCode.NOT_PUBLISHED,
        UpdateCode.NOT_OFFERED,
        UpdateCode.DISABLED,
        UpdateCode.NEWER_NOT_COVERED,
    ]
