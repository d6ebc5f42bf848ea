"""Automatic replacement on full licenses: a new device takes the place of an unseen or a chosen device, but
never before the answers signed for that device have expired.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from msgspec import to_builtins
from sqlalchemy import select

from keywright.core.command import Context
from keywright.core.errors import LimitReached, NoRemovalLeft, TooManyNewDevices
from keywright.db import Storage
from keywright.db.rows import to_seconds
from keywright.db.schema import events, licenses
from keywright.engine.executor import Executor
from keywright.licensing.activations.device_handlers import check_device
from keywright.licensing.activations.model import (
    ActivateDevice,
    Device,
    DevicePlace,
    KeepOffline,
    PlaceChange,
    SaveLastSeen,
)
from keywright.licensing.activations.records import MAX_HOLDERS, list_holders
from keywright.licensing.licenses.store import find_licenses
from keywright.licensing.validation import Code, ValidateLicense
from keywright.registry import open_executor
from tests.jobs import decide
from tests.makers import KEY, NOW, activate, an_origin, create, deactivate_all, set_terms, update
from tests.storage.conftest import ISOLATED, Opener

DATABASES = ("sqlite", *ISOLATED)
A_DAY = timedelta(days=1)
HEALING = {"max_activations": 2, "when_full": "replace_unseen", "unseen_days": 90, "offline_days": 14}
CHOOSING = {"max_activations": 2, "devices_visible": True, "portal_removals": {"count": 1, "per_days": 30}}


def on(fingerprint: str, day: float = 0, **fields: Any) -> ActivateDevice:
    """An activation this many days after the first one."""
    device = Device(fingerprint, name=fingerprint.title())
    context = Context(NOW + day * A_DAY, an_origin())
    return ActivateDevice(context=context, license=KEY, device=device, **fields)


def see(executor: Executor, number: int, day: float) -> None:
    at = to_seconds(NOW + day * A_DAY)
    decide(executor, SaveLastSeen(context=Context(NOW, an_origin()), seen={(1, number): at}))


def fill(executor: Executor, terms: dict[str, Any], **fields: Any) -> list[DevicePlace]:
    """Create license 1 with these terms, and devices 1 and 2."""
    decide(executor, create(KEY))
    decide(executor, set_terms(terms))
    return [decide(executor, on(name, **fields)) for name in ("laptop", "desktop")]


def happens(executor: Executor, day: float) -> None:
    """Record another event, so that the newest event proves that it is at least this late."""
    decide(executor, create(f"another-{day}", now=NOW + day * A_DAY))


def outcome(executor: Executor, command: ActivateDevice) -> Any:
    """The name of the replaced device, None for none, or the class of the refusal."""
    before = validity(executor, command.context.now)
    [found] = executor.execute([command])
    if isinstance(found, Exception):
        return type(found)
    after = validity(executor, command.context.now)
    gone = [name for name, code in before.items() if code is Code.VALID and after[name] is not Code.VALID]
    return gone[0] if gone else None


def come(executor: Executor, fingerprint: str, day: float) -> Any:
    """The ``outcome`` for a new device on a day with another event."""
    happens(executor, day)
    return outcome(executor, on(fingerprint, day))


def validity(executor: Executor, now: datetime) -> dict[str, Code]:
    names = ("laptop", "desktop", "tablet", "phone")
    asked = [ValidateLicense(key=KEY, now=now, fingerprint=name) for name in names]
    return {name: one.findings.code for name, one in zip(names, executor.query(asked), strict=True)}


def last_event(storage: Storage) -> tuple[str, int, Any]:
    query = select(events.c.name, events.c.activation_id, events.c.details).order_by(events.c.id.desc())
    with storage.read() as tx:
        row = tx.connection.execute(query.limit(1)).one()
    return row.name, row.activation_id, json.loads(row.details)


@pytest.mark.smoke
def test_a_new_device_takes_the_place_of_the_one_unseen_the_longest(
    executor: Executor, storage: Storage
) -> None:
    fill(executor, HEALING)
    see(executor, 1, 3)
    see(executor, 2, 2)
    happens(executor, 92)
    assert outcome(executor, on("tablet", 91.9)) is LimitReached
    assert outcome(executor, on("tablet", 92)) == "desktop"
    name, number, details = last_event(storage)
    assert (name, number, details["replaced"]) == ("license.device_replaced", 3, 2)
    assert details["name"] == ["Desktop", "Tablet"]
    assert (details["activation_count"], details["max_activations"]) == (2, 2)
    assert validity(executor, NOW)["desktop"] is Code.NOT_ACTIVATED
    # A returning device is subject to the same rule, and gets its record back.
    happens(executor, 93)
    [back] = executor.execute([on("desktop", 93)])
    assert (back.change, back.activation.id, back.view.license.times_activated) == (
        PlaceChange.TAKEN_BACK,
        2,
        2,
    )
    assert validity(executor, NOW)["laptop"] is Code.NOT_ACTIVATED


def test_nobody_is_replaced_who_may_still_run_or_is_not_known(executor: Executor) -> None:
    """Not if an answer is signed until then, it was never seen over v3, was seen since, or terms changed
    recently.
    """
    [_, desktop] = fill(executor, HEALING | {"offline_days": 200}, is_signed=True)
    assert come(executor, "tablet", 100) is LimitReached
    assert come(executor, "tablet", 200.9) is LimitReached
    assert come(executor, "tablet", 201) == "laptop"
    # An answer signed for it now postpones its replacement again, from the next moment on.
    late = NOW + 201 * A_DAY
    kept = KeepOffline(
        context=Context(late, an_origin()),
        license=1,
        token=desktop.activation.token,
        ends_at=late + 30 * A_DAY,
    )
    assert decide(executor, kept).offline_until == late + 31 * A_DAY
    assert come(executor, "phone", 231) is LimitReached
    assert come(executor, "phone", 232) == "desktop"
    assert decide(executor, kept) is None


def test_a_device_of_v2_is_replaced_only_once_it_was_seen_over_v3(executor: Executor) -> None:
    decide(executor, create(KEY))
    decide(executor, set_terms(HEALING | {"max_activations": 1}))
    [token] = [decide(executor, activate(KEY)).activations[0].token]
    see(executor, 1, 0)
    assert come(executor, "tablet", 400) is LimitReached
    context = Context(NOW + 400 * A_DAY, an_origin())
    decide(executor, KeepOffline(context=context, license=1, token=token, ends_at=None))
    happens(executor, 414)
    assert outcome(executor, on("tablet", 413)) is LimitReached
    [moved] = executor.execute([on("tablet", 414)])
    assert moved.view.license.times_activated == 1


def test_nobody_is_replaced_before_the_terms_have_said_so_for_as_long(executor: Executor) -> None:
    fill(executor, {"max_activations": 2})
    assert come(executor, "tablet", 300) is LimitReached
    decide(executor, set_terms(HEALING, now=NOW + 300 * A_DAY))
    happens(executor, 390)
    assert outcome(executor, on("tablet", 389)) is LimitReached
    decide(executor, set_terms(HEALING | {"unseen_days": 60}, now=NOW + 389 * A_DAY))
    assert outcome(executor, on("tablet", 390)) is LimitReached
    happens(executor, 449)
    assert outcome(executor, on("tablet", 448)) is LimitReached
    assert outcome(executor, on("tablet", 449)) == "laptop"
    # A change of another term does not restart the period.
    decide(executor, set_terms(HEALING | {"unseen_days": 60, "grace_days": 3}, now=NOW + 449 * A_DAY))
    assert outcome(executor, on("phone", 449)) == "desktop"


def test_a_clock_that_is_ahead_makes_no_device_unseen(executor: Executor) -> None:
    fill(executor, HEALING)
    assert outcome(executor, on("tablet", 400)) is LimitReached
    happens(executor, 91)
    assert outcome(executor, on("tablet", 400)) == "laptop"


def test_a_limit_that_was_lowered_and_new_devices_that_are_bounded_stay_so(executor: Executor) -> None:
    fill(executor, HEALING)
    decide(executor, update(KEY, times_activated_max=1, now=NOW))
    assert come(executor, "tablet", 91) is LimitReached
    bounded = HEALING | {"new_devices": {"count": 1, "per_days": 30}}
    decide(executor, set_terms(bounded, now=NOW))
    happens(executor, 92)
    assert outcome(executor, on("tablet", 91)) == "laptop"
    assert outcome(executor, on("phone", 91)) is TooManyNewDevices
    assert list(validity(executor, NOW).values()).count(Code.VALID) == 2


def test_devices_of_one_batch_replace_as_many_as_are_unseen(executor: Executor, storage: Storage) -> None:
    fill(executor, HEALING)
    happens(executor, 91)
    names = ("tablet", "phone", "watch", "server")
    outcomes = executor.execute([on(name, 91) for name in names])
    assert [type(one) for one in outcomes] == [DevicePlace, DevicePlace, LimitReached, LimitReached]
    # Devices deactivated in the same batch have no place to replace.
    outcomes = executor.execute([deactivate_all(KEY), *(on(name, 200) for name in names)])
    assert [type(one) for one in outcomes[1:]] == [DevicePlace, DevicePlace, LimitReached, LimitReached]
    with storage.read() as tx:
        assert find_licenses(tx, [KEY])[KEY].times_activated == 2


def test_servers_together_replace_each_device_once(executor: Executor, open_again: Opener) -> None:
    fill(executor, HEALING)
    happens(executor, 91)
    start = Barrier(6)

    def come(number: int) -> Any:
        server = open_executor(open_again())
        start.wait()
        return server.execute([on(f"new-{number}", 91)])[0]

    with ThreadPoolExecutor(6) as threads:
        found = [type(one) for one in threads.map(come, range(6))]
    assert (found.count(DevicePlace), found.count(LimitReached)) == (2, 4)


def test_support_sees_what_a_new_device_would_meet(executor: Executor, storage: Storage) -> None:
    fill(executor, HEALING)
    happens(executor, 91)
    with storage.read() as tx:
        license = find_licenses(tx, [KEY])[KEY]
        assert isinstance(check_device(tx, license, None, NOW + 80 * A_DAY), LimitReached)
        assert check_device(tx, license, None, NOW + 91 * A_DAY) is PlaceChange.NEW
        assert tx.connection.execute(select(licenses.c.times_activated)).scalars().first() == 2


# --- choosing -----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_chosen_device_gives_its_place_as_often_as_customers_may_remove(
    executor: Executor, storage: Storage
) -> None:
    fill(executor, CHOOSING, is_signed=True)
    see(executor, 1, 0.5)
    [refused] = executor.execute([on("tablet", 1)])
    until = NOW + 15 * A_DAY
    assert [tuple(one.values()) for one in refused.devices] == [
        (2, "Desktop", None, NOW, until),
        (1, "Laptop", None, NOW + A_DAY / 2, until),
    ]
    assert list(refused.devices[0]) == ["id", "name", "platform", "last_seen_at", "offline_until"]
    [chosen] = executor.execute([on("tablet", 1, remove=1)])
    assert (chosen.change, chosen.removed.id, chosen.removed.runs_until) == (PlaceChange.NEW, 1, until)
    name, number, details = last_event(storage)
    assert (name, number, details["replaced"]) == ("license.device_replaced", 3, 1)
    assert details["is_chosen"]
    assert details["offline_until"] == to_builtins(until)
    # Repeating the call removes nothing more; another removal is refused until the days are over.
    [again] = executor.execute([on("tablet", 1, remove=2)])
    assert (again.change, again.removed) == (PlaceChange.KEPT, None)
    [bound] = executor.execute([on("phone", 2, remove=2)])
    assert (type(bound), bound.retry_after_seconds) == (NoRemovalLeft, 29 * 86_400)
    assert validity(executor, NOW)["desktop"] is Code.VALID
    assert outcome(executor, on("phone", 31, remove=2)) == "desktop"


def test_a_choice_counts_only_where_the_terms_let_programs_choose_and_it_holds_a_place(
    executor: Executor,
) -> None:
    fill(executor, {"max_activations": 2, "portal_removals": {"count": 9, "per_days": 30}})
    [refused] = executor.execute([on("tablet", remove=1)])
    assert (type(refused), refused.devices) == (LimitReached, None)
    decide(executor, set_terms(CHOOSING))
    for unknown in (3, 99):
        [refused] = executor.execute([on("tablet", remove=unknown)])
        assert [one["id"] for one in refused.devices] == [1, 2]
    decide(executor, set_terms(CHOOSING | {"portal_removals": {"count": 0, "per_days": 1}}))
    [refused] = executor.execute([on("tablet", remove=1)])
    assert (type(refused), refused.retry_after_seconds) == (NoRemovalLeft, None)
    # If a place is free, nothing is removed.
    decide(executor, set_terms(CHOOSING | {"max_activations": 3}))
    assert outcome(executor, on("tablet", remove=1)) is None


def test_of_very_many_devices_some_are_named_and_looked_at(executor: Executor, storage: Storage) -> None:
    """The cost of a refusal does not depend on their number; random samples find each of them eventually."""
    many = MAX_HOLDERS + 20
    decide(executor, create(KEY))
    decide(executor, set_terms(CHOOSING | HEALING | {"max_activations": many}))
    executor.execute([on(f"device-{number}") for number in range(many)])
    [refused] = executor.execute([on("tablet", 1)])
    assert (len(refused.devices), refused.activations) == (100, many)
    with storage.read() as tx:
        license = find_licenses(tx, [KEY])[KEY]
        looks = [list_holders(tx, license, {}) for _ in range(9)]
    assert max(map(len, looks)) <= MAX_HOLDERS
    assert len({one.activation.id for some in looks for one in some}) > max(map(len, looks))
