"""Who may have which release: the gate against a model that is written otherwise."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from keywright.licensing.licenses.model import License, Status
from keywright.licensing.terms.model import AfterExpiry, DeviceRule
from keywright.licensing.updates.files import choose_file, to_usual_word
from keywright.licensing.updates.model import (
    FileKind,
    Known,
    ProductReleases,
    Release,
    ReleaseFile,
    ReleaseState,
    Rollout,
    Updates,
)
from keywright.licensing.updates.rules import (
    Asked,
    UpdateCode,
    UpdateFacts,
    decide,
    ends_tokens,
    explain,
    list_shown,
    may_download,
    rollout_place,
)
from keywright.licensing.updates.store import order_releases
from keywright.licensing.updates.tickets import ticket_end
from keywright.licensing.updates.versions import VersionScheme, version_key
from tests.makers import NOW, a_license_with, an_activation
from tests.proving import record, size
from tests.tables import each_row

DAY = timedelta(days=1)
CHANNELS = ("stable", "beta", "nightly")


def a_file(**fields: Any) -> ReleaseFile:
    usual: dict[str, Any] = {
        "id": 1,
        "release_id": 1,
        "name": "f",
        "kind": FileKind.INSTALLER,
        "content_type": None,
    }
    rest: dict[str, Any] = {
        "signature": None,
        "url": None,
        "size": 1,
        "sha256": "0" * 64,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return ReleaseFile(**usual | rest | {"platform": None, "arch": None} | fields)


def a_known(number: int, *, platforms: tuple[str | None, ...] = (None,), **fields: Any) -> Known:
    """The release of version ``number``.0, published so many days after ``NOW`` - 100 days."""
    usual: dict[str, Any] = {
        "id": number,
        "product_id": 17,
        "version": f"{number}.0",
        "state": ReleaseState.PUBLISHED,
        "rank": number,
        "released_at": NOW + (number - 100) * DAY,
        "entitlements": [],
        "requires": {},
        "metadata": {},
        "created_at": NOW,
        "updated_at": NOW,
    }
    release = Release(**usual | fields)
    files = tuple(a_file(id=number * 10 + place, platform=one) for place, one in enumerate(platforms))
    return Known(release, version_key(VersionScheme.LOOSE, release.version), files)


def draw_releases() -> ProductReleases:
    """Up to seven releases, of which some were yanked."""
    one = random.choice
    return order_releases(
        a_known(
            number,
            state=one([ReleaseState.PUBLISHED, ReleaseState.PUBLISHED, ReleaseState.YANKED]),
            channel=one(CHANNELS),
            entitlements=one([[], [], ["pro"]]),
            is_free_for_expired=one([False, True]),
            is_critical=one([False, False, True]),
            rollout=Rollout(one([100, 100, 50, 0])),
            min_from_version=one([None, None, "3.0"]),
            requires=one([{}, {}, {"os": "12"}, {"php": "8"}]),
            platforms=one([(None,), ("windows",), ("windows", "mac"), ()]),
        )
        for number in range(1, random.randint(1, 8))
    )


def draw_license() -> License:
    one = random.choice
    terms = {
        "after_expiry": one([one.value for one in AfterExpiry]),
        "grace_days": one([0, 0, 5, 200]),
        "device": one([one.value for one in DeviceRule]),
        "channels": one([["stable"], ["beta"], ["nightly"], []]),
        "entitlements": one([[], ["pro"]]),
    }
    expires_at = one([None, NOW + (random.randint(1, 105) - 100) * DAY])
    status = one([Status.ACTIVE, Status.ACTIVE, Status.SOLD, Status.INACTIVE, Status.DISABLED])
    return a_license_with(terms, status=status, expires_at=expires_at)


def draw_facts(releases: ProductReleases, license: License) -> UpdateFacts:
    """A product, a license or none, a device or none, and what a program asks."""
    one = random.choice
    return UpdateFacts(
        now=NOW,
        updates=one([Updates.LICENSED, Updates.LICENSED, Updates.OPEN, Updates.CLOSED]),
        channels=CHANNELS[1:],
        releases=releases,
        license=one([None, license, license, license]),
        is_key_rotated=one([False, False, True]),
        is_device_named=one([False, True]),
        activation=one([None, an_activation(), an_activation(deactivated_at=NOW)]),
        asked=Asked(
            app_version=one([None, "0.1", "1.0", "2.0", "3.0", "99", "?"]),
            platform=one([None, "windows", "mac", "linux"]),
            channel=one([*CHANNELS, "unknown"]),
            os_version=one([None, "11.9", "12"]),
            php_version=one([None, "7.4"]),
            by_hand=one([False, True]),
        ),
    )


def is_allowed(facts: UpdateFacts, release: Release) -> bool:
    """Whether the license may have a release at all, in the words of the contract."""
    license, terms = facts.license, facts.terms
    if facts.updates is Updates.CLOSED or release.state is not ReleaseState.PUBLISHED:
        return False
    if not {*release.entitlements} <= {*terms.entitlements}:
        return False
    if facts.updates is Updates.OPEN:
        return not facts.is_key_rotated
    if license is None or license.status in (Status.DISABLED, Status.INACTIVE) or facts.is_key_rotated:
        return False
    holds = facts.activation is not None and facts.activation.deactivated_at is None
    if terms.device is DeviceRule.REQUIRED and not (facts.is_device_named and holds):
        return False
    wildest = max([0, *(CHANNELS.index(one) for one in terms.channels)])
    return CHANNELS.index(release.channel) <= wildest and is_covered(facts, license, release)


def is_covered(facts: UpdateFacts, license: License, release: Release) -> bool:
    if license.expires_at is None or facts.now < license.expires_at + facts.terms.grace_days * DAY:
        return True
    if facts.terms.after_expiry is AfterExpiry.ALLOW or release.is_free_for_expired:
        return True
    is_older = release.released_at is not None and release.released_at <= license.expires_at
    return facts.terms.after_expiry is AfterExpiry.OLDER_VERSIONS and is_older


def is_fit(facts: UpdateFacts, known: Known) -> bool:
    """Whether a release that the license may have fits the program now."""
    asked, release = facts.asked, known.release
    if not any(asked.platform in (None, one.platform or asked.platform) for one in known.files):
        return False
    if "os" in release.requires and asked.os_version == "11.9":
        return False
    if "php" in release.requires and asked.php_version == "7.4":
        return False
    if release.min_from_version and asked.app_version in ("0.1", "1.0", "2.0"):
        return False
    if release.rollout.percent == 100 or release.is_critical or asked.by_hand:
        return True
    place = f"license:{facts.license.id}" if facts.license else None
    place = f"activation:{facts.activation.id}" if facts.activation else place
    return place is not None and rollout_place(release.id, place) < release.rollout.percent


def test_what_is_offered_is_the_newest_that_is_covered() -> None:
    cases, asked_of_each = size(10_000, 1_000_000), 10
    for _ in range(cases // asked_of_each):
        releases, license = draw_releases(), draw_license()
        for _ in range(asked_of_each):
            require_right(draw_facts(releases, license))
    record("R28", "the gate", {"cases": cases, "wrong answers": 0})


def require_right(facts: UpdateFacts) -> None:
    """The gate answers as the contract says."""
    wanted = (
        CHANNELS[: CHANNELS.index(facts.asked.channel) + 1]
        if facts.asked.channel in CHANNELS
        else ("stable",)
    )
    numbers = {None: 0.0, "?": 0.0}
    current = (
        numbers.get(facts.asked.app_version)
        if facts.asked.app_version in numbers
        else float(str(facts.asked.app_version))
    )
    newer = [
        one for one in facts.releases.releases if one.rank > (current or 0) and one.release.channel in wanted
    ]
    covered = [one for one in newer if is_allowed(facts, one.release) and is_fit(facts, one)]
    expected = max(covered, key=lambda one: one.rank, default=None)
    decision = decide(facts)
    assert decision.offered is expected
    assert (decision.code is UpdateCode.UPDATE_AVAILABLE) is (expected is not None)
    if decision.not_covered is not None:
        assert not is_covered(facts, facts.license, decision.not_covered.release)  # type: ignore[arg-type]
    for one in facts.releases.releases:
        rules = explain(facts, one)
        assert all(rule.passed for rule in rules) is (is_allowed(facts, one.release) and is_fit(facts, one))
        if may_download(facts, one) is None:
            # Without a device, it is a customer, whose device may be new.
            placed = replace(facts, is_device_named=True, activation=an_activation())
            downloads = facts if facts.is_device_named else placed
            assert is_allowed(downloads, one.release), "nobody downloads what the license does not cover"


def some_facts(*known: Known, **fields: Any) -> UpdateFacts:
    releases: ProductReleases = order_releases(known)
    return UpdateFacts(now=NOW, license=a_license_with({}), releases=releases, **fields)


def test_a_rollout_only_grows_and_is_about_its_share() -> None:
    places = [rollout_place(7, f"activation:{number}") for number in range(10_000)]
    shares = [sum(one < percent for one in places) for percent in (0, 10, 50, 100)]
    assert shares[0] == 0
    assert 900 < shares[1] < 1_100
    assert 4_800 < shares[2] < 5_200
    assert shares[3] == 10_000
    assert rollout_place(7, "activation:1") != rollout_place(8, "activation:1")


def test_a_step_that_must_come_first_is_offered_first() -> None:
    facts = some_facts(a_known(3), a_known(4, min_from_version="3.0"), asked=Asked(app_version="1.0"))
    decision = decide(facts)
    assert decision.offered is not None
    assert decision.offered.release.version == "3.0"
    assert decision.codes == (UpdateCode.UPDATE_AVAILABLE, UpdateCode.MUST_UPDATE_FIRST)


def test_the_current_version_is_answered_though_it_was_yanked() -> None:
    yanked = a_known(2, state=ReleaseState.YANKED)
    facts = some_facts(a_known(1), yanked, a_known(3), asked=Asked(app_version="2.0"))
    offered = decide(facts).offered
    assert offered is not None
    assert offered.release.version == "3.0"
    assert (
        decide(some_facts(a_known(1), yanked, asked=Asked(app_version="2.0"))).code is UpdateCode.UP_TO_DATE
    )


@each_row(
    ("files", "platform", "arch", "expected"),
    [
        ([("windows", "x86_64"), ("windows", "aarch64")], "windows", "aarch64", 1),
        ([("windows", None), ("windows", "x86_64")], "windows", "x86_64", 1),
        ([(None, None), ("mac", None)], "mac", None, 1),
        ([(None, None), ("mac", None)], "linux", None, 0),
        ([(None, None), ("mac", None)], None, None, 0),
        ([("windows", None), ("mac", None)], None, None, None),
        ([("windows", "x86_64"), ("windows", "aarch64")], "windows", None, None),
        ([("windows", "x86_64")], None, None, 0),
        ([], "windows", None, None),
    ],
)
def test_the_file_is_that_of_the_platform(
    files: list[tuple[str | None, str | None]], platform: str | None, arch: str | None, expected: int | None
) -> None:
    made = [a_file(id=number, platform=one, arch=other) for number, (one, other) in enumerate(files)]
    assert choose_file(made, platform, arch) == (None if expected is None else made[expected])


def test_a_ticket_lasts_at_least_seven_and_at_most_fourteen_days() -> None:
    for hours in range(0, 24 * 15, 5):
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
        assert 7 * 86_400 <= ticket_end(now) - now.timestamp() <= 14 * 86_400


def shown_versions(facts: UpdateFacts) -> list[str]:
    return [one.release.version for one in list_shown(facts, decide(facts))]


def test_a_site_is_shown_what_it_is_offered_and_the_releases_before() -> None:
    asked = Asked(app_version="1.0")
    known = [a_known(number) for number in (1, 2, 3)]
    later = a_known(4, rollout=Rollout(0))
    yanked, wild = a_known(5, state=ReleaseState.YANKED), a_known(6, channel="beta")
    assert shown_versions(some_facts(*known, asked=asked)) == ["3.0", "2.0", "1.0"]
    assert shown_versions(some_facts(*known, later, yanked, wild, asked=asked)) == ["3.0", "2.0", "1.0"]
    many = [a_known(number) for number in range(1, 15)]
    assert shown_versions(some_facts(*many, asked=asked)) == [f"{number}.0" for number in range(14, 4, -1)]


def test_a_site_that_is_up_to_date_or_refused_is_shown_what_a_good_license_has() -> None:
    known = [a_known(1), a_known(2), a_known(3, channel="beta")]
    license = a_license_with({}, status=Status.DISABLED)
    up_to_date = some_facts(*known, asked=Asked(app_version="2.0"))
    assert shown_versions(up_to_date) == ["2.0", "1.0"]
    assert shown_versions(replace(up_to_date, license=license)) == ["2.0", "1.0"]
    assert shown_versions(replace(up_to_date, license=None)) == ["2.0", "1.0"]
    ended = a_license_with({"after_expiry": "older_versions"}, expires_at=NOW - 99 * DAY)
    newer = some_facts(*known[:2], asked=Asked(app_version="1.0"))
    assert shown_versions(replace(newer, license=ended)) == ["2.0", "1.0"], "a renewal brings it"


def test_a_beta_is_shown_where_it_was_asked_for_and_the_license_has_it() -> None:
    known, asked = [a_known(1), a_known(2, channel="beta")], Asked(app_version="2.0", channel="beta")
    facts = some_facts(*known, asked=asked, channels=("beta",))
    assert shown_versions(facts) == ["1.0"]
    assert shown_versions(replace(facts, license=a_license_with({"channels": ["beta"]}))) == ["2.0", "1.0"]


def test_a_site_is_shown_nothing_for_a_wrong_key_or_product_and_where_it_is_to_stay() -> None:
    facts = some_facts(a_known(1), a_known(2), asked=Asked(app_version="1.0"))
    hidden = [
        replace(facts, is_key_unknown=True, license=None),
        replace(facts, updates=Updates.CLOSED),
        replace(facts, is_other_product=True),
        replace(facts, is_key_rotated=True),
    ]
    assert [shown_versions(one) for one in hidden] == [[], [], [], []]
    old = Asked(app_version="1.0", php_version="7.4")
    assert shown_versions(some_facts(a_known(1), a_known(2, requires={"php": "8"}), asked=old)) == []


def test_update_tokens_end_with_the_key_and_when_the_license_is_disabled() -> None:
    license = a_license_with({})
    disabled = replace(license, status=Status.DISABLED)
    assert ends_tokens(license, disabled)
    assert ends_tokens(license, replace(license, key="another"))
    assert not ends_tokens(license, replace(license, status=Status.INACTIVE))
    assert not ends_tokens(disabled, disabled)
    assert not ends_tokens(disabled, license)


def test_a_code_is_its_name_and_a_check_says_nothing_unless_that_is_given() -> None:
    assert [one.value for one in UpdateCode] == [one.name.lower() for one in UpdateCode]
    facts = UpdateFacts(now=NOW)
    switches = (facts.is_key_unknown, facts.is_other_product, facts.is_key_rotated, facts.is_device_named)
    assert [one is False for one in (*switches, facts.needs_place, Asked().by_hand)] == [True] * 6


def test_words_of_platforms_and_processors_mean_the_same() -> None:
    words = {
        "macos": "darwin mac osx macos",
        "windows": "win win32 win64 windows",
        "x86_64": "amd64 x64 x86_64",
        "x86": "i386 i686 ia32 x86",
        "ios": "iphone ipad ios",
        "arm64": "aarch64 arm64",
        "linux": "linux",
    }
    found = {usual: {to_usual_word(one) for one in some.split()} for usual, some in words.items()}
    assert found == {usual: {usual} for usual in words}


def test_what_a_release_needs_is_said_with_its_version() -> None:
    needs = {"os": "12", "php": "8.1", "wp": "6.5", "linux": "5"}
    asked = Asked(os_version="11", php_version="8.0", wp_version="6.4")
    known = a_known(1, requires=needs)

    def unmet(asked: Asked) -> list[str]:
        rules = explain(some_facts(known, asked=asked), known)
        return [one.detail for one in rules if one.code is UpdateCode.REQUIREMENTS_NOT_MET and not one.passed]

    assert unmet(asked) == ["It requires os 12. It requires php 8.1. It requires wp 6.5."]
    assert unmet(Asked(platform="linux", os_version="4")) == ["It requires os 12. It requires linux 5."]
    assert unmet(Asked(os_version="12", php_version="8.1", wp_version="6.5")) == []
