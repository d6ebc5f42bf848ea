"""Notices to customers who run certain versions of a product, and their recipients."""

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

    From now on, answers to programs with an affected version contain the notice; all servers apply this
    within seconds. A withdrawn notice can be published again.
    """
    return await _set_state(call, NoticeState.PUBLISHED)


async def withdraw_notice(call: Call) -> Answer:
    """Withdraw a notice.

    Answers no longer contain the notice, and mails about it that are still waiting are not sent. A draft
    remains a draft.
    """
    return await _set_state(call, NoticeState.WITHDRAWN)


async def preview_notice(call: Call) -> Answer:
    """Preview a notice.

    Reports who has an affected device now: an activated device that last reported an affected version,
    whatever the state of its license. Slow for a product with very many devices.
    """
    query = PreviewNotice(**call.named("notice_id"))
    return await call.ask(query, ok)


async def notify_customers(call: Call) -> Answer:
    """Notify the affected customers.

    Starts a job that mails the customers who have an affected device, and no others: one mail each, in their
    language, and never twice about the same notice. Call it again later to reach customers who have got an
    affected device, or an address, since then.
    """
    command = NotifyCustomers(context=call.context, **call.named("notice_id"))

    def write(job: model.Job) -> Answer:
        return accepted(jobs.show(job), f"{call.root}/jobs/{job.id}")

    return await call.change(command, write)


async def list_notice_recipients(call: Call, query: RecipientQuery) -> Answer:
    """List the recipients of a notice.

    Returns each recipient with the time and the state of the mail: `waiting`, `sent` to the mail server,
    `failed`, or `dropped` because the notice was withdrawn first; `unreachable` customers have no address.
    Recipients are kept for `keep_notices_days`; of erased customers, only the time remains.
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
            create="Creates a draft, which programs get once it is published. An API key for only its "
            "product may do this, too.",
            delete="Only an unpublished notice that was never mailed to a customer can be deleted.",
            update="Omitted members keep their values. If the notice is published, programs get the change.",
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
