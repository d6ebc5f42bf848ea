"""Who may have which release: the gate against a model that is written otherwise."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keywright.licensing.licenses.model import License, Status
from keywright.licensing.terms.model import AfterExpiry, DeviceRule
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
    choose_file,
    decide,
    explain,
    may_download,
    rollout_place,
    ticket_end,
)
from keywright.licensing.updates.store import order_releases
from keywright.licensing.updates.versions import VersionScheme, version_key
from tests.makers import NOW, a_license_with, an_activation
from tests.proving import size
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


known_releases = st.lists(
    st.fixed_dictionaries(
        {
            "state": st.sampled_from([ReleaseState.PUBLISHED, ReleaseState.PUBLISHED, ReleaseState.YANKED]),
            "channel": st.sampled_from(CHANNELS),
            "entitlements": st.sampled_from([[], [], ["pro"]]),
            "is_free_for_expired": st.booleans(),
            "is_critical": st.sampled_from([False, False, True]),
            "rollout": st.sampled_from([100, 100, 50, 0]).map(Rollout),
            "min_from_version": st.sampled_from([None, None, "3.0"]),
            "requires": st.sampled_from([{}, {}, {"os": "12"}, {"php": "8"}]),
            "platforms": st.sampled_from([(None,), ("windows",), ("windows", "mac"), ()]),
        }
    ),
    max_size=7,
).map(
    lambda all_of: order_releases(
        a_known(number, **dict[str, Any](one)) for number, one in enumerate(all_of, 1)
    )
)
a_licensed = st.builds(
    lambda status, expires, after, grace, device, channels, entitlements: a_license_with(
        {
            "after_expiry": after,
            "grace_days": grace,
            "device": device,
            "channels": channels,
            "entitlements": entitlements,
        },
        status=status,
        expires_at=expires,
    ),
    st.sampled_from([Status.ACTIVE, Status.ACTIVE, Status.SOLD, Status.INACTIVE, Status.DISABLED]),
    st.none() | st.integers(1, 105).map(lambda day: NOW + (day - 100) * DAY),
    st.sampled_from([one.value for one in AfterExpiry]),
    st.sampled_from([0, 0, 5, 200]),
    st.sampled_from([one.value for one in DeviceRule]),
    st.sampled_from([["stable"], ["beta"], ["nightly"], []]),
    st.sampled_from([[], ["pro"]]),
)
any_facts = st.builds(
    UpdateFacts,
    now=st.just(NOW),
    updates=st.sampled_from([Updates.LICENSED, Updates.LICENSED, Updates.OPEN, Updates.CLOSED]),
    channels=st.just(CHANNELS[1:]),
    releases=known_releases,
    license=st.none() | a_licensed,
    is_key_rotated=st.sampled_from([False, False, True]),
    is_device_named=st.booleans(),
    activation=st.sampled_from([None, an_activation(), an_activation(deactivated_at=NOW)]),
    asked=st.builds(
        Asked,
        app_version=st.sampled_from([None, "0.1", "1.0", "2.0", "3.0", "99", "?"]),
        platform=st.sampled_from([None, "windows", "mac", "linux"]),
        channel=st.sampled_from([*CHANNELS, "unknown"]),
        os_version=st.sampled_from([None, "11.9", "12"]),
        php_version=st.sampled_from([None, "7.4"]),
        by_hand=st.booleans(),
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


@settings(max_examples=size(1_000, 100_000))
@given(any_facts)
def test_what_is_offered_is_the_newest_that_is_covered(facts: UpdateFacts) -> None:
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
