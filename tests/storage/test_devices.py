"""Devices in the database: one place per fingerprint, new devices, and last-seen times."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from keywright.core.errors import KeyRotated, LimitReached, OtherProductKey, TooManyNewDevices, UnknownLicense
from keywright.db import Storage
from keywright.db.schema import activations, last_seen, new_devices, products, rotated_keys
from keywright.engine.executor import Executor
from keywright.licensing.activations import store
from keywright.licensing.activations.model import (
    ActivateDevice,
    DeactivateDevice,
    Device,
    DevicePlace,
    PlaceChange,
    SaveLastSeen,
    SeenDevice,
)
from keywright.licensing.licenses.store import find_rotated, save_new_licenses
from keywright.licensing.validation import Code, ValidateLicense
from keywright.licensing.views_store import Names, Views
from keywright.registry import open_executor
from tests.makers import KEY, NOW, a_license_with, activate, create, deactivate_all, delete
from tests.storage.conftest import Opener

DATABASES = ("sqlite",)
LAPTOP, DESKTOP, TABLET = "laptop-1", "desktop-1", "tablet-1"
A_DAY = timedelta(days=1)


def on(fingerprint: str, key: str = KEY, **fields: Any) -> ActivateDevice:
    context = activate(key, now=fields.pop("now", NOW)).context
    return ActivateDevice(context=context, license=key, device=Device(fingerprint), **fields)


def off(fingerprint: str, key: str = KEY) -> DeactivateDevice:
    return DeactivateDevice(context=activate(key).context, license=key, device=Device(fingerprint))


def put(storage: Storage, terms: dict[str, Any], **fields: Any) -> None:
    with storage.write() as tx:
        save_new_licenses(tx, [a_license_with(terms, **{"id": 1_000} | fields)])


def changes(outcomes: Iterable[Any]) -> list[Any]:
    """The changes of places; refusals by class."""
    return [one.change if isinstance(one, DevicePlace) else type(one) for one in outcomes]


def rows_of(storage: Storage, table: Any) -> list[tuple[Any, ...]]:
    with storage.read() as tx:
        return sorted(map(tuple, tx.connection.execute(select(table)).all()))


def test_a_device_has_one_place_also_within_a_batch(executor: Executor, storage: Storage) -> None:
    executor.execute([create(KEY, limit=2)])
    outcomes = executor.execute([on(LAPTOP), on(LAPTOP), on(DESKTOP), on(TABLET)])
    new, kept = PlaceChange.NEW, PlaceChange.KEPT
    assert changes(outcomes) == [new, kept, new, LimitReached]
    assert changes(executor.execute([on(LAPTOP), on(DESKTOP)])) == [kept, kept]
    assert len(rows_of(storage, activations)) == 2


def test_a_fingerprint_that_moved_away_is_free_for_a_new_place(executor: Executor) -> None:
    executor.execute([create(KEY, limit=2), on(LAPTOP)])
    commands = [
        on(DESKTOP, replaces=LAPTOP),
        on(LAPTOP),
        on(TABLET, replaces=LAPTOP),
        off(DESKTOP),
        on(LAPTOP),
    ]
    moved, new = PlaceChange.MOVED, PlaceChange.NEW
    outcomes = executor.execute(commands)
    assert changes(outcomes[:3]) == [moved, new, moved]
    assert outcomes[3].was_active
    assert changes(outcomes[4:]) == [new]
    [found] = executor.execute([on(LAPTOP)])
    assert (found.change, found.view.license.times_activated) == (PlaceChange.KEPT, 2)


def test_fingerprints_that_go_round_in_one_batch_are_decided_in_order(executor: Executor) -> None:
    executor.execute([create(KEY), on(LAPTOP), on(DESKTOP)])
    commands = [on(TABLET, replaces=LAPTOP), on(LAPTOP, replaces=DESKTOP), on(DESKTOP, replaces=TABLET)]
    assert changes(executor.execute(commands)) == [PlaceChange.MOVED] * 3
    outcomes = executor.execute([on(LAPTOP), on(DESKTOP), on(TABLET)])
    assert changes(outcomes) == [PlaceChange.KEPT, PlaceChange.KEPT, PlaceChange.NEW]


def test_places_that_are_all_given_up_are_taken_back_in_one_batch(executor: Executor) -> None:
    executor.execute([create(KEY, limit=1), on(LAPTOP)])
    _, back, refused = executor.execute([deactivate_all(KEY), on(LAPTOP), on(DESKTOP)])
    assert changes([back, refused]) == [PlaceChange.TAKEN_BACK, LimitReached]


def test_a_device_of_a_license_that_the_batch_makes_gets_its_place(executor: Executor) -> None:
    outcomes = executor.execute(
        [create(KEY), on(LAPTOP, product="editor"), on(LAPTOP), delete(KEY), on(LAPTOP)]
    )
    assert changes(outcomes[2:3]) == [PlaceChange.NEW]
    assert isinstance(outcomes[4], UnknownLicense)


def test_servers_give_a_device_one_place(executor: Executor, open_again: Opener) -> None:
    executor.execute([create(KEY, limit=5)])
    other = open_executor(open_again())
    for _ in range(3):
        executor.execute([on(LAPTOP)])
        other.execute([on(LAPTOP)])
    [one] = executor.query([ValidateLicense(key=KEY, now=NOW, fingerprint=LAPTOP)])
    assert (one.findings.code, one.view.license.times_activated) == (Code.VALID, 1)


@pytest.mark.smoke
def test_a_batch_of_validations_finds_each_device(executor: Executor) -> None:
    executor.execute([create(key) for key in ("a", "b")])
    of_a, of_b = executor.execute([on(LAPTOP, "a"), on(DESKTOP, "b")])
    [over_v2] = executor.execute([activate("a")])
    token = over_v2.activations[0].token
    asked: list[tuple[str, dict[str, Any], str | None]] = [
        ("a", {"fingerprint": LAPTOP}, of_a.activation.token),
        ("a", {"token": of_a.activation.token}, of_a.activation.token),
        ("a", {"fingerprint": LAPTOP, "token": token}, of_a.activation.token),
        ("a", {"fingerprint": TABLET, "token": token}, token),
        ("a", {"fingerprint": TABLET, "token": of_a.activation.token}, None),
        ("a", {"fingerprint": DESKTOP}, None),
        ("b", {"fingerprint": DESKTOP}, of_b.activation.token),
        ("b", {"token": token}, None),
        ("b", {}, None),
    ]
    found = executor.query([ValidateLicense(key=key, now=NOW, **named) for key, named, _ in asked])
    tokens = [None if one.activation is None else one.activation.token for one in found]
    assert tokens == [expected for _, _, expected in asked]
    assert [one.view.license.key for one in found] == [key for key, _, _ in asked]
    [unknown] = executor.query([ValidateLicense(key="c", now=NOW, fingerprint=LAPTOP)])
    assert unknown.findings.codes == (Code.UNKNOWN_LICENSE,)


@pytest.mark.smoke
def test_the_database_refuses_a_second_record_of_a_device(executor: Executor, storage: Storage) -> None:
    """The control of the tests above: the constraint that would catch an error."""
    executor.execute([create(KEY)])
    [place] = executor.execute([on(LAPTOP)])
    twin = store.activation_values(place.activation) | {"token": "f" * 40, "id": 999}
    with pytest.raises(Exception, match=r"(?i)unique"), storage.write() as tx:
        tx.connection.execute(insert(activations).values(**twin))


@pytest.mark.smoke
def test_new_devices_are_kept_as_long_as_the_terms_ask(executor: Executor, storage: Storage) -> None:
    put(storage, {"new_devices": {"count": 2, "per_days": 10}})
    assert changes(executor.execute([on(LAPTOP), on(DESKTOP), on(TABLET), on(LAPTOP)])) == [
        PlaceChange.NEW,
        PlaceChange.NEW,
        TooManyNewDevices,
        PlaceChange.KEPT,
    ]
    assert changes(executor.execute([on(TABLET)])) == [TooManyNewDevices]
    with storage.read() as tx:
        seen = store.list_new_devices(tx, [1_000])
    assert sorted(seen[1_000], key=str) == [SeenDevice(NOW, DESKTOP), SeenDevice(NOW, LAPTOP)]
    later = NOW + 10 * A_DAY
    assert changes(executor.execute([on(TABLET, now=later)])) == [PlaceChange.NEW]
    assert [row[2] for row in rows_of(storage, new_devices)] == [TABLET]


def test_a_replaced_key_leads_to_its_license(executor: Executor, storage: Storage) -> None:
    put(storage, {}, product_id=17)
    with storage.write() as tx:
        row = {"license_id": 1_000, "sealed_key": b"", "rotated_at": 0}
        tx.connection.execute(insert(rotated_keys).values(**row, key_hmac=tx.sealing.blind_index("OLD")))
    with storage.read() as tx:
        assert {key: one.id for key, one in find_rotated(tx, ["OLD", KEY]).items()} == {"OLD": 1_000}
    commands = [on(LAPTOP, "OLD"), on(LAPTOP, "OLD", only_product_id=18), on(LAPTOP, "NO")]
    assert changes(executor.execute(commands)) == [KeyRotated, OtherProductKey, UnknownLicense]


def see(seen: dict[tuple[int, int], int]) -> SaveLastSeen:
    return SaveLastSeen(context=activate(KEY).context, seen=seen)


def test_the_latest_time_is_kept_of_what_exists(executor: Executor, storage: Storage) -> None:
    put(storage, {})
    executor.execute([see({(1_000, 0): 200, (1_000, 5): 100, (2_000, 0): 100})])
    executor.execute([see({(1_000, 0): 100, (1_000, 5): 200})])
    assert rows_of(storage, last_seen) == [(1_000, 0, 200), (1_000, 5, 200)]
    executor.execute([delete(KEY)])
    assert rows_of(storage, last_seen) == []


@pytest.mark.smoke
def test_records_that_are_deleted_take_along_when_they_were_seen(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keywright.licensing.activations.rules.MAX_KEPT_RECORDS", 1)
    executor = open_executor(storage)
    executor.execute([create(KEY)])
    places = executor.execute([on(LAPTOP), on(DESKTOP)])
    license_id, numbers = places[0].view.license.id, [one.activation.id for one in places]
    executor.execute([see({(license_id, number): 100 for number in (0, *numbers)})])
    executor.execute([off(LAPTOP)])
    executor.execute([off(DESKTOP)])
    assert [row[1] for row in rows_of(storage, last_seen)] == [0, numbers[1]]


def test_names_are_read_again_after_a_second(storage: Storage) -> None:
    put(storage, {}, product_id=17)
    seconds = [5.0]
    names = Names(lambda: seconds[0])

    def shown() -> str | None:
        with storage.read() as tx:
            product = Views(tx, names).product_of(a_license_with({}, product_id=17))
        return None if product is None else product.name

    assert shown() is None
    row = {"id": 17, "name": "Editor", "created_at": 0, "updated_at": 0}
    with storage.write() as tx:
        tx.connection.execute(insert(products).values(**row))
    seconds[0] = 5.9
    assert shown() is None
    seconds[0] = 6.0
    assert shown() == "Editor"
