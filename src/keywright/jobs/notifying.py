"""Mail a notice once to each customer with an affected device."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command, Cost, Query
from keywright.core.errors import FieldError, InvalidNotice, NotFound
from keywright.core.nouns import ItemPage
from keywright.db.transaction import ReadTransaction
from keywright.events.model import MailTemplate, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from keywright.jobs import orders
from keywright.jobs.handlers import end, lock_step, save_progress, start_job
from keywright.jobs.model import Job, JobState, NotifyCustomers, NotifyStep
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.updates import notices_store as store
from keywright.licensing.updates.notices import Notice, NoticeState
from keywright.licensing.updates.notices_store import Affected, Preview, Recipient
from keywright.licensing.updates.store import NOTICES
from keywright.provisioning.releases.notices import ListRecipients, find_affects
from keywright.search.filters import Search

_WITHDRAWN = "The notice is no longer published."


class PreviewNotice(Query, frozen=True, kw_only=True):
    """The customers who would be notified now."""

    cost = Cost.LIST

    notice_id: int
    only_product_id: int | None = None


def get_notice(tx: ReadTransaction, notice_id: int, only_product_id: int | None = None) -> Notice:
    """The notice with this ID. Raises ``NotFound``."""
    notice = NOTICES.find(tx, notice_id)
    if notice is None or only_product_id not in (None, notice.product_id):
        raise NotFound(f"notice {notice_id}")
    return notice


def preview(read: Any, query: PreviewNotice) -> Preview:
    """The customers with an affected device now. Raises ``NotFound``."""
    notice = get_notice(read.tx, query.notice_id, query.only_product_id)
    return store.preview(read.tx, notice, find_affects(read.tx, notice))


def list_recipients(read: Any, query: ListRecipients) -> ItemPage[Recipient]:
    """A page of the notified customers. Raises ``NotFound``."""
    get_notice(read.tx, query.notice_id)
    return store.list_recipients(read.tx, query.notice_id, query.paging)


def notify_customers(work: LicenseWork, command: NotifyCustomers) -> Job:
    """Start the job. Raises ``NotFound``, ``InvalidNotice``, ``TooManyJobs``."""
    notice = get_notice(work.tx, command.notice_id, command.only_product_id)
    if notice.state is not NoticeState.PUBLISHED:
        raise InvalidNotice(
            (FieldError("/state", "invalid", "must be published before customers are notified"),)
        )
    order = orders.Notify(notice_id=notice.id, search=Search(product_id=notice.product_id))
    return start_job(work, orders.start_command(order, total=command.total, context=command.context))


def notify_step(work: LicenseWork, step: NotifyStep) -> Job:
    """Queue some more mails; fail the job if the notice is no longer published. Raises ``StepOver``."""
    job = lock_step(work, step)
    if job.finished_at is not None:
        return job
    notice = NOTICES.find(work.tx, step.notice_id)
    if notice is None or notice.state is not NoticeState.PUBLISHED:
        return end(work, step, replace(job, messages=_WITHDRAWN), JobState.FAILED)
    found = store.list_affected(work.tx, notice, find_affects(work.tx, notice), step.license_ids)
    addresses = store.find_addresses(work.tx, found)
    amount, unreachable = 0, []
    for one in found:
        email = addresses.get(one.customer_id)
        if not store.save_recipient(work.tx, notice.id, one, email, step.context.now):
            continue
        amount += 1
        if email is None:
            unreachable.append(f"Customer {one.customer_id}: no e-mail address.")
        else:
            _queue(work, step, notice, one)
    return save_progress(work, step, job, amount=amount, position=step.last_id, refusals=unreachable)


def _queue(work: LicenseWork, step: NotifyStep, notice: Notice, affected: Affected) -> None:
    mail = QueuedMail(
        template=MailTemplate.NOTICE,
        unique=f"notice {notice.id} {affected.customer_id}",
        customer_id=affected.customer_id,
        product_id=notice.product_id,
        subject=Subject(notice_id=notice.id),
    )
    queue_mail(work.tx, mail, step.context.now)


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    NotifyCustomers: notify_customers,
    NotifyStep: notify_step,
}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    PreviewNotice: preview,
    ListRecipients: list_recipients,
}
