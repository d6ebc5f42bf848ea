"""What one call of a device does to the places of a license; the sequences are in test_terms_over_time.py."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from keywright.core.errors import (
    FingerprintRequired,
    LicenseExpired,
    LimitReached,
    TooManyNewDevices,
    UnknownDevice,
)
from keywright.licensing.activations.devices import (
    activate_device,
    deactivate_device,
    describe,
    find_own,
    find_unseen,
    keep_offline,
)
from keywright.licensing.activations.model import (
    Activation,
    Device,
    Holder,
    KnownRecords,
    PlaceChange,
    Placement,
    SeenDevice,
)
from keywright.licensing.licenses.model import License
from keywright.licensing.terms.model import Terms, WhenFull
from tests.makers import KEY, LATER, NOW, a_deactivated_activation, a_license, a_license_with, an_activation
from tests.tables import each_row

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
LAPTOP = Device("laptop-1")
FULL = a_license(times_activated=1, times_activated_max=1)
ON_LAPTOP = an_activation(fingerprint="laptop-1")
ON_DESKTOP = an_activation(id=2, token="d" * 40, fingerprint="desktop")
OVER_V2 = an_activation(id=3, token="f" * 40)
ONCE_ON_LAPTOP = a_deactivated_activation(fingerprint="laptop-1")
TWO_NEW_DEVICES = {"new_devices": {"count": 2, "per_days": 30}}


def activate(
    license: License,
    device: Device = LAPTOP,
    own: Activation | None = None,
    replaced: Activation | None = None,
    **fields: Any,
) -> Placement:
    defaults: dict[str, Any] = {"built_at": None, "now": LATER}
    return activate_device(license, device, KnownRecords(own, replaced), **defaults | fields)


def seen(*days: int) -> list[SeenDevice]:
    """New devices of so many days ago."""
    return [SeenDevice(LATER - number * DAY, f"device-{number}") for number in days]


def test_a_device_without_a_record_takes_a_new_place() -> None:
    taken = a_license(times_activated=1, updated_at=LATER)
    assert activate(a_license()) == Placement(taken, PlaceChange.NEW)


def test_the_first_place_starts_the_days_of_a_license() -> None:
    assert activate(a_license(valid_for_days=1)).license.expires_at == LATER + DAY


def test_a_device_that_has_its_place_keeps_it_also_when_all_are_taken() -> None:
    assert activate(FULL, own=ON_LAPTOP) == Placement(FULL, PlaceChange.KEPT, ON_LAPTOP)


def test_a_device_that_has_its_place_may_say_something_new() -> None:
    named = an_activation(fingerprint="laptop-1", label="Work", updated_at=LATER)
    assert activate(FULL, Device("laptop-1", name="Work"), ON_LAPTOP).activation == named
    moved = activate(FULL, Device("laptop-1", name="Work"), ONCE_ON_LAPTOP, ON_DESKTOP)
    assert moved.activation == named


def test_a_device_that_says_nothing_new_leaves_its_record_as_it_is() -> None:
    record = an_activation(fingerprint="laptop-1", label="Laptop", meta_data={"a": "b"})
    device = Device("laptop-1", name="Laptop", metadata={"a": "b"})
    assert activate(FULL, device, record).activation is record


def test_what_a_device_says_is_kept_and_what_it_does_not_say_stays() -> None:
    record = an_activation(label="Laptop", platform="linux", app_version="1", meta_data={"a": "b"})
    assert describe(record, Device(name="Work", app_version="2"), LATER) == an_activation(
        label="Work", platform="linux", app_version="2", meta_data={"a": "b"}, updated_at=LATER
    )
    assert describe(record, Device(platform="macos", metadata={}), LATER) == an_activation(
        label="Laptop", platform="macos", app_version="1", meta_data={}, updated_at=LATER
    )


def test_a_record_of_v2_is_given_the_fingerprint_and_no_record_another_one() -> None:
    assert describe(an_activation(), LAPTOP, LATER) == an_activation(fingerprint="laptop-1", updated_at=LATER)
    assert describe(ON_DESKTOP, LAPTOP, LATER) is ON_DESKTOP


def test_a_place_that_was_given_up_is_taken_back() -> None:
    license = a_license(times_activated=1, times_activated_max=2, deactivated_count=1)
    placement = activate(license, Device("laptop-1", name="Work"), ONCE_ON_LAPTOP)
    assert placement == Placement(
        a_license(times_activated=2, times_activated_max=2, deactivated_count=0, updated_at=LATER),
        PlaceChange.TAKEN_BACK,
        an_activation(fingerprint="laptop-1", label="Work", updated_at=LATER),
    )


@pytest.mark.parametrize("own", [None, ONCE_ON_LAPTOP])
def test_without_a_free_place_none_is_taken(own: Activation | None) -> None:
    with pytest.raises(LimitReached) as refusal:
        activate(FULL, own=own)
    assert (refusal.value.key, refusal.value.limit, refusal.value.activations) == (KEY, 1, 1)
    assert refusal.value.problem_members() == {"limit": 1, "activations": 1}


@pytest.mark.parametrize("own", [None, ONCE_ON_LAPTOP, ON_LAPTOP])
def test_an_expired_license_has_no_place_for_any_device(own: Activation | None) -> None:
    with pytest.raises(LicenseExpired):
        activate(a_license(expires_at=LATER), own=own)


def test_a_license_that_covers_older_builds_has_a_place_for_them() -> None:
    license = a_license_with({"after_expiry": "older_versions"}, expires_at=NOW)
    assert activate(license, built_at=NOW - SECOND).change is PlaceChange.NEW
    with pytest.raises(LicenseExpired):
        activate(license)


@pytest.mark.parametrize("own", [None, an_activation(), a_deactivated_activation()])
def test_where_the_terms_want_a_device_it_must_be_named(own: Activation | None) -> None:
    license = a_license_with({"device": "required"})
    with pytest.raises(FingerprintRequired):
        activate(license, Device(), own)
    assert activate(license, LAPTOP, own).license.times_activated in (0, 1)
    assert activate(license, Device(), ON_LAPTOP).change is PlaceChange.KEPT
    assert activate(a_license(), Device(), own).change


def test_the_place_of_a_replaced_device_moves_without_a_free_one() -> None:
    placement = activate(FULL, Device("laptop-1", name="New"), replaced=ON_DESKTOP)
    moved = an_activation(id=2, token="d" * 40, fingerprint="laptop-1", label="New", updated_at=LATER)
    assert placement == Placement(FULL, PlaceChange.MOVED, moved)


def test_a_place_moves_to_a_record_that_the_device_has_from_before() -> None:
    license = a_license(times_activated=1, times_activated_max=1, deactivated_count=1)
    placement = activate(license, own=ONCE_ON_LAPTOP, replaced=ON_DESKTOP)
    assert placement == Placement(
        a_license(times_activated=1, times_activated_max=1, deactivated_count=1, updated_at=LATER),
        PlaceChange.MOVED,
        an_activation(fingerprint="laptop-1", updated_at=LATER),
        an_activation(id=2, token="d" * 40, fingerprint="desktop", deactivated_at=LATER, updated_at=LATER),
    )


def test_a_device_with_a_place_gives_up_that_of_the_device_it_replaces() -> None:
    license = a_license(times_activated=2, times_activated_max=2)
    placement = activate(license, own=ON_LAPTOP, replaced=ON_DESKTOP)
    assert (placement.change, placement.activation) == (PlaceChange.KEPT, ON_LAPTOP)
    assert placement.license.times_activated == 1
    assert placement.license.deactivated_count == 1
    assert placement.released is not None
    assert (placement.released.fingerprint, placement.released.deactivated_at) == ("desktop", LATER)


@pytest.mark.parametrize(
    ("device", "own", "replaced"),
    [
        (LAPTOP, None, a_deactivated_activation(fingerprint="desktop")),
        (LAPTOP, ONCE_ON_LAPTOP, a_deactivated_activation(fingerprint="desktop")),
        (Device(), None, ON_DESKTOP),
    ],
)
def test_what_holds_no_place_or_is_no_other_device_s_does_not_move(
    device: Device, own: Activation | None, replaced: Activation
) -> None:
    with pytest.raises(LimitReached):
        activate(FULL, device, own, replaced)


def test_a_device_does_not_replace_itself() -> None:
    assert activate(FULL, own=ON_LAPTOP, replaced=ON_LAPTOP) == Placement(FULL, PlaceChange.KEPT, ON_LAPTOP)


def test_new_devices_are_counted_where_the_terms_limit_them() -> None:
    assert activate(a_license_with(TWO_NEW_DEVICES)).is_new_device
    assert activate(a_license_with(TWO_NEW_DEVICES), replaced=ON_DESKTOP).is_new_device
    assert activate(a_license_with(TWO_NEW_DEVICES), Device()).is_new_device
    assert not activate(a_license()).is_new_device
    assert not activate(a_license_with(TWO_NEW_DEVICES), own=ONCE_ON_LAPTOP, seen=seen(1, 2)).is_new_device


@pytest.mark.parametrize("replaced", [None, ON_DESKTOP])
def test_no_more_new_devices_come_than_the_terms_allow(replaced: Activation | None) -> None:
    license = a_license_with(TWO_NEW_DEVICES)
    with pytest.raises(TooManyNewDevices) as refusal:
        activate(license, replaced=replaced, seen=seen(2, 1))
    assert (refusal.value.count, refusal.value.per_days) == (2, 30)
    assert refusal.value.problem_members() == {"retry_after_seconds": 28 * 86_400}
    assert refusal.value.fill("{days}") == "30 days"


@pytest.mark.parametrize(
    ("days", "wait"), [((1, 2, 3, 4), 28), ((29, 1), 1), ((40, 31, 29, 1), 1), ((5, 9, 7), 23)]
)
def test_a_refused_device_is_told_when_one_may_come(days: tuple[int, ...], wait: int) -> None:
    """After that, fewer of them are in the days that count than the terms allow."""
    license = a_license_with(TWO_NEW_DEVICES)
    with pytest.raises(TooManyNewDevices) as refusal:
        activate(license, seen=seen(*days))
    seconds = refusal.value.retry_after_seconds
    assert seconds == wait * 86_400
    then = LATER + timedelta(seconds=seconds)
    assert activate(license, seen=seen(*days), now=then).is_new_device
    with pytest.raises(TooManyNewDevices):
        activate(license, seen=seen(*days), now=then - SECOND)


def test_a_clock_that_went_back_gives_a_second_at_least() -> None:
    ahead = [SeenDevice(LATER, "a"), SeenDevice(LATER - 30 * DAY + SECOND / 2, "b")]
    with pytest.raises(TooManyNewDevices) as refusal:
        activate(a_license_with(TWO_NEW_DEVICES), seen=ahead)
    assert refusal.value.retry_after_seconds == 1


def test_a_device_that_was_new_of_late_is_not_new_again() -> None:
    license = a_license_with(TWO_NEW_DEVICES)
    assert activate(license, Device("device-1"), seen=seen(1, 2)).is_new_device is False
    assert activate(license, Device("device-30"), seen=seen(30)).is_new_device


def test_the_limit_is_looked_at_before_the_new_devices() -> None:
    license = a_license_with(TWO_NEW_DEVICES, times_activated=1, times_activated_max=1)
    with pytest.raises(LimitReached):
        activate(license, seen=seen(1, 2))


@pytest.mark.parametrize("license", [FULL, a_license(times_activated=1, expires_at=datetime.min)])
def test_a_device_gives_up_its_place_at_any_time(license: License) -> None:
    after, record, was_active = deactivate_device(license, ON_LAPTOP, LATER)
    assert (after.times_activated, after.deactivated_count, was_active) == (0, 1, True)
    assert record == an_activation(fingerprint="laptop-1", deactivated_at=LATER, updated_at=LATER)


def test_a_place_that_was_given_up_can_be_given_up_again_and_nothing_changes() -> None:
    assert deactivate_device(FULL, ONCE_ON_LAPTOP, LATER) == (FULL, ONCE_ON_LAPTOP, False)


def test_a_device_that_never_had_a_place_cannot_give_it_up() -> None:
    with pytest.raises(UnknownDevice):
        deactivate_device(FULL, None, LATER)


@each_row(
    ("fingerprint", "token", "found"),
    [
        ("laptop-1", None, ON_LAPTOP),
        ("laptop-1", "d" * 40, ON_LAPTOP),
        (None, "d" * 40, ON_DESKTOP),
        ("desktop", "d" * 40, ON_DESKTOP),
        ("another", "d" * 40, None),
        ("another", OVER_V2.token, OVER_V2),
        ("another", None, None),
        (None, "e" * 40, None),
        (None, None, None),
    ],
)
def test_a_device_is_known_by_its_fingerprint_or_by_a_token_of_no_other(
    fingerprint: str | None, token: str | None, found: Activation | None
) -> None:
    assert find_own([ON_DESKTOP, OVER_V2, ON_LAPTOP], fingerprint, token) is found


HEALING = Terms(when_full=WhenFull.REPLACE_UNSEEN, unseen_days=90)


def test_what_is_recorded_is_never_earlier_than_what_is_signed_and_seldom_written() -> None:
    until = LATER + 14 * DAY
    rows: list[tuple[datetime | None, Terms, datetime | None, datetime | None]] = [
        # Recorded, terms, signed until; recorded then.
        (NOW, Terms(), None, NOW),
        (NOW, Terms(), until, until + DAY),
        (until, Terms(), until, until),
        (until - SECOND, Terms(), until, until + DAY),
        (until + DAY, Terms(), until, until + DAY),
        (None, Terms(), None, until),
        (None, Terms(offline_days=3), until, until + DAY),
        (None, Terms(offline_days=30), until, LATER + 30 * DAY),
        (NOW, HEALING, None, LATER + DAY),
        (LATER, HEALING, None, LATER),
    ]
    wrong = []
    for known, terms, signed, expected in rows:
        before = an_activation(offline_until=known)
        after = keep_offline(before, terms, signed, LATER)
        if after.offline_until != expected or (after == before) != (after is before):
            wrong.append((known, terms, signed, after.offline_until))
    assert wrong == []


def test_a_device_that_asks_every_hour_is_written_once_a_day() -> None:
    device, written = an_activation(offline_until=NOW), []
    for hour in range(24 * 30):
        now = NOW + hour * DAY / 24
        after = keep_offline(device, Terms(), now + 14 * DAY, now)
        if after is not device:
            written.append(now)
        device = after
        assert device.offline_until is not None
        assert now + 14 * DAY <= device.offline_until
    assert min(later - one for one, later in pairwise(written)) > DAY


def test_a_full_license_gives_a_new_device_the_place_of_the_one_unseen_the_longest() -> None:
    def holder(id: int, days: int, **fields: Any) -> Holder:
        fields = {"id": id, "offline_until": LATER - days * DAY, **fields}
        return Holder(an_activation(**fields), LATER - days * DAY)

    old, older, same_age = holder(1, 90), holder(3, 91), holder(2, 91)
    rows: list[tuple[Terms, list[Holder], datetime | None, int | None]] = [
        # Terms, devices with a place, since when the terms say so; the device that is replaced.
        (HEALING, [old, older], None, 3),
        (HEALING, [old, older, same_age], None, 2),
        (HEALING, [holder(1, 89)], None, None),
        (HEALING, [], None, None),
        (HEALING, [holder(1, 99, offline_until=LATER)], None, 1),
        (HEALING, [holder(1, 99, offline_until=LATER + SECOND)], None, None),
        (HEALING, [holder(1, 99, offline_until=None)], None, None),
        (HEALING, [old], LATER - 90 * DAY, 1),
        (HEALING, [old], LATER - 90 * DAY + SECOND, None),
        (Terms(unseen_days=90), [old], None, None),
    ]
    wrong = []
    for terms, holders, changed_at, expected in rows:
        found = find_unseen(terms, holders, changed_at=changed_at, now=LATER)
        if (found and found.id) != expected:
            wrong.append((terms, holders, changed_at, found))
    assert wrong == []


def test_on_a_full_license_a_new_device_takes_the_place_of_the_one_that_is_found() -> None:
    placed = activate(FULL, Device("desktop"), find_room=lambda: ON_LAPTOP)
    assert (placed.change, placed.license.times_activated) == (PlaceChange.NEW, 1)
    assert placed.released is not None
    assert (placed.released.id, placed.released.deactivated_at) == (ON_LAPTOP.id, LATER)
    with pytest.raises(LimitReached):
        activate(FULL, Device("desktop"), find_room=lambda: None)
    lowered = a_license(times_activated=2, times_activated_max=1)
    with pytest.raises(LimitReached):
        activate(lowered, Device("desktop"), find_room=lambda: ON_LAPTOP)
