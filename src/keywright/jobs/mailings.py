"""Plan the next step of a job that mails customers a notice or their license files.

A license-file job first makes the files, in the order of licenses: each step stores one part of the job's
file per license, and a license with many devices has several parts. Then it mails them, in the order of
customers: positions below 0 encode customer IDs.
"""

from typing import Any

from keywright.db.transaction import ReadTransaction
from keywright.jobs import mailings_store, orders
from keywright.jobs.mailings_store import PARTS
from keywright.jobs.model import FilesStep, Job, JobStep, MailFilesStep, NotifyStep
from keywright.jobs.orders import MakeFiles, Notify
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.licensing.updates.notices_store import find_licenses
from keywright.licensing.updates.store import NOTICES
from keywright.provisioning.releases.notices import find_affects
from keywright.signing.commands import MakeLicenseFile

#: The maximum size of the parts in one mail, in bytes; a single part may be larger.
_MAIL_BYTES = 400_000
_CUSTOMERS_PER_STEP = 25


def next_step(
    tx: ReadTransaction, order: Notify | MakeFiles, job: Job, fields: dict[str, Any], size: int
) -> JobStep:
    """The next step of the job: about ``size`` files, or some mails."""
    if isinstance(order, Notify):
        return _notify_step(tx, order, fields)
    return _mail_step(tx, job, fields) if job.position < 0 else _files_step(tx, order, job, fields, size)


def _notify_step(tx: ReadTransaction, order: Notify, fields: dict[str, Any]) -> NotifyStep:
    notice, found, after = NOTICES.find(tx, order.notice_id), list[int](), None
    if notice is not None:
        found, after = find_licenses(tx, notice, find_affects(tx, notice), fields["position"])
    return NotifyStep(
        **fields,
        notice_id=order.notice_id,
        license_ids=tuple(found),
        last_id=fields["position"] if after is None else after,
        is_last=after is None,
    )


def _files_step(
    tx: ReadTransaction, order: MakeFiles, job: Job, fields: dict[str, Any], size: int
) -> FilesStep:
    last_id, part = divmod(job.position, PARTS)
    found = mailings_store.list_license_ids(
        tx,
        order.search.product_id,
        after_id=last_id - (part > 0),
        last_id=orders.parameters_of(job).last_license_id,
        limit=size,
    )
    files, position, after_device, cut = list[MakeLicenseFile](), job.position, 0, list[int]()
    for license_id in found:
        part, first = (part, _after_device(job)) if part and license_id == last_id else (0, 0)
        devices = mailings_store.list_devices(tx, license_id, after_device=first, limit=size + 1)
        if files and len(files) + len(devices) > size:
            break
        # Without a device, the terms decide whether there is a file for any device.
        tokens: list[str | None] = [token for _, token in devices[:size]]
        files += [_make(order, fields, license_id, token) for token in tokens or [None] * (not part)]
        position = license_id * PARTS
        if len(devices) > size:
            if part + 1 < PARTS:
                position, after_device = position + part + 1, devices[size - 1][0]
                break
            cut.append(license_id)
    return FilesStep(
        **fields,
        files=tuple(files),
        next_position=position if found else -1,
        after_device=after_device,
        cut=tuple(cut),
        is_last=not found and not order.is_mailed,
    )


def _after_device(job: Job) -> int:
    return orders.parameters_of(job).outcomes.get("after_device", 0)


def _make(order: MakeFiles, fields: dict[str, Any], license_id: int, token: str | None) -> MakeLicenseFile:
    return MakeLicenseFile(
        context=fields["context"],
        license=license_id,
        token=token,
        alg=order.alg,
        ends_at=order.ends_at or END_OF_TIME,
        is_recorded=True,
    )


def _mail_step(tx: ReadTransaction, job: Job, fields: dict[str, Any]) -> MailFilesStep:
    """Group each customer's parts into mails of limited size."""
    owners = mailings_store.list_owners(tx, after_id=-1 - job.position, limit=_CUSTOMERS_PER_STEP)
    mails, unreachable, room = list[tuple[int, list[int]]](), set[int](), 0
    for customer_id, number, size, has_address in mailings_store.list_parts_of(tx, job.id, owners):
        if not has_address:
            unreachable.add(customer_id)
            continue
        if not mails or mails[-1][0] != customer_id or size > room:
            mails.append((customer_id, []))
            room = _MAIL_BYTES
        mails[-1][1].append(number)
        room -= size
    return MailFilesStep(
        **fields,
        mails=tuple((customer_id, tuple(numbers)) for customer_id, numbers in mails),
        unreachable=len(unreachable),
        next_position=-1 - owners[-1] if owners else job.position,
        is_last=len(owners) < _CUSTOMERS_PER_STEP,
    )
