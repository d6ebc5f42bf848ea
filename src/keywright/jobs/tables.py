"""The tables that imports bring: their parts are chunks of the job's file, by the number of their first line.

A CSV file's first line, with the names of its columns, is chunk 1.
"""

from typing import Any
from zoneinfo import ZoneInfo

from keywright.core.command import Context
from keywright.db import ReadTransaction
from keywright.jobs import store as job_store
from keywright.jobs.commands import ImportStep
from keywright.jobs.model import Job
from keywright.jobs.orders import Import
from keywright.provisioning.importers import uploads
from keywright.provisioning.importers.model import ImportedLicense, ImportLicenses
from keywright.provisioning.importers.rows import Defaults, keeper_of
from keywright.provisioning.importers.tables import Unusable
from keywright.provisioning.importers.uploads import Format, Part, ReadOptions

#: The chunk that is a CSV file's first line.
HEADER = 1
#: A step has no further part when it has so many bytes.
_STEP_BYTES = 64 * 1024


def list_columns(tx: ReadTransaction, job: Job, order: Import) -> list[str]:
    """The names of the table's columns that can have a field."""
    header, first = _read_header(tx, job, order), find_part(tx, job, order, after=0)
    return uploads.list_columns(order.format, header, b"" if first is None else first.text)


def read_options(tx: ReadTransaction, job: Job, order: Import) -> ReadOptions:
    """The options to read the table with."""
    given = uploads.fields_by_name(list_columns(tx, job, order), order.fields)
    keep = keeper_of(order.ip_addresses, order.keep_addresses_days, job.created_at)
    defaults = Defaults(job.created_at, keep, zone=ZoneInfo(order.zone))
    header = _read_header(tx, job, order)
    return ReadOptions(order.file_name, order.format, header, given, order.preset, defaults)


def _read_header(tx: ReadTransaction, job: Job, order: Import) -> bytes:
    """The first line of CSV; nothing for other tables, or if it was deleted."""
    found = job_store.find_chunk(tx, job.id, after=0) if order.format is Format.CSV else None
    return b"" if found is None else found[1]


def find_part(tx: ReadTransaction, job: Job, order: Import, *, after: int) -> Part | None:
    """The first part of the table after this line; its number of lines is not counted."""
    start = max(after, HEADER) if order.format is Format.CSV else after
    found = job_store.find_chunk(tx, job.id, after=start)
    return None if found is None or found[0] > job_store.FAILED_LINES else Part(*found, 0)


def build_step(
    tx: ReadTransaction, order: Import, job: Job, fields: dict[str, Any], amount: int
) -> ImportStep:
    """The step that brings the next parts of the table, at most so many."""
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
        brought=ImportLicenses(context=context, source=order.format.value, licenses=tuple(licenses)),
        reasons=tuple(f"Line {one.line}: {one.reason}." for one in rejects),
        rejects=uploads.write_rejects(rejects, has_header=job.refused > 0),
        next_position=position,
        is_last=following is None,
    )
