"""Jobs for tests: ordered by user 7, and worked on step by step, so that a test can look in between."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

import msgspec
from sqlalchemy import insert

from keywright.core.command import Command, Context
from keywright.db import Storage, rows, run_read, run_write
from keywright.db.schema import users
from keywright.engine.executor import Executor
from keywright.engine.queue import ClaimItem, Claims, HoldItems, Item
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.identity.model import Role
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.files import HEADER
from keywright.jobs.model import (
    AddToUpload,
    CancelJob,
    FailJob,
    Job,
    JobState,
    JobStep,
    StartImport,
    StartJob,
    StartUpload,
)
from keywright.jobs.orders import Change, Generate, Import, Order, What
from keywright.jobs.planning import Plan
from keywright.provisioning.importers.uploads import split_table
from keywright.search.filters import Search
from tests.makers import NOW, a_user, an_origin, find_items

ALL = Search()
BY = 7
ACTOR = "user:7"
WORKER = "a worker"


def by_user(now: datetime = NOW, **fields: Any) -> dict[str, Any]:
    """What every command of user 7 has."""
    return {"context": Context(now, an_origin(actor=ACTOR, user_agent="a browser"), BY)} | fields


def make_orderer(storage: Storage, name: str = "alice") -> None:
    """Make user 7, an administrator, and another one."""
    values = [
        rows.to_columns(a_user(name=one, role=Role.ADMINISTRATOR)) | {"id": id}
        for id, one in ((BY, name), (BY + 90, "another administrator"))
    ]
    run_write(storage, lambda tx: tx.connection.execute(insert(users), values))


def a_change(what: str, amount: int | None = None, **fields: Any) -> Change:
    """A change of all licenses; or of ``license_ids``, or of what a ``search`` finds."""
    where = {} if "license_ids" in fields else {"search": ALL}
    return Change(what=What(what), amount=amount, **where | fields)


def a_generation(amount: int, **fields: Any) -> Generate:
    """Active licenses from generator 1."""
    return Generate(**{"policy_id": 1, "amount": amount, "status": 3} | fields)


def start(order: Order, now: datetime = NOW, total: int | None = None) -> StartJob:
    return orders.start_command(order, total=total, **by_user(now))


def upload(executor: Executor, content: str) -> Job:
    """A draft with this CSV."""
    table = split_table(content.encode(), "a.csv")
    order = Import(file_name="a.csv", format=table.format)
    job: Job = decide(executor, StartUpload(**by_user(), order=msgspec.to_builtins(order)))
    chunks = [(HEADER, table.header), *((part.first_line, part.text) for part in table.parts)]
    added = AddToUpload(**by_user(), job_id=job.id, parts_of_table=tuple(chunks), total=table.amount)
    draft: Job = decide(executor, added)
    return draft


def import_of(draft: Job, *fields: str, **more: Any) -> StartImport:
    """Start the import of a draft whose columns have these fields."""
    order = msgspec.structs.replace(cast(Import, orders.order_of(draft)), fields=fields)
    return StartImport(**by_user() | more, job_id=draft.id, order=msgspec.to_builtins(order))


def start_import(executor: Executor, content: str, *fields: str) -> Job:
    """The waiting job that imports this CSV."""
    job: Job = decide(executor, import_of(upload(executor, content), *fields))
    return job


def claim(
    storage: Storage, now: datetime = NOW, claimed_by: str = WORKER, *, waited: float = 0.0
) -> ClaimItem:
    """A claim of a process that has seen no claim of others change for so many seconds; of no job where none
    is free.
    """
    seconds = 0.0
    claims = Claims(claimed_by, lambda: seconds)
    there = find_items(storage, job_store.JOBS, now)
    claims.find_over(there)
    seconds = waited
    item = next(iter(claims.find_over(there)), Item(0))
    context = Context(now, an_origin(actor="keywright"))
    return ClaimItem(context=context, kind=job_store.JOBS, item=item, claimed_by=claimed_by)


def cancel(job_id: int, now: datetime = NOW) -> CancelJob:
    return CancelJob(**by_user(now), job_id=job_id)


def hold(job_id: int, now: datetime = NOW, *, is_over: bool = False, claimed_by: str = WORKER) -> HoldItems:
    items = [Item(job_id)]
    return HoldItems(**by_user(now), kind=job_store.JOBS, items=items, claimed_by=claimed_by, is_over=is_over)


def fail(job_id: int, reason: str, claimed_by: str = WORKER) -> FailJob:
    return FailJob(**by_user(), job_id=job_id, claimed_by=claimed_by, reason=reason)


def decide(executor: Executor, command: Command) -> Any:
    """The value; an error is raised."""
    (outcome,) = executor.execute([command])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class Work:
    """A claimed job, and what comes next in it."""

    def __init__(self, executor: Executor, storage: Storage, now: datetime = NOW) -> None:
        self._batches = executor
        self._storage = storage
        self._now = now
        self.job: Job = decide(executor, claim(storage, now))
        self._plan = Plan(self.job, WORKER)

    def prepare(self) -> JobStep:
        """The next step."""
        return run_read(self._storage, lambda tx: self._plan.next_step(tx, self.job, self._now))

    def steps(self) -> Iterator[Job]:
        """Take one step after the other; the job as each has left it."""
        while self.job.state is JobState.RUNNING:
            self.job = decide(self._batches, self.prepare())
            yield self.job


def run_job(
    executor: Executor, storage: Storage, order: Order, *, now: datetime = NOW, total: int | None = None
) -> Job:
    """The job that carries out the order, at its end."""
    decide(executor, start(order, now, total))
    work = Work(executor, storage, now)
    for _ in work.steps():
        pass
    return work.job


def get_job(storage: Storage, job_id: int) -> Job:
    """The job as it stands in the database."""
    job = run_read(storage, lambda tx: job_store.find_job(tx, job_id))
    assert job is not None
    return job


def events_of(storage: Storage, license_id: int) -> list[Event]:
    """What happened to a license, or, with 0, what is not about one; oldest first."""
    return run_read(storage, lambda tx: event_store.list_events(tx, license_id, limit=1000))[::-1]
