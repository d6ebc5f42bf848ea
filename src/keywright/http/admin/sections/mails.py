"""The outbox: mails that wait, and those of the last weeks."""

from starlette.responses import Response

from keywright.core.errors import NoSuchAddress
from keywright.delivery.mail import store
from keywright.delivery.mail.model import DecideHeld, SendAgain
from keywright.events.outbox import MailState
from keywright.http.admin.name_suggestions import read_number
from keywright.http.admin.periods import PAGE_SIZE
from keywright.http.admin.texts import MAIL_STATES, MAIL_TEXTS, mail_gaps
from keywright.http.pages.error_messages import explain
from keywright.http.pages.inputs import parse_number, require_id
from keywright.http.pages.languages import N_, _, ngettext
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.provisioning.customers import fold_email
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import find_by_emails

#: No mail goes to this customer.
_NOBODY = -(2**62)
#: The most mails of a state that are counted.
_MOST = 1_000


def _find_person(request: PageRequest, text: str) -> tuple[int | None, str]:
    """The customer with this address, name or number, and what is wrong with the text."""
    if not text:
        return None, ""
    try:
        if "@" in text:
            found = request.ask(lambda tx: find_by_emails(tx, {fold_email(text)}))
            return found.get(fold_email(text), _NOBODY), ""
        return request.ask(lambda tx: read_number(tx, NameKind.CUSTOMER, text)), ""
    except ValueError as reason:
        return _NOBODY, explain(reason)


class Mails(Section):
    """The mails that were queued. Every user may see them, without whole addresses."""

    label = N_("Mails")
    path = "/mails"
    group = N_("Connections")
    icon = "mail"
    right = Right.LOOK

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """The latest mails."""
        state = next((one for one in MailState if one == request.query.get("state", "")), None)
        before, who = parse_number(request.query.get("before", "")), request.query.get("to", "")
        customer_id, error = _find_person(request, who)
        found = request.ask(
            lambda tx: store.list_mails(
                tx, state=state, customer_id=customer_id, before_id=before, limit=PAGE_SIZE + 1
            )
        )
        shown = found[:PAGE_SIZE]
        return request.render(
            "mails/list.html",
            mails=shown,
            recipients=request.ask(lambda tx: store.find_masked_addresses(tx, shown)),
            next=shown[-1].id if len(found) > PAGE_SIZE else None,
            state=state,
            who=who,
            error=error,
            is_first=before is None,
            states=MAIL_STATES,
            templates=MAIL_TEXTS,
            waiting=request.ask(lambda tx: store.count_mails(tx, MailState.WAITING, most=_MOST)),
            held=request.ask(lambda tx: store.count_mails(tx, MailState.HELD, most=_MOST)),
            most=_MOST,
            gaps=mail_gaps(self.site.settings),
        )

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """One mail."""
        number = require_id(request.path_params["id"])
        mail = request.ask(lambda tx: store.find_mail(tx, number))
        if mail is None:
            raise NoSuchAddress
        recipient = request.ask(lambda tx: store.find_masked_addresses(tx, [mail])).get(mail.id)
        return request.render(
            "mails/show.html",
            mail=mail,
            recipient=recipient,
            states=MAIL_STATES,
            templates=MAIL_TEXTS,
        )

    @page("/{id:number}/again", methods=("POST",), right=Right.CHANGE)
    def send_again(self, request: PageRequest) -> Response:
        """Send a mail once more."""
        number = require_id(request.path_params["id"])
        request.change(SendAgain(context=request.context, mail_id=number))
        customer_id = parse_number(request.form.get("customer", ""))
        back = self.path if customer_id is None else f"/customers/{customer_id}"
        return request.redirect(back, _("The mail is queued again."))

    @page("/held", methods=("POST",), right=Right.ADMINISTER)
    def decide_held(self, request: PageRequest) -> Response:
        """Send or drop the mails that a restored backup has brought."""
        is_sent, decided = request.form.get("decision") == "send", 0
        while True:
            step = request.change(DecideHeld(context=request.context, is_sent=is_sent))
            decided += step.decided
            if step.is_complete:
                break
        if is_sent:
            text = ngettext("%(num)s mail is queued.", "%(num)s mails are queued.", decided)
        else:
            text = ngettext("%(num)s mail is dropped.", "%(num)s mails are dropped.", decided)
        return request.redirect(self.path, text)
