"""``keywright notice …``"""

from typing import Annotated

import msgspec
import typer

from keywright.cli import output
from keywright.cli.crud import Crud, Texts
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, command, with_installation
from keywright.cli.tables import Limit, print_list
from keywright.core.parsing import parse_integer
from keywright.jobs.model import Job, NotifyCustomers
from keywright.jobs.notifying import PreviewNotice
from keywright.licensing.updates.notices import NoticeState
from keywright.licensing.updates.notices_store import Preview
from keywright.provisioning.releases import notices

_TEXTS = Texts(
    create=(
        "--product-id 17 --title 'A crafted file runs code' --affected '< 3.2.1' --severity critical "
        "--security --fixed-in 3.2.1",
    ),
    list=("",),
    update=("--affected '>= 2, < 3.2.1'",),
    delete="Delete a notice that is not published and was not mailed to any customer.",
)
_CRUD = Crud(notices.NOTICE, _TEXTS, columns=("id", "product id", "affected", "severity", "title", "state"))
app = _CRUD.app
_Id = Annotated[int, typer.Argument(metavar="ID", parser=parse_integer, help="The notice's ID.")]


def _set_state(here: Installation, id: int, state: NoticeState, *, as_json: bool) -> None:
    saved = here.change(notices.SetNoticeState(context=here.context, notice_id=id, state=state))
    _CRUD.print_one(saved, f"Notice {id} is {saved.state}.", as_json=as_json)


@command(app, "keywright notice publish 5")
@with_installation
def publish(here: Installation, id: _Id, *, as_json: AsJson = False) -> None:
    """Publish a notice: from now on, answers to programs of an affected version contain it."""
    _set_state(here, id, NoticeState.PUBLISHED, as_json=as_json)


@command(app, "keywright notice withdraw 5")
@with_installation
def withdraw(here: Installation, id: _Id, *, as_json: AsJson = False) -> None:
    """Withdraw a notice: answers no longer contain it, and mails that are waiting are not sent."""
    _set_state(here, id, NoticeState.WITHDRAWN, as_json=as_json)


@command(app, "keywright notice preview 5")
@with_installation
def preview(here: Installation, id: _Id, *, as_json: AsJson = False) -> None:
    """Show how many customers have an affected device, and how many of them would get a mail."""
    found: Preview = here.ask(PreviewNotice(notice_id=id))
    shown = msgspec.to_builtins(found)
    if as_json:
        output.print_json(shown)
    else:
        shown["customer_ids"] = ", ".join(map(str, found.customer_ids)) or None
        output.print_fields([(name.replace("_", " "), value) for name, value in shown.items()])


@command(app, "keywright notice notify 5")
@with_installation
def notify(here: Installation, id: _Id) -> None:
    """Mail a notice to the customers with an affected device.

    The server does this in a job; no customer gets the notice twice.
    """
    job: Job = here.change(NotifyCustomers(context=here.context, notice_id=id))
    output.print_line(f"Job {job.id} started; `keywright notice recipients {id}` shows who was notified.")


@command(app, "keywright notice recipients 5", "keywright notice recipients 5 --json")
@with_installation
def recipients(here: Installation, id: _Id, *, limit: Limit = None, as_json: AsJson = False) -> None:
    """List the customers who were notified, with the time, and the state of the mail."""
    print_list(
        here,
        lambda paging: notices.ListRecipients(notice_id=id, paging=paging, where=notices.RecipientQuery()),
        limit=limit,
        as_json=as_json,
        columns=("customer", "e-mail", "version", "notified at", "state"),
        to_row=lambda one: [
            *(one.customer_id, one.email, one.app_version, output.format_time(one.created_at), one.state)
        ],
        to_json=msgspec.to_builtins,
    )
