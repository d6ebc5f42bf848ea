"""Make a license file for every license and device that may have one, and mail them to the customers: for
vendors who will shut down their server.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from keywright.core.command import Command, Cost, Query
from keywright.core.errors import Refusal
from keywright.db.transaction import ReadTransaction
from keywright.events.model import MailTemplate, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from keywright.jobs import mailings_store, orders
from keywright.jobs import store as job_store
from keywright.jobs.handlers import join_lines, lock_step, save_progress
from keywright.jobs.mailings_store import PARTS, FilesPreview
from keywright.jobs.model import FilesStep, Job, MailFilesStep
from keywright.licensing.licenses.model import Status
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.unit_of_work import LicenseWork
from keywright.signing.commands import MakeLicenseFile
from keywright.signing.handlers import load_keys, make_license_file
from keywright.signing.model import LoadedKeys

#: Why some devices of a license get no file.
_CUT = "it has too many devices: its newest ones have no file; make one for each device that needs it"


class PreviewFiles(Query, frozen=True, kw_only=True):
    """What a job would make files for, for this product or all products."""

    cost = Cost.LIST

    product_id: int | None
    now: datetime


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the job's file: a license file, and what it is for. ``activation_id`` is None if it fits any
    device, ``valid_until`` if it never expires.
    """

    license_id: int
    license_key: str
    product_id: int | None
    customer_id: int | None
    activation_id: int | None
    fingerprint: str | None
    device: str | None
    valid_until: datetime | None
    file: str

    @property
    def name(self) -> str:
        """The file name."""
        place = "" if self.activation_id is None else f"-{self.activation_id}"
        return f"license-{self.license_id}{place}.txt"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredFile).decode_lines


def preview(read: Any, query: PreviewFiles) -> FilesPreview:
    """Count the licenses, devices and customers."""
    return mailings_store.preview(read.tx, query.product_id, query.now)


def find_files(
    tx: ReadTransaction, job_id: int, parts: Collection[int], customer_id: int
) -> list[StoredFile]:
    """The files in these parts that are still useful to the customer: the license has the same owner and key,
    and is not disabled.
    """
    lines = mailings_store.find_parts(tx, job_id, parts)
    found = [one for some in lines for one in _decode(some)]
    licenses = find_licenses_by_id(tx, {one.license_id for one in found})
    good = {
        (one.id, one.key)
        for one in licenses.values()
        if one.customer_id == customer_id and one.status != Status.DISABLED
    }
    return [one for one in found if (one.license_id, one.license_key) in good]


def files_step(work: LicenseWork, step: FilesStep) -> Job:
    """Make some more license files. Raises ``StepOver``."""
    job = lock_step(work, step)
    if job.finished_at is not None:
        return job
    last_id, part = divmod(step.position, PARTS)
    parts, counts, refusals, looked_at = [], Counter[str](), list[str](), 0
    ends_at = max((one.ends_at for one in step.files if one.ends_at is not None), default=step.context.now)
    keys = load_keys(work, step, ends_at)
    for license_id, commands in groupby(step.files, lambda one: int(one.license)):
        index = part if license_id == last_id else 0
        files, reason = _make(work, commands, keys)
        looked_at += not index
        if files:
            parts.append((license_id * PARTS + index, b"".join(_encode(one) + b"\n" for one in files)))
            counts["files"] += len(files)
            counts["without_customer"] += not index and files[0].customer_id is None
        elif not index:
            refusals.append(f"License {license_id}: {reason}.")
    refusals += [f"License {one}: {_CUT}." for one in step.cut]
    job_store.save_chunks(work.tx, job.id, parts)
    places = {"after_device": step.after_device}
    if parts:
        places["last_part"] = parts[-1][0]
    job = _count(work, step, job, counts, places)
    return save_progress(work, step, job, amount=looked_at, position=step.next_position, refusals=refusals)


def _make(
    work: LicenseWork, commands: Iterable[MakeLicenseFile], keys: LoadedKeys
) -> tuple[list[StoredFile], str]:
    """The files of a license, and the last reason for refusing one."""
    files, reason = list[StoredFile](), ""
    for command in commands:
        try:
            files.append(_make_one(work, command, keys))
        except Refusal as refusal:
            reason = orders.reason_of(refusal)
    return files, reason


def _make_one(work: LicenseWork, command: MakeLicenseFile, keys: LoadedKeys) -> StoredFile:
    made, license = make_license_file(work, command, keys), work.get_license(command)
    device = made.activation
    return StoredFile(
        license_id=license.id,
        license_key=license.key,
        product_id=license.product_id,
        customer_id=license.customer_id,
        activation_id=None if device is None else device.id,
        fingerprint=None if device is None else device.fingerprint,
        device=None if device is None else device.label,
        valid_until=None if made.ends_at == END_OF_TIME else made.ends_at,
        file=made.content.decode(),
    )


def mail_step(work: LicenseWork, step: MailFilesStep) -> Job:
    """Queue some more mails. Raises ``StepOver``."""
    job = lock_step(work, step)
    if job.finished_at is not None:
        return job
    product_id = getattr(orders.search_of(job), "product_id", None)
    for customer_id, parts in step.mails:
        mail = QueuedMail(
            template=MailTemplate.LICENSE_FILES,
            unique=f"files {job.id} {customer_id} {parts[0]}",
            customer_id=customer_id,
            product_id=product_id,
            subject=Subject(job_id=job.id, parts=parts),
        )
        queue_mail(work.tx, mail, step.context.now)
    counts = Counter(mails=len(step.mails), unreachable=step.unreachable)
    job = _count(work, step, job, counts, {})
    return save_progress(work, step, job, amount=0, position=step.next_position)


def _count(
    work: LicenseWork, step: FilesStep | MailFilesStep, job: Job, counts: Counter[str], places: dict[str, int]
) -> Job:
    """Save the job with the counts so far; on its last step, summarize them in its messages."""
    parameters = orders.parameters_of(job)
    outcomes = Counter(parameters.outcomes) + counts
    job = replace(job, parameters=asdict(replace(parameters, outcomes=dict(outcomes) | places)))
    job_store.save_parameters(work.tx, job)
    if not step.is_last:
        return job
    summary = (
        f"Files: {outcomes['files']}. Mails: {outcomes['mails']}. Licenses without a customer: "
        f"{outcomes['without_customer']}. Customers without an e-mail address: {outcomes['unreachable']}."
    )
    return replace(job, messages=join_lines(summary, job.messages))


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    FilesStep: files_step,
    MailFilesStep: mail_step,
}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {PreviewFiles: preview}
