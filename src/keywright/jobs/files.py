"""The file of an export: CSV (RFC 4180) in UTF-8 with a byte order mark, for spreadsheets."""

import codecs
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Protocol, TypeVar

from keywright.core.errors import FileGone, UnknownJob
from keywright.core.spreadsheets import csv_lines, escape_formulas, time_cell
from keywright.db import ReadTransaction
from keywright.jobs import orders
from keywright.jobs.model import Job, JobState
from keywright.jobs.store import find_chunk, find_job, has_chunks
from keywright.licensing.licenses.model import License, Status
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import names_of
from keywright.search.filters import Search

Answer = TypeVar("Answer")

COLUMNS = (
    "id",
    "license_key",
    "status",
    "order_id",
    "product_id",
    "product",
    "customer_id",
    "customer",
    "times_activated",
    "times_activated_max",
    "created_at",
    "expires_at",
    "valid_for_days",
    "updated_at",
)


class Read(Protocol):
    """Runs a read in its own transaction."""

    def __call__(self, question: Callable[[ReadTransaction], Answer], /) -> Answer:
        """The result."""


def rows_of(tx: ReadTransaction, licenses: Sequence[License]) -> bytes:
    """Lines of a file: one for each license, in this order."""
    products = _names(tx, NameKind.PRODUCT, {one.product_id for one in licenses})
    customers = _names(tx, NameKind.CUSTOMER, {one.customer_id for one in licenses})
    return csv_lines(
        [
            (
                one.id,
                escape_formulas(one.key),
                Status(one.status).name.lower(),
                one.order_id,
                one.product_id,
                products.get(one.product_id),
                one.customer_id,
                customers.get(one.customer_id),
                one.times_activated,
                one.times_activated_max,
                time_cell(one.created_at),
                time_cell(one.expires_at),
                one.valid_for_days,
                time_cell(one.updated_at),
            )
            for one in licenses
        ]
    )


def has_file(tx: ReadTransaction, job: Job) -> bool:
    """Whether the job has a file that has not been deleted."""
    is_made = job.kind == "export" and job.state is JobState.DONE
    return is_made and (job.position == 0 or has_chunks(tx, job.id))


def get_job_with_file(tx: ReadTransaction, job_id: int) -> Job:
    """The job, if its file exists. Raises ``UnknownJob``, ``FileGone``."""
    job = find_job(tx, job_id)
    if job is None:
        raise UnknownJob(job_id)
    if not has_file(tx, job):
        raise FileGone
    return job


def read_file(read: Read, job_id: int) -> Iterator[bytes]:
    """The file, chunk by chunk, each read when it is needed.

    Raises ``UnknownJob``, ``FileGone``; the latter also when the file is deleted meanwhile.
    """
    job = read(partial(get_job_with_file, job_id=job_id))
    return chain([codecs.BOM_UTF8 + csv_lines([COLUMNS])], _chunks(read, job))


def file_name(job: Job) -> str:
    """A name in ASCII, with the contents and the time of the order, and no text that a user typed."""
    order = orders.order_of(job)
    search = order.search if isinstance(order, orders.Export) else None
    words = ["selected"] if search is None else _words_of(search)
    return "-".join(["licenses", *words, f"{job.created_at:%Y-%m-%d-%H%M}"]) + ".csv"


def _chunks(read: Read, job: Job) -> Iterator[bytes]:
    number = 0
    while number < job.position:
        found = read(partial(find_chunk, job_id=job.id, after=number))
        if found is None:
            raise FileGone
        number, chunk = found
        yield chunk


def _names(tx: ReadTransaction, kind: NameKind, numbers: set[int | None]) -> dict[int | None, str]:
    found = names_of(tx, kind, {number for number in numbers if number is not None})
    return {number: escape_formulas(name) for number, name in found.items()}


def _words_of(search: Search) -> list[str]:
    words = []
    if search.status is not None:
        words.append(Status(search.status).name.lower())
    for name in ("product", "order", "customer"):
        number = getattr(search, f"{name}_id")
        if number is not None:
            words.append(f"{name}-{number}")
    if search.expiring_within_days is not None:
        words.append(f"expiring-in-{search.expiring_within_days}-days")
    words += ["full"] * search.is_full + ["unused"] * search.is_unused
    words += ["found"] * (search.license_id is not None or search.term is not None)
    return words or ["all"]
