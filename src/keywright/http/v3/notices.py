"""Notices to those who run certain versions of a product, and who was notified."""

from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import jobs, lists
from keywright.http.v3.answers import accepted, etag_of, ok
from keywright.http.v3.call import Call
from keywright.http.v3.crud import Texts, crud_routes
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page
from keywright.jobs import model
from keywright.jobs.model import NotifyCustomers
from keywright.jobs.notifying import PreviewNotice
from keywright.licensing.updates.notices import Notice, NoticeState
from keywright.licensing.updates.notices_store import Preview, Recipient
from keywright.provisioning.releases.notices import NOTICE, ListRecipients, RecipientQuery, SetNoticeState


async def publish_notice(call: Call) -> Answer:
    """Publish a notice.

    From now on, the answers to programs of an affected version have it; servers know it within seconds. One
    that was withdrawn can be published again.
    """
    return await _set_state(call, NoticeState.PUBLISHED)


async def withdraw_notice(call: Call) -> Answer:
    """Withdraw a notice.

    It is in no answer any more, and mails about it that wait are not sent. A draft stays a draft.
    """
    return await _set_state(call, NoticeState.WITHDRAWN)


async def preview_notice(call: Call) -> Answer:
    """Preview a notice.

    Who has an affected device now: one that holds its place and last named an affected version, whatever the
    state of its license. Slow where a product has very many devices.
    """
    query = PreviewNotice(**call.named("notice_id"))
    return await call.ask(query, ok)


async def notify_customers(call: Call) -> Answer:
    """Notify the customers.

    Mails exactly the customers who have an affected device, as a job: one mail each, in their language, and
    never twice about one notice. Asked again later, those get a mail who have such a device since then, or an
    address.
    """
    command = NotifyCustomers(context=call.context, **call.named("notice_id"))

    def write(job: model.Job) -> Answer:
        return accepted(jobs.show(job), f"{call.root}/jobs/{job.id}")

    return await call.change(command, write)


async def list_notice_recipients(call: Call, query: RecipientQuery) -> Answer:
    """List who was notified.

    And when, and what became of the mail: `waiting`, `sent` to the mail server, `failed`, or `dropped`
    because the notice was withdrawn before; `unreachable` customers have no address. Kept for
    `keep_notices_days`; of customers who were erased, only the time is left.
    """
    asked = ListRecipients(notice_id=call.path["notice_id"], paging=lists.read_paging(call), where=query)
    return await call.ask(asked, lambda page: lists.answer_items(call, page, lambda one: one))


async def _set_state(call: Call, state: NoticeState) -> Answer:
    command = SetNoticeState(context=call.context, **call.named("notice_id"), state=state)
    return await call.change(command, lambda one: ok(one, etag=etag_of(one)))


_ONE = "/notices/{notice_id}"
ROUTES = (
    *crud_routes(
        NOTICE,
        Texts(
            create="A draft: programs get it once it is published. An API key of its product is enough.",
            delete="Only one of which nobody was notified, and that is not published.",
            update="What is not sent stays. Of one that is published, programs get the change.",
        ),
        example={"product_id": 17, "title": "A crafted file runs code", "affected": "< 3.2.1"},
        change={"fixed_in": "3.2.1"},
        refusals={"PATCH": ("changed_meanwhile",), "DELETE": ("still_in_use", "changed_meanwhile")},
    ),
    Route(
        "POST",
        f"{_ONE}/publish",
        Right.WRITE,
        publish_notice,
        gives=Notice,
        refusals=("not_found", "still_in_use"),
    ),
    Route(
        "POST",
        f"{_ONE}/notify",
        Right.WRITE,
        notify_customers,
        gives=jobs.Job,
        status=202,
        refusals=("not_found", "invalid"),
    ),
    Route("POST", f"{_ONE}/withdraw", Right.WRITE, withdraw_notice, gives=Notice, refusals=("not_found",)),
    Route("GET", f"{_ONE}/preview", Right.READ, preview_notice, gives=Preview, refusals=("not_found",)),
    Route(
        "GET",
        f"{_ONE}/recipients",
        Right.READ,
        list_notice_recipients,
        gives=Page[Recipient],
        refusals=("not_found",),
        needs_all_products=True,
    ),
)
