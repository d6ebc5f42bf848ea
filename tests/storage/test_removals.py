"""Devices that customers free: as many as the terms allow, and never more, on both databases."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any

import pytest

from keywright.core.command import Context
from keywright.core.errors import KeywrightError, NoRemovalLeft, UnknownLicenseId
from keywright.db import Storage
from keywright.db.schema import portal_removals
from keywright.engine.executor import Executor
from keywright.licensing.activations.model import Deactivate, DeactivateAll, DeactivateDevice, Device
from keywright.licensing.removals import RemoveByCustomer
from keywright.licensing.undo.rules import RestoreLicense
from keywright.registry import open_executor
from tests.jobs import decide
from tests.makers import KEY, NOW, activate_device, an_origin, create, delete, set_terms
from tests.storage.conftest import ISOLATED, Opener

DATABASES = ("sqlite", *ISOLATED)
CUSTOMER = 7
A_DAY = timedelta(days=1)


def free(activation_id: int, now: datetime = NOW, **fields: Any) -> RemoveByCustomer:
    context = Context(now, an_origin(actor=f"customer:{CUSTOMER}"))
    fields = {"license": 1, "customer_id": CUSTOMER} | fields
    return RemoveByCustomer(context=context, activation_id=activation_id, **fields)


def make_license(executor: Executor, count: int | None, devices: int = 4) -> list[int]:
    """License 1 with this number of removals in 30 days; returns the IDs of its devices."""
    terms = {"portal_removals": None if count is None else {"count": count, "per_days": 30}}
    decide(executor, create(KEY, customer_id=CUSTOMER))
    decide(executor, set_terms(terms))
    return [decide(executor, activate_device(f"device {one}")).activation.id for one in range(devices)]


def codes(outcomes: list[Any]) -> list[Any]:
    return [type(one) if isinstance(one, KeywrightError) else None for one in outcomes]


def test_a_customer_frees_as_many_devices_as_the_terms_allow(executor: Executor) -> None:
    one, other, third, last = make_license(executor, 2)
    outcomes = executor.execute([free(one), free(one), free(other), free(third)])
    assert codes(outcomes) == [None, None, None, NoRemovalLeft]
    assert outcomes[3].retry_after_seconds == 30 * 86_400
    assert codes(executor.execute([free(third, NOW + 29 * A_DAY)])) == [NoRemovalLeft]
    later = NOW + 30 * A_DAY
    assert codes(executor.execute([free(third, later), free(last, later)])) == [None, None]


def test_removals_that_are_too_old_to_count_are_deleted(executor: Executor, storage: Storage) -> None:
    devices = make_license(executor, 1)
    for month, device in enumerate(devices):
        decide(executor, free(device, NOW + month * 30 * A_DAY))
    with storage.read() as tx:
        assert len(tx.connection.execute(portal_removals.select()).all()) == 1


def test_what_programs_free_counts_and_is_never_refused(executor: Executor, storage: Storage) -> None:
    devices = make_license(executor, 2)
    for second in (0, 0, 1, 2):
        context = Context(NOW + timedelta(seconds=second), an_origin(actor="program"))
        gone = DeactivateDevice(context=context, license=KEY, device=Device("device 0"))
        assert decide(executor, gone).was_active
        token = decide(executor, activate_device("device 0")).activation.token
    with storage.read() as tx:
        before = tx.connection.execute(portal_removals.select()).all()
    assert len(before) == 2
    assert codes(executor.execute([free(devices[1])])) == [NoRemovalLeft]
    later = NOW + 30 * A_DAY
    context = Context(later, an_origin(actor="program"))
    decide(executor, Deactivate(context=context, license=KEY, token=token))
    decide(executor, DeactivateAll(context=Context(later, an_origin(actor="user:1")), license=KEY))
    with storage.read() as tx:
        after = tx.connection.execute(portal_removals.select()).all()
    assert len({*after} - {*before}) == 1, "only what the program gave up is counted"


@pytest.mark.parametrize(("count", "expected"), [(None, None), (0, NoRemovalLeft)])
def test_terms_without_a_number_allow_all_or_nothing(
    executor: Executor, count: int | None, expected: type[KeywrightError] | None
) -> None:
    devices = make_license(executor, count)
    assert codes(executor.execute([free(one) for one in devices])) == [expected] * len(devices)


def test_a_customer_frees_no_device_of_another(executor: Executor) -> None:
    [one] = make_license(executor, None, devices=1)
    assert codes(executor.execute([free(one, customer_id=8)])) == [UnknownLicenseId]


def test_servers_together_free_no_more_than_the_terms_allow(executor: Executor, open_again: Opener) -> None:
    devices = make_license(executor, 3, devices=8)
    start = Barrier(len(devices))

    def free_one(device: int) -> Any:
        server = open_executor(open_again())
        start.wait()
        return server.execute([free(device)])[0]

    with ThreadPoolExecutor(len(devices)) as threads:
        found = codes(list(threads.map(free_one, devices)))
    assert (found.count(None), found.count(NoRemovalLeft)) == (3, 5)


@pytest.mark.smoke
def test_a_license_that_was_brought_back_counts_on(executor: Executor) -> None:
    one, other, *_ = make_license(executor, 1)
    decide(executor, free(one))
    decide(executor, delete(1))
    decide(executor, RestoreLicense(context=Context(NOW, an_origin()), license=1))
    assert codes(executor.execute([free(other)])) == [NoRemovalLeft]
