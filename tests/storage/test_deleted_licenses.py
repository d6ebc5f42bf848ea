"""Deleted licenses: gone immediately for all callers, and restored completely while key and order
are free.
"""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy import update as update_rows

from keywright.core.command import Command, Context
from keywright.core.errors import (
    ChangedSince,
    LicenseKeyTaken,
    OrderLineTaken,
    UnknownLicense,
    UnknownLicenseId,
)
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import deleted_licenses, metadata
from keywright.engine.executor import Executor
from keywright.jobs.orders import TakeBack
from keywright.licensing.activations.model import RecordLimits
from keywright.licensing.licenses.model import License, Order
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.notes import Notes, SaveNotes
from keywright.licensing.undo.rules import RestoreLicense, UndoChanges
from keywright.licensing.undo.store import KEPT_TABLES
from keywright.maintenance.doctor import examine
from keywright.maintenance.personal_data import find_customer_data
from keywright.maintenance.tasks import EraseCustomer, PurgeDeletedLicenses
from keywright.provisioning.licenses import IssueLicenses, RotateKey
from keywright.registry import open_executor
from tests.jobs import a_change, make_orderer, run_job
from tests.makers import (
    KEY,
    NOW,
    activate,
    activate_device,
    an_origin,
    create,
    deactivate,
    delete,
    record_usage,
    set_terms,
    validate,
)

DATABASES = ("sqlite",)
SOON = NOW + timedelta(days=1)
#: The tables with data of a license that a deletion keeps.
_LEFT = ("events", "deleted_licenses", "sequences", "job_licenses", "pruned_activations")


def do(executor: Executor, command: Command) -> Any:
    return executor.execute([command])[0]


def restore(license_id: int = 1, **fields: Any) -> RestoreLicense:
    return RestoreLicense(context=Context(SOON, an_origin()), license=license_id, **fields)


def contents(storage: Storage) -> dict[str, list[tuple[Any, ...]]]:
    """All rows except those that a deletion keeps; without resealed columns and the time of the change."""
    with storage.read() as tx:
        return {
            name: sorted(
                tuple(str(value) for column, value in row._mapping.items() if not _is_new(column))
                for row in tx.connection.execute(select(table))
            )
            for name, table in metadata.tables.items()
            if name not in _LEFT
        }


def _is_new(column: str) -> bool:
    return column.startswith("sealed_") or column == "updated_at"


def fill(executor: Executor) -> License:
    """Create license 1 with everything that can belong to a license."""
    do(executor, create(KEY, limit=3, customer_id=7))
    do(executor, set_terms({"meters": {"pages": {"limit": 10, "per": "month"}}}, 1))
    notes = Notes("Ask Anna first.", ("school", "vip"))
    do(executor, SaveNotes(context=Context(NOW, an_origin()), license=1, notes=notes))
    do(executor, activate_device("fp-1", KEY))
    token = do(executor, activate(KEY, origin=an_origin(ip_address="", user_agent=""))).activations[0].token
    do(executor, record_usage("pages", 4))
    do(executor, deactivate(token, KEY))
    license: License = do(executor, RotateKey(context=Context(NOW, an_origin()), license=1)).license
    return license


@pytest.mark.smoke
def test_a_license_is_brought_back_as_it_was(storage: Storage, executor: Executor) -> None:
    license = fill(executor)
    before = contents(storage)
    do(executor, delete(1))
    assert isinstance(do(executor, activate(license.key)), UnknownLicense)
    assert isinstance(executor.query([validate(license.key)])[0], UnknownLicense)
    do(executor, restore())
    after = contents(storage)
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}
    # Devices keep their tokens, and continue to work.
    assert do(executor, activate_device("fp-1", license.key)).change == "kept"
    assert list(examine(storage, lambda _: None)) == []
    assert isinstance(do(executor, restore()), UnknownLicenseId)


def test_every_table_with_rows_of_a_license_is_kept_or_known_not_to_be() -> None:
    """Not in the snapshot: leases, which last minutes, refused calls, and update tokens, which the deletion
    ends. Sold lines of shops, and usage of closed periods, are not deleted.
    """
    of_licenses = {name for name, table in metadata.tables.items() if "license_id" in table.c}
    made_anew = {"rotated_keys", "trials", "search_terms", "pruned_activations", "limit_refusals"}
    made_anew |= {"license_updates"}
    not_kept = {"leases", "lease_counters", "refusals", "events", "job_licenses", "deleted_licenses"}
    not_kept |= {"webhook_deliveries", "sold_licenses", "later_purchases", "past_usage", "update_tokens"}
    assert of_licenses - made_anew - not_kept == {table.name for table in KEPT_TABLES}


def test_the_key_and_the_order_of_a_deleted_license_are_free(storage: Storage, executor: Executor) -> None:
    line: dict[str, Any] = {"order": Order(source="shop", id="9", line="1"), "customer": None}
    issue = IssueLicenses(context=Context(NOW, an_origin()), status=3, key=KEY, **line)
    do(executor, issue)
    do(executor, delete(1))
    do(executor, create(KEY))
    assert isinstance(do(executor, restore()), LicenseKeyTaken)
    do(executor, delete(2))
    do(executor, IssueLicenses(context=Context(NOW, an_origin()), status=3, key="OTHER", **line))
    assert isinstance(do(executor, restore()), OrderLineTaken)
    do(executor, delete(3))
    assert do(executor, restore()).key == KEY


def test_only_who_may_see_a_license_brings_it_back(storage: Storage, executor: Executor) -> None:
    do(executor, create(KEY, product_id=5))
    do(executor, delete(1))
    assert isinstance(do(executor, restore(only_product_id=6)), UnknownLicenseId)
    assert do(executor, restore(only_product_id=5)).key == KEY


def test_a_deletion_is_undone_and_done_again_while_nothing_else_happens(
    storage: Storage, executor: Executor
) -> None:
    origin = an_origin(actor="user:7")

    def undo(license_id: int, at: Any) -> Any:
        context = Context(SOON, origin, 7)
        return do(executor, UndoChanges(context=context, license=license_id, changed_at=at))

    for license_id in (1, 2):
        do(executor, create(f"{KEY}-{license_id}"))
        do(executor, delete(license_id, origin=origin))
        undo(license_id, NOW)
    assert {*run_read(storage, lambda tx: find_licenses_by_id(tx, [1, 2]))} == {1, 2}
    # An activation is not a change of the license, and must not be lost with its creation.
    do(executor, activate(f"{KEY}-2"))
    assert isinstance(undo(2, SOON), ChangedSince)
    assert undo(1, SOON).is_deleted


def test_a_job_that_deleted_licenses_is_taken_back(storage: Storage, executor: Executor) -> None:
    make_orderer(storage)
    for number in range(30):
        do(executor, create(f"KEY-{number}"))
        do(executor, activate(f"KEY-{number}"))
    before = contents(storage)["licenses"]
    job = run_job(executor, storage, a_change("delete"))
    do(executor, create("KEY-5"))
    back = run_job(executor, storage, TakeBack(job_id=job.id))
    assert (back.done, back.refused) == (30, 1)
    assert back.messages == "License 6: another license now has its key."
    assert len(contents(storage)["licenses"]) == len(before)
    assert list(examine(storage, lambda _: None)) == []


def test_nothing_is_kept_where_the_setting_says_so(storage: Storage) -> None:
    executor = open_executor(storage, partial(RecordLimits, keeps_deleted=False))
    do(executor, create(KEY))
    do(executor, delete(1))
    assert isinstance(do(executor, restore()), UnknownLicenseId)


@pytest.mark.smoke
def test_what_is_kept_goes_with_time_and_with_its_customer(storage: Storage, executor: Executor) -> None:
    for number, now in enumerate((NOW, SOON, SOON)):
        do(executor, create(f"KEY-{number}", customer_id=number))
        do(executor, delete(number + 1, now=now))
    assert do(executor, PurgeDeletedLicenses(context=Context(SOON, an_origin()), before=SOON)) == 1
    assert isinstance(do(executor, restore(1)), UnknownLicenseId)
    (kept,) = run_read(storage, lambda tx: find_customer_data(tx, 1)).licenses
    assert kept.license.key == "KEY-1"
    do(executor, EraseCustomer(context=Context(SOON, an_origin()), customer_id=1))
    assert isinstance(do(executor, restore(2)), UnknownLicenseId)
    assert do(executor, restore(3)).key == "KEY-2"


@pytest.mark.smoke
def test_a_snapshot_is_sealed_and_the_doctor_sees_damage(storage: Storage, executor: Executor) -> None:
    do(executor, create("A-CANARY-OF-THE-DELETED"))
    do(executor, delete(1))

    def damage(tx: Any) -> bytes:
        sealed: bytes = tx.connection.execute(select(deleted_licenses.c.sealed_snapshot)).scalar_one()
        other = sealed[:-1] + bytes([sealed[-1] ^ 1])
        tx.connection.execute(update_rows(deleted_licenses).values(sealed_snapshot=other))
        return sealed

    assert b"CANARY" not in run_write(storage, damage)
    (finding,) = examine(storage, lambda _: None)
    assert (finding.code, finding.license_id) == ("deleted_license.unsound", 1)
