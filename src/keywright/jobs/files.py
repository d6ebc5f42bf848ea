"""The file that an export makes: CSV (RFC 4180) in UTF-8 with a byte order mark, as spreadsheets like it."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Protocol, TypeVar

from keywright.core.errors import FileGone, UnknownJob
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
#: What a spreadsheet takes for a formula when a cell begins with it, and where a cell may begin: at the
#: beginning of a text, and where a program that separates cells otherwise (at semicolons, in half the world)
#: or knows no quotes would split it (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA = re.compile(r'(^|[;,\t\r\n]"*)(?=[=+\-@\t\r])')


class Asking(Protocol):
    """Has a question answered from one moment of the database."""

    def __call__(self, question: Callable[[ReadTransaction], Answer], /) -> Answer:
        """The answer."""


def rows_of(tx: ReadTransaction, licenses: Sequence[License]) -> bytes:
    """Lines of a file: one for each license, in this order."""
    products = _names(tx, NameKind.PRODUCT, {one.product_id for one in licenses})
    customers = _names(tx, NameKind.CUSTOMER, {one.customer_id for one in licenses})
    return _lines(
        [
            (
                one.id,
                defused(one.key),
                Status(one.status).name.lower(),
                one.order_id,
                one.product_id,
                products.get(one.product_id),
                one.customer_id,
                customers.get(one.customer_id),
                one.times_activated,
                one.times_activated_max,
                _moment(one.created_at),
                _moment(one.expires_at),
                one.valid_for_days,
                _moment(one.updated_at),
            )
            for one in licenses
        ]
    )


def defused(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula, wherever it separates cells: with an
    apostrophe before each character that could begin one. All other texts stay as they are.
    """
    return _FORMULA.sub(r"\1'", text)


def has_file(tx: ReadTransaction, job: Job) -> bool:
    """Whether the job has made a file that is not forgotten yet."""
    is_made = job.kind == "export" and job.state is JobState.DONE
    return is_made and (job.position == 0 or has_chunks(tx, job.id))


def get_job_with_file(tx: ReadTransaction, job_id: int) -> Job:
    """The job, whose file is there. Raises ``UnknownJob``, ``FileGone``."""
    job = find_job(tx, job_id)
    if job is None:
        raise UnknownJob(job_id)
    if not has_file(tx, job):
        raise FileGone
    return job


def read_file(ask: Asking, job_id: int) -> Iterator[bytes]:
    """The file, chunk by chunk, each read when it is wanted.

    Raises ``UnknownJob``, ``FileGone``; this one also when the file is forgotten meanwhile.
    """
    job = ask(partial(get_job_with_file, job_id=job_id))
    return chain([codecs.BOM_UTF8 + _lines([COLUMNS])], _chunks(ask, job))


def file_name(job: Job) -> str:
    """What is in the file, and when it was ordered, in ASCII; nothing that somebody typed."""
    order = orders.order_of(job)
    search = order.search if isinstance(order, orders.Export) else None
    words = ["selected"] if search is None else _words_of(search)
    return "-".join(["licenses", *words, f"{job.created_at:%Y-%m-%d-%H%M}"]) + ".csv"


def _chunks(ask: Asking, job: Job) -> Iterator[bytes]:
    number = 0
    while number < job.position:
        found = ask(partial(find_chunk, job_id=job.id, after=number))
        if found is None:
            raise FileGone
        number, chunk = found
        yield chunk


def _names(tx: ReadTransaction, kind: NameKind, numbers: set[int | None]) -> dict[int | None, str]:
    found = names_of(tx, kind, {number for number in numbers if number is not None})
    return {number: defused(name) for number, name in found.items()}


def _lines(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _moment(at: datetime | None) -> str | None:
    """As ISO 8601 has it, in UTC."""
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


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
