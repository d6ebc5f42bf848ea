"""Activations and searches of the management API."""

from typing import Any

import pytest

from keywright.core import errors as e
from keywright.core.command import Context
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.licensing.activations.model import (
    ActivateDevice,
    Activation,
    Device,
    ReleaseActivation,
    ReleaseAll,
)
from keywright.licensing.licenses import store as license_store
from keywright.licensing.management import GetActivation, ListActivations
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.search.license_pages import SearchManaged
from tests.makers import KEY, NOW, activate, an_origin, create, deactivate_all, rename, validate
from tests.storage.projected import assert_followed, follow_all

DATABASES = ("sqlite",)

CONTEXT = Context(NOW, an_origin(), 1)


def release(number: int, license_id: int = 1, **fields: Any) -> ReleaseActivation:
    return ReleaseActivation(context=CONTEXT, license=license_id, activation_id=number, **fields)


def taken(executor: Executor, key: str = KEY) -> int:
    number: int = executor.query([validate(key)])[0].license.times_activated
    return number


def activations(executor: Executor, **fields: Any) -> list[Activation]:
    asked = ListActivations(license_id=1, limit=fields.pop("limit", 50), **fields)
    return [one.activation for one in executor.query([asked])[0].activations]


def search(executor: Executor, **fields: Any) -> list[int]:
    limit = fields.pop("limit", 50)
    (page,) = executor.query([SearchManaged(now=NOW, limit=limit, **fields)])
    return [one.license.id for one in page.licenses]


# --- activations ------------------------------------------------------------------------------------


def test_an_activation_is_released_by_its_id_once(executor: Executor, storage: Storage) -> None:
    executor.execute([create(KEY, 5), activate(KEY), activate(KEY)])
    assert executor.execute([release(1), release(1)]) == [None, None]
    assert executor.execute([release(1)]) == [None]
    with storage.read() as tx:
        names = [one.name for one in event_store.list_events(tx, 1, limit=9)]
    assert names == ["license.deactivated", *["license.activated"] * 2, "license.created"]
    assert taken(executor) == 1
    first = activations(executor, is_descending=False)[0]
    assert (first.id, first.deactivated_at) == (1, NOW)


def test_an_activation_of_another_license_is_not_released(executor: Executor) -> None:
    executor.execute([create(KEY), create("OTHER"), activate(KEY)])
    (outcome, unseen) = executor.execute([release(1, 2), release(1, only_product_id=7)])
    assert isinstance(outcome, e.NotFound)
    assert isinstance(unseen, e.UnknownLicense)
    assert taken(executor) == 1


def test_a_place_is_not_given_up_twice_in_a_batch(executor: Executor) -> None:
    executor.execute([create(KEY), activate(KEY), activate(KEY)])
    executor.execute([deactivate_all(KEY), release(1), activate(KEY), rename(KEY, "NEW"), release(2)])
    assert taken(executor, "NEW") == 1
    executor.execute([release(1), release(3)])
    assert taken(executor, "NEW") == 0


def test_a_release_obeys_its_precondition(executor: Executor) -> None:
    def refuse(_: Activation) -> None:
        raise e.ChangedMeanwhile

    executor.execute([create(KEY), activate(KEY)])
    (outcome,) = executor.execute([release(1, activation_precondition=refuse)])
    assert isinstance(outcome, e.ChangedMeanwhile)
    assert taken(executor) == 1


def test_all_places_are_released_however_many(executor: Executor) -> None:
    executor.execute([create(KEY), activate(KEY), activate(KEY)])
    everything = ReleaseAll(context=CONTEXT, license=KEY)
    assert executor.execute([everything, everything]) == [2, 0]
    assert taken(executor) == 0


@pytest.mark.smoke
def test_activations_are_listed_by_creation(executor: Executor) -> None:
    executor.execute([create(KEY), *[activate(KEY) for _ in range(3)], release(2)])
    executor.execute([release(2)])
    assert [one.id for one in activations(executor)] == [3, 2, 1]
    assert [one.id for one in activations(executor, limit=1, is_descending=False)] == [1, 2]
    at = int(NOW.timestamp())
    assert [one.id for one in activations(executor, after=(at, 2))] == [1]
    assert [one.id for one in activations(executor, after=(at, 2), is_descending=False)] == [3]
    assert [one.id for one in activations(executor, is_active=False)] == [2]
    (page,) = executor.query([ListActivations(license_id=1, limit=1, is_counted=True, is_active=True)])
    assert page.total == 2
    (one,) = executor.query([GetActivation(license_id=1, activation_id=2)])
    assert one.activation.id == 2
    (none,) = executor.query([GetActivation(license_id=1, activation_id=9)])
    assert isinstance(none, e.NotFound)


# --- search -----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_license_is_found_by_its_key_however_it_is_typed(executor: Executor) -> None:
    executor.execute([create("AB-CD-1234"), create("ab-cd-1234"), create("XY-99-1234")])
    assert search(executor, key="AB-CD-1234") == [1]
    assert search(executor, key="ABCD1234") == [2, 1]
    assert search(executor, key="ABCD-1235") == []
    assert search(executor, key_end="1234") == [3, 2, 1]
    assert search(executor, key_end="d-1234") == [2, 1]
    assert search(executor, key_end="1234", limit=1, after=(0, 3)) == [2]


def test_a_license_is_found_by_a_key_that_was_replaced(executor: Executor) -> None:
    executor.execute([create("OLD-KEY")])
    executor.execute([rename("OLD-KEY", "NEW-KEY")])
    assert search(executor, key="OLD-KEY") == [1]


def test_the_end_of_too_many_keys_is_refused(executor: Executor, monkeypatch: Any) -> None:
    monkeypatch.setattr(license_store, "MAX_CANDIDATES", 2)
    executor.execute([create(f"K{i}-1234") for i in range(3)])
    (outcome,) = executor.query([SearchManaged(now=NOW, limit=5, key_end="1234")])
    assert isinstance(outcome, e.InvalidParameters)


def test_a_license_is_found_by_its_devices(executor: Executor, storage: Storage) -> None:
    device = Device(fingerprint="f" * 20, name="Anna's laptop")
    executor.execute([create(KEY), create("OTHER"), activate("OTHER")])
    (place,) = executor.execute([ActivateDevice(context=CONTEXT, license=KEY, device=device)])
    follow_all(executor)
    assert_followed(storage)
    assert search(executor, fingerprint="f" * 20) == [1]
    assert search(executor, fingerprint="f" * 19) == []
    assert search(executor, token=place.activation.token.upper()) == [1]
    assert search(executor, text="anna") == [1]
    moved = Device(fingerprint="g" * 20)
    executor.execute([ActivateDevice(context=CONTEXT, license=KEY, device=moved, replaces="f" * 20)])
    follow_all(executor)
    assert search(executor, fingerprint="g" * 20) == [1]


@pytest.mark.smoke
def test_a_license_is_found_by_its_customer(executor: Executor) -> None:
    (ada,) = executor.execute(
        [CreateCustomer(context=CONTEXT, fields=NewCustomer(email="ada@example.com", name="Ada"))]
    )
    executor.execute([create(KEY, customer_id=ada.id, product_id=5), create("OTHER", customer_id=7)])
    assert search(executor, email="ADA@example.com") == [1]
    assert search(executor, email="bob@example.com") == []
    assert search(executor, text="Ada") == [1]
    assert search(executor, email="ada@example.com", only_product_id=6) == []
    assert search(executor, key=KEY, only_product_id=6) == []
    assert search(executor, key=KEY, only_product_id=5) == [1]
