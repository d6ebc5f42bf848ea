"""``keywright mail …``"""

from typing import TYPE_CHECKING, Annotated

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, WrongUsage, command, with_installation
from keywright.core.parsing import parse_integer, write_time

if TYPE_CHECKING:
    from datetime import datetime

    from keywright.events.model import OutboxMail

app = typer.Typer(no_args_is_help=True)

_MailId = Annotated[
    int,
    typer.Argument(metavar="ID", parser=parse_integer, help="The mail's ID; `keywright mail list` shows it."),
]
_State = Annotated[
    str | None,
    typer.Option(
        "--state", metavar="NAME", help="Only mails in this state: waiting, held, sent, failed or dropped."
    ),
]
_Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="The recipient of the test mail.")]
_MOST = 100


@command(app, "keywright mail list", "keywright mail list --state failed", name="list")
@with_installation
def list_all(here: Installation, *, state: _State = None, as_json: AsJson = False) -> None:
    """List the latest mails, newest first, at most 100."""
    from keywright.db import run_read
    from keywright.delivery.mail import store
    from keywright.events.model import MailState

    if state is not None and state not in tuple(MailState):
        raise WrongUsage(f"there is no state {state}; choose one of {', '.join(MailState)}")
    wanted = None if state is None else MailState(state)
    found = run_read(here.storage, lambda tx: store.list_mails(tx, state=wanted, before_id=None, limit=_MOST))
    to = run_read(here.storage, lambda tx: store.find_masked_addresses(tx, found))
    rows = [_fields(one, to.get(one.id)) for one in found]
    if as_json:
        output.print_json([dict(row) for row in rows])
        return
    shown = ("id", "template", "to", "state", "queued at", "error")
    output.print_table(shown, [tuple(dict(row)[name] for name in shown) for row in rows])


@command(app, "keywright mail show 7")
@with_installation
def show(here: Installation, mail_id: _MailId, *, as_json: AsJson = False) -> None:
    """Show a mail.

    Its text is not stored: it is rendered when the mail is sent.
    """
    from keywright.core.errors import NotFound
    from keywright.db import run_read
    from keywright.delivery.mail import store

    mail = run_read(here.storage, lambda tx: store.find_mail(tx, mail_id))
    if mail is None:
        raise NotFound(f"mail {mail_id}")
    to = run_read(here.storage, lambda tx: store.find_masked_addresses(tx, [mail])).get(mail.id)
    fields = _fields(mail, to)
    output.print_json(dict(fields)) if as_json else output.print_fields(fields)


@command(app, "keywright mail retry 7")
@with_installation
def retry(here: Installation, mail_id: _MailId) -> None:
    """Send a mail again that failed, is held or was dropped; of a mail that was sent, send a copy."""
    from keywright.delivery.mail.model import SendAgain

    here.change(SendAgain(context=here.context, mail_id=mail_id))
    output.print_line("The mail is queued; a running server sends it at once.")


@command(app, "keywright mail test ada@example.com")
@with_installation
def test(here: Installation, address: _Address) -> None:
    """Send a test mail at once, bypassing the outbox, and show whether the SMTP server accepted it."""
    from keywright.background.mailer import send_test_mail
    from keywright.core.errors import ConfigurationError
    from keywright.delivery.mail.model import Fate

    server = here.settings.smtp_server
    if server is None:
        raise ConfigurationError("smtp_url is not set: set smtp_url and mail_from in the settings.")
    outcome = send_test_mail(here.settings, address, here.context.now)
    if outcome.fate is not Fate.SENT:
        raise ConfigurationError(f"the test mail was not sent. {outcome.reason}")
    output.print_line(f"{server.host} accepted the test mail.")


@command(app, "keywright mail templates")
@with_installation
def templates(here: Installation, *, as_json: AsJson = False) -> None:
    """List your own mail templates, which replace built-in ones."""
    from keywright.db import run_read
    from keywright.delivery.mail import store

    own = run_read(here.storage, store.list_templates)
    rows = [(one.name.value, one.language, one.product_id or None, write_time(one.updated_at)) for one in own]
    columns = ("template", "language", "product", "saved at")
    if as_json:
        output.print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        output.print_table(columns, rows)


def _fields(mail: "OutboxMail", to: str | None) -> list[tuple[str, object]]:
    return [
        ("id", mail.id),
        ("template", mail.template.value),
        ("to", to),
        ("state", mail.state.value),
        ("queued at", write_time(mail.created_at)),
        ("next attempt at", _time(mail.next_attempt_at)),
        ("finished at", _time(mail.finished_at)),
        ("attempts", mail.attempts),
        ("attempts without an answer", mail.unanswered),
        ("error", mail.error),
        ("message id", mail.message_id),
    ]


def _time(moment: "datetime | None") -> str | None:
    return None if moment is None else write_time(moment)
