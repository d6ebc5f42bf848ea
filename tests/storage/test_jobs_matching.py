"""A job with a search does not change licenses that no longer match."""

import csv
import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from keywright.core.errors import UnknownLicense
from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.jobs import files as job_files
from keywright.jobs import planning
from keywright.jobs.model import JobState
from keywright.jobs.orders import Export
from keywright.jobs.planning import LICENSES_PER_STEP, ROWS_PER_STEP
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import LicenseRecord, SaveLastSeen
from keywright.licensing.licenses.model import License, Order, Status, order_fields
from keywright.licensing.notes import Notes, SaveNotes
from keywright.registry import open_executor
from keywright.search.filters import Search
from tests.jobs import Work, a_change, by_user, decide, events_of, run_job, start
from tests.makers import NOW, activate, an_origin, create, deactivate_all, delete, update
from tests.storage.conftest import Opener
from tests.storage.projected import follow_all
from tests.storage.stored import licenses_by_id, list_licenses
from tests.storage.test_jobs import orderer

DATABASES = ("sqlite",)

__all__ = ["orderer"]

DAY = timedelta(days=1)
UNUSED = Search(product_id=77, is_unused=True)
Happens = Callable[[Executor], None]


def change_license(**changes: Any) -> Happens:
    """Change the first license."""
    return lambda executor: decide(executor, update("KEY-1", **changes))


def activate_license(executor: Executor) -> None:
    decide(executor, activate("KEY-1"))


def try_license(executor: Executor) -> None:
    """Activate the license, and deactivate it again."""
    activate_license(executor)
    give_up_license(executor)


def give_up_license(executor: Executor) -> None:
    decide(executor, deactivate_all("KEY-1"))


def see_license(executor: Executor) -> None:
    """Let a program validate the first license."""
    decide(executor, SaveLastSeen(**by_user(), seen={(1, 0): int(NOW.timestamp())}))


def untag_license(executor: Executor) -> None:
    decide(executor, SaveNotes(**by_user(), license="KEY-1", notes=Notes()))


#: Searches, the fields of all licenses, and what happens to the first license.
LOST: dict[str, tuple[Search, dict[str, Any], Happens]] = {
    "activated": (UNUSED, {"product_id": 77}, activate_license),
    "activated, and given up": (UNUSED, {"product_id": 77}, try_license),
    "status": (Search(status=Status.SOLD), {"status": Status.SOLD}, change_license(status=Status.ACTIVE)),
    "product": (Search(product_id=7), {"product_id": 7}, change_license(product_id=8)),
    "no product": (Search(product_id=7), {"product_id": 7}, change_license(product_id=None)),
    "order": (Search(order_id=7), {"order_id": 7}, change_license(order_id=8)),
    "customer": (Search(customer_id=7), {"customer_id": 7}, change_license(customer_id=8)),
    "renewed": (
        Search(expiring_within_days=30),
        {"expires_at": NOW + 30 * DAY},
        change_license(expires_at=NOW + 30 * DAY + timedelta(seconds=1)),
    ),
    "ended": (Search(expiring_within_days=30), {"expires_at": NOW + DAY}, change_license(expires_at=NOW)),
    "endless": (Search(expiring_within_days=30), {"expires_at": NOW + DAY}, change_license(expires_at=None)),
    "a place is free": (Search(is_full=True), {"limit": 1}, give_up_license),
    "the limit is raised": (Search(is_full=True), {"limit": 1}, change_license(times_activated_max=2)),
    "renewed after its end": (
        Search(is_expired=True),
        {"expires_at": NOW},
        change_license(expires_at=NOW + timedelta(seconds=1)),
    ),
    "renewed, and now endless": (
        Search(is_expired=True),
        {"expires_at": NOW},
        change_license(expires_at=None),
    ),
    "past the span": (
        Search(expires=(NOW, NOW + 2 * DAY)),
        {"expires_at": NOW + DAY},
        change_license(expires_at=NOW + 2 * DAY),
    ),
    "before the span": (
        Search(expires=(NOW, None)),
        {"expires_at": NOW + DAY},
        change_license(expires_at=NOW),
    ),
    "seen": (Search(unseen_for_days=90), {"now": NOW - 91 * DAY}, see_license),
    "untagged": (Search(tag="old"), {}, untag_license),
    "the limit is gone": (Search(is_full=True), {"limit": 1}, change_license(times_activated_max=None)),
}


def make_matching(executor: Executor, search: Search, amount: int, **fields: Any) -> None:
    """Create this many licenses that match."""
    keys = [f"KEY-{number}" for number in range(1, amount + 1)]
    for first in range(0, amount, 100):
        executor.execute([create(key, **fields) for key in keys[first : first + 100]])
    if search.is_full:
        executor.execute([activate(key) for key in keys])
    if search.tag is not None:
        notes = Notes(tags=(search.tag,))
        executor.execute([SaveNotes(**by_user(), license=key, notes=notes) for key in keys])
    follow_all(executor)


@pytest.mark.parametrize("name", LOST)
def test_a_license_that_matches_no_more_when_its_turn_comes_stays_as_it_is(
    executor: Executor, storage: Storage, name: str
) -> None:
    search, before, happens = LOST[name]
    make_matching(executor, search, 3, **before)
    decide(executor, start(a_change("delete", search=search), total=3))
    work = Work(executor, storage)
    step = work.prepare()
    happens(executor)
    left = licenses_by_id(storage)[1]
    job = decide(executor, step)
    assert licenses_by_id(storage) == {1: left}
    assert (job.state, job.done, job.refused) == (JobState.DONE, 3, 1)
    assert job.messages == "License 1: it no longer matches."
    assert "license.deleted" not in [event.name for event in events_of(storage, 1)]


@pytest.mark.smoke
@pytest.mark.parametrize("name", LOST)
def test_a_license_that_matches_no_more_is_not_exported(
    executor: Executor, storage: Storage, name: str
) -> None:
    search, before, happens = LOST[name]
    make_matching(executor, search, 3, **before)
    decide(executor, start(Export(search=search)))
    work = Work(executor, storage)
    # The next licenses are read ahead before the change.
    run_read(storage, lambda tx: work._plan._look_ahead(tx, Export(search=search), 0))
    happens(executor)
    (job,) = work.steps()
    assert (job.state, job.done, job.total) == (JobState.DONE, 2, 2)
    assert list_exported(storage, job.id) == ["2", "3"]


def list_exported(storage: Storage, job_id: int) -> list[str]:
    """The IDs of the licenses in the file."""
    file = b"".join(job_files.read_file(partial(run_read, storage), job_id)).decode("utf-8-sig")
    return [row["id"] for row in csv.DictReader(io.StringIO(file, newline=""))]


#: Searches for rarely changed fields; the fields of a license that matches, and of one that does not.
COMPARED: dict[str, tuple[Search, dict[str, Any], dict[str, Any]]] = {
    "number": (Search(license_id=1), {"id": 1}, {"id": 2}),
    "policy": (Search(policy_id=3), {"policy_id": 3}, {"policy_id": 4}),
    "API key": (Search(made_by=3), {"created_by": 3}, {"created_by": None}),
    "order": (Search(order_ref="A-7"), order_fields(Order(id="A-7")), order_fields(Order(id="A-8"))),
    "other ID": (Search(external_id="crm-1"), {"external_id": "crm-1"}, {"external_id": "CRM-1"}),
    "change after": (Search(updated=(NOW, None)), {"updated_at": NOW + DAY}, {"updated_at": NOW}),
    "creation before": (Search(created=(None, NOW)), {"created_at": NOW - DAY}, {"created_at": NOW}),
    "creation after": (Search(created=(NOW, None)), {"created_at": NOW + DAY}, {"created_at": NOW}),
}


@pytest.mark.parametrize("name", COMPARED)
def test_a_field_of_a_license_is_compared(executor: Executor, storage: Storage, name: str) -> None:
    search, matching_fields, others = COMPARED[name]
    decide(executor, create("KEY-1"))
    license = licenses_by_id(storage)[1]
    for fields, is_match in ((matching_fields, True), (others, False)):
        one = msgspec.structs.replace(license, **fields)
        assert find_unmatched(storage, search, one) == (set() if is_match else {one.id})


@pytest.mark.smoke
def test_only_what_a_job_has_changed_or_a_user_has_made_matches_it(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("KEY-1"), create("KEY-2", origin=an_origin(actor="user:7"))])
    job = run_job(executor, storage, a_change("set_limit", 5, license_ids=(2,)))
    for search in (Search(job_id=job.id), Search(made_by_user=7)):
        assert find_unmatched(storage, search, *list_licenses(storage)) == {1}


def find_unmatched(storage: Storage, search: Search, *some: License) -> set[int]:
    return run_read(storage, lambda tx: planning.find_unmatched(tx, search, some, NOW))


def test_every_field_of_a_search_is_checked_again_or_is_no_condition() -> None:
    searches = [
        Search(job_id=1),
        Search(made_by_user=7),
        *(one[0] for one in (*LOST.values(), *COMPARED.values())),
    ]
    checked = {
        name
        for search in searches
        for name in Search.__struct_fields__
        if getattr(search, name) != getattr(Search(), name)
    }
    assert checked | planning.NOT_COMPARED == set(Search.__struct_fields__)
    assert not checked & planning.NOT_COMPARED


def test_what_was_looked_for_long_before_is_judged_again(executor: Executor, storage: Storage) -> None:
    """The IDs of all matches are known after the first step, and many steps follow."""
    amount = 4 * LICENSES_PER_STEP
    make_matching(executor, UNUSED, amount, product_id=77)
    decide(executor, start(a_change("delete", search=UNUSED)))
    work = Work(executor, storage)
    steps = work.steps()
    next(steps)
    record: LicenseRecord = decide(executor, activate(f"KEY-{amount}"))
    for _ in steps:
        pass
    (left,) = list_licenses(storage)
    assert (work.job.done, work.job.refused) == (amount, 1)
    assert run_read(storage, lambda tx: activation_store.list_activations(tx, [left.id])) == {
        left.id: list(record.activations)
    }


def test_a_file_of_many_pieces_leaves_out_what_matches_no_more(executor: Executor, storage: Storage) -> None:
    amount = ROWS_PER_STEP + 10
    make_matching(executor, UNUSED, amount, product_id=77)
    decide(executor, start(Export(search=UNUSED)))
    work = Work(executor, storage)
    steps = work.steps()
    next(steps)
    decide(executor, activate(f"KEY-{amount}"))
    assert [job.done for job in steps] == [amount - 1]
    (last,) = [one.id for one in list_licenses(storage) if one.times_activated]
    assert str(last) not in list_exported(storage, work.job.id)


def test_selected_licenses_are_changed_whatever_has_become_of_them(
    executor: Executor, storage: Storage
) -> None:
    make_matching(executor, UNUSED, 2, product_id=77)
    decide(executor, start(a_change("set_limit", 5, license_ids=(1, 2))))
    step = Work(executor, storage).prepare()
    executor.execute([activate("KEY-1"), update("KEY-2", product_id=8)])
    assert decide(executor, step).refused == 0
    assert [one.times_activated_max for one in list_licenses(storage)] == [5, 5]


@pytest.mark.smoke
def test_a_license_that_was_found_by_a_term_still_has_it(executor: Executor, storage: Storage) -> None:
    make_matching(executor, UNUSED, 1, product_id=77)
    decide(executor, activate("KEY-1", label="Anna"))
    follow_all(executor)
    decide(executor, start(a_change("set_limit", 5, search=Search(term="lann", is_prefix=True))))
    step = Work(executor, storage).prepare()
    give_up_license(executor)
    assert decide(executor, step).refused == 0


def test_an_extension_does_not_make_a_license_unfit_for_itself(executor: Executor, storage: Storage) -> None:
    search = Search(expiring_within_days=30)
    make_matching(executor, search, 2 * LICENSES_PER_STEP, expires_at=NOW + DAY)
    decide(executor, start(a_change("extend", 365, search=search)))
    work = Work(executor, storage)
    assert [(job.done, job.refused) for job in work.steps()] == [
        (LICENSES_PER_STEP, 0),
        (2 * LICENSES_PER_STEP, 0),
    ]


def test_no_acknowledged_activation_is_lost_to_a_job_that_deletes_what_was_never_activated(
    executor: Executor, storage: Storage, open_again: Opener
) -> None:
    """To the database, the job and the calls come from two processes."""
    amount = 12 * LICENSES_PER_STEP
    make_matching(executor, UNUSED, amount, product_id=77)
    decide(executor, start(a_change("delete", search=UNUSED)))
    work, calls = Work(executor, storage), open_executor(open_again())

    def acknowledged() -> Iterator[str]:
        for number in range(amount, 0, -1):
            (outcome,) = calls.execute([activate(f"KEY-{number}")])
            if isinstance(outcome, LicenseRecord):
                yield outcome.license.key
            else:
                assert isinstance(outcome, UnknownLicense)

    with ThreadPoolExecutor(1) as pool:
        activating = pool.submit(lambda: set(acknowledged()))
        for _ in work.steps():
            pass
        kept = activating.result()
    assert {one.key: one.times_activated for one in list_licenses(storage)} == dict.fromkeys(kept, 1)
    assert work.job.state is JobState.DONE


def test_a_step_needs_no_license_to_be_there(executor: Executor, storage: Storage) -> None:
    make_matching(executor, UNUSED, 2, product_id=77)
    decide(executor, start(a_change("disable", search=UNUSED)))
    step = Work(executor, storage).prepare()
    decide(executor, delete("KEY-1"))
    assert decide(executor, step).messages == "License 1: it no longer exists."
