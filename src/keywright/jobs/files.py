"""Job files: exports, tables to import, and lines that failed to import.

Chunk 1 of a CSV table is its header line.
"""

import codecs
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

from keywright.core.command import Context
from keywright.core.errors import FileGone, UnknownJob
from keywright.db.transaction import ReadTransaction
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.model import ImportStep, Job, JobState
from keywright.jobs.orders import Import
from keywright.jobs.store import FAILED_LINES, find_chunk, find_job, has_chunks, list_job_licenses
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.provisioning import exporters
from keywright.provisioning.exporters import Read, license_rows
from keywright.provisioning.importers import uploads
from keywright.provisioning.importers.model import ImportedLicense, ImportLicenses
from keywright.provisioning.importers.rows import Defaults, keeper_of
from keywright.provisioning.importers.tables import Unusable
from keywright.provisioning.importers.uploads import Format, Part, ReadOptions
from keywright.provisioning.store import find_words_for_products
from keywright.search.filters import Search

#: The number of licenses to read per query for a file of keys.
_KEYS_AT_ONCE = 200
#: The first columns of a table of licenses.
COLUMNS = tuple(exporters.LICENSE[: exporters.LICENSE.index("source")])


def rows_of(tx: ReadTransaction, licenses: Sequence[License]) -> bytes:
    """The CSV lines of these licenses, in this order."""
    return exporters.to_csv(row[: len(COLUMNS)] for row in license_rows(tx, licenses))


def has_file(tx: ReadTransaction, job: Job) -> bool:
    """Whether the job has a file that has not been deleted."""
    if job.state is not JobState.DONE:
        return False
    if job.kind == "import":
        return job.refused > 0 and has_chunks(tx, job.id)
    is_empty = job.kind == "export" and job.position == 0
    return job.kind in ("export", "make_files") and (is_empty or has_chunks(tx, job.id))


def get_job_with_file(tx: ReadTransaction, job_id: int) -> Job:
    """The job, if its file exists. Raises ``UnknownJob``, ``FileGone``."""
    job = find_job(tx, job_id)
    if job is None:
        raise UnknownJob(job_id)
    if not has_file(tx, job):
        raise FileGone
    return job


def read_file(read: Read, job_id: int) -> Iterator[bytes]:
    """Yield the chunks of the file, each read on demand.

    Raises ``UnknownJob``, ``FileGone``; the latter also if the file is deleted while it is read.
    """
    job = read(partial(get_job_with_file, job_id=job_id))
    order = orders.order_of(job)
    if isinstance(order, orders.Import):
        mark = [codecs.BOM_UTF8] if order.format is Format.CSV else []
        last = orders.parameters_of(job).outcomes["last_failed"] + FAILED_LINES
        return chain(mark, _chunks(read, job, FAILED_LINES, last))
    if isinstance(order, orders.MakeFiles):
        return _chunks(read, job, 0, orders.parameters_of(job).outcomes["last_part"])
    return chain([codecs.BOM_UTF8 + exporters.to_csv([COLUMNS])], _chunks(read, job, 0, job.position))


def read_keys(read: Read, job: Job, *, is_csv: bool) -> Iterator[bytes]:
    """Yield the licenses that a job generated: as CSV, or their keys only, one per line."""
    after_id = 0
    if is_csv:
        yield codecs.BOM_UTF8 + exporters.to_csv([COLUMNS])
    while True:
        question = partial(_read_made, job_id=job.id, after_id=after_id, is_csv=is_csv)
        last_id, chunk = read(question)
        if last_id is None:
            return
        after_id = last_id
        yield chunk


def _read_made(tx: ReadTransaction, *, job_id: int, after_id: int, is_csv: bool) -> tuple[int | None, bytes]:
    ids = [id for id, _ in list_job_licenses(tx, job_id, after_id=after_id, limit=_KEYS_AT_ONCE)]
    found = list(find_licenses_by_id(tx, ids).values())
    chunk = rows_of(tx, found) if is_csv else "".join(f"{one.key}\n" for one in found).encode()
    return (ids[-1] if ids else None), chunk


def keys_name(job: Job, *, is_csv: bool) -> str:
    """The name of the file with the keys that a job generated."""
    return f"license-keys-{job.id}-{job.created_at:%Y-%m-%d}.{'csv' if is_csv else 'txt'}"


def file_name(job: Job) -> str:
    """An ASCII file name from the contents and the time of the order, without text that a user typed."""
    order = orders.order_of(job)
    if isinstance(order, orders.Import):
        return f"failed-lines-{job.created_at:%Y-%m-%d-%H%M}.{order.format}"
    if isinstance(order, orders.MakeFiles):
        return f"license-files-{job.created_at:%Y-%m-%d-%H%M}.jsonl"
    search = order.search if isinstance(order, orders.Export) else None
    words = ["selected"] if search is None else _words_of(search)
    return "-".join(["licenses", *words, f"{job.created_at:%Y-%m-%d-%H%M}"]) + ".csv"


def _chunks(read: Read, job: Job, number: int, last: int) -> Iterator[bytes]:
    """Yield the chunks after ``number``, up to ``last``."""
    while number < last:
        found = read(partial(find_chunk, job_id=job.id, after=number))
        if found is None:
            raise FileGone
        number, chunk = found
        yield chunk


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
    words += _words_of_times(search)
    # Omit the tag and the order's ID: they are user input.
    words += ["order"] * (search.order_ref is not None) + ["tagged"] * (search.tag is not None)
    numbers = {
        "policy": search.policy_id,
        "key": search.made_by,
        "user": search.made_by_user,
        "job": search.job_id,
    }
    for name, number in numbers.items():
        if number is not None:
            words.append(f"{name}-{number}")
    words += ["full"] * search.is_full + ["unused"] * search.is_unused
    words += ["found"] * (search.license_id is not None or search.term is not None)
    return words or ["all"]


def _words_of_times(search: Search) -> list[str]:
    words = ["expired"] * search.is_expired
    for name, span in (("expiring", search.expires), ("created", search.created)):
        bounds = zip(("after", "before"), span or (), strict=False)
        words += [f"{name}-{when}-{moment:%Y-%m-%d}" for when, moment in bounds if moment is not None]
    if search.unseen_for_days is not None:
        words.append(f"unseen-for-{search.unseen_for_days}-days")
    return words


#: The number of the chunk with the header line of a CSV table.
HEADER = 1
#: A step takes no further part once it has this many bytes.
_STEP_BYTES = 64 * 1024


def list_columns(tx: ReadTransaction, job: Job, order: Import) -> list[str]:
    """The names of the table's columns that can be mapped to a field."""
    header, first = _read_header(tx, job, order), find_part(tx, job, order, after=0)
    return uploads.list_columns(order.format, header, b"" if first is None else first.text)


def read_options(tx: ReadTransaction, job: Job, order: Import) -> ReadOptions:
    """The options for reading the table."""
    given = uploads.fields_by_name(list_columns(tx, job, order), order.fields)
    keep = keeper_of(order.ip_addresses, order.keep_addresses_days, job.created_at)
    products = find_words_for_products(tx) if "product_id" in order.fields else {}
    defaults = Defaults(job.created_at, keep, zone=ZoneInfo(order.zone), products=products)
    header = _read_header(tx, job, order)
    return ReadOptions(order.file_name, order.format, header, given, order.preset, defaults)


def _read_header(tx: ReadTransaction, job: Job, order: Import) -> bytes:
    """The header line of a CSV table; empty for other formats, or if it was deleted."""
    found = job_store.find_chunk(tx, job.id, after=0) if order.format is Format.CSV else None
    return b"" if found is None else found[1]


def find_part(tx: ReadTransaction, job: Job, order: Import, *, after: int) -> Part | None:
    """The first part of the table after this line; its lines are not counted."""
    start = max(after, HEADER) if order.format is Format.CSV else after
    found = job_store.find_chunk(tx, job.id, after=start)
    return None if found is None or found[0] > job_store.FAILED_LINES else Part(*found, 0)


def build_step(
    tx: ReadTransaction, order: Import, job: Job, fields: dict[str, Any], amount: int
) -> ImportStep:
    """Build the step that imports the next parts of the table, at most ``amount``."""
    options, position = read_options(tx, job, order), job.position
    licenses: list[ImportedLicense] = []
    rejects: list[Unusable] = []
    size = 0
    following = find_part(tx, job, order, after=position)
    while following is not None and amount and size < _STEP_BYTES:
        for one in uploads.read_part(options, following.first_line, following.text):
            if isinstance(one, ImportedLicense):
                licenses.append(one)
            else:
                rejects.append(one)
        position, size, amount = following.first_line, size + len(following.text), amount - 1
        following = find_part(tx, job, order, after=position)
    context: Context = fields["context"]
    return ImportStep(
        **fields,
        command=ImportLicenses(context=context, source=order.format.value, licenses=tuple(licenses)),
        reasons=tuple(f"Line {one.line}: {one.reason}." for one in rejects),
        rejects=uploads.write_rejects(rejects, has_header=job.refused > 0),
        next_position=position,
        is_last=following is None,
    )
