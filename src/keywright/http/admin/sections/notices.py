"""Notices about versions of a product, and the customers who are notified of them."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from keywright.core.command import Command
from keywright.core.errors import InvalidNotice, UnknownReference
from keywright.core.nouns import Create, Paging
from keywright.db import ReadTransaction
from keywright.http.admin.crud import CrudSection, FormField
from keywright.http.admin.noun_pages import translate_states
from keywright.http.admin.periods import read_page
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import N_, _, ngettext
from keywright.http.pages.forms import Inputs
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.jobs.model import NotifyCustomers
from keywright.licensing.updates import notices_store as store
from keywright.licensing.updates.notices import Notice, NoticeState
from keywright.licensing.updates.notices_store import Preview
from keywright.licensing.updates.store import NOTICES
from keywright.provisioning.exporters import PAGE, Export, Row, as_csv
from keywright.provisioning.releases.notices import NOTICE, SetNoticeState, find_affects
from keywright.provisioning.store import PRODUCTS, find_titles

_CSV = ("customer_id", "email", "app_version", "created_at", "state", "finished_at", "error")


def _severities() -> dict[str, str]:
    return {
        "info": _("information"),
        "low": _("low"),
        "medium": _("medium"),
        "high": _("high"),
        "critical": _("critical"),
    }


def _recipient_states() -> dict[str, str]:
    return {
        "unreachable": _("no address"),
        "waiting": _("waiting"),
        "sent": _("sent"),
        "failed": _("failed"),
        "dropped": _("not sent"),
    }


class Notices(CrudSection):
    """The notices; a product's page lists its own."""

    label, path, icon = N_("Notices"), "/notices", "box"
    in_menu = False
    noun, records = NOTICE, NOTICES
    new_title, edit_title = N_("New notice"), N_("Edit %(name)s")
    created = N_("The notice was saved as a draft. Publish it when it is ready.")
    saved = N_("The notice was saved.")
    deleted = N_("The notice was deleted.")
    undone = N_("Undone: the notice is as before.")
    question = N_("Delete the notice %(name)s?")
    warnings = (N_("Only a notice that was never mailed to a customer can be deleted."),)

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """The notices of all products, by ID."""
        shown = self.read_page(request)
        return request.render(
            "notices/list.html", shown=shown, states=translate_states(), severities=_severities()
        )

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A notice and its recipients."""
        one: Notice = self.get(request)
        shown = read_page(request, lambda tx, paging: store.list_recipients(tx, one.id, paging))
        owners = {each.customer_id for each in shown.items if each.customer_id is not None}
        values: dict[str, Any] = request.ask(
            lambda tx: {
                "product": PRODUCTS.find(tx, one.product_id),
                "titles": find_titles(tx, owners),
                "counts": store.count_states(tx, one.id),
            }
        )
        return request.render(
            "notices/show.html",
            notice=one,
            shown=shown,
            states=translate_states(),
            severities=_severities(),
            recipient_states=_recipient_states(),
            **values,
        )

    @page("/{id:number}/recipients.csv")
    def export(self, request: PageRequest) -> Response:
        """The recipients of a notice, as CSV."""
        one = self.get(request)
        return request.download(
            f"notice-{one.id}-{request.now:%Y%m%d}.csv", as_csv(request.ask, _export(one.id))
        )

    @page("/{id:number}/publish", methods=("GET", "POST"), right=Right.CHANGE)
    def publish(self, request: PageRequest) -> Response:
        """Publish a notice."""
        sentences = [_("Within seconds, answers to programs with an affected version contain the notice.")]
        return self._set_state(request, NoticeState.PUBLISHED, sentences)

    @page("/{id:number}/withdraw", methods=("GET", "POST"), right=Right.CHANGE)
    def withdraw(self, request: PageRequest) -> Response:
        """Withdraw a notice."""
        sentences = [
            _("Answers no longer contain the notice, and mails about it that are still waiting are not sent.")
        ]
        return self._set_state(request, NoticeState.WITHDRAWN, sentences)

    def _set_state(self, request: PageRequest, state: NoticeState, sentences: list[str]) -> Response:
        one: Notice = self.get(request)
        back, is_publishing = f"{self.path}/{one.id}", state is NoticeState.PUBLISHED
        if request.is_post:
            request.change(SetNoticeState(context=request.context, notice_id=one.id, state=state))
            done = _("The notice was published.") if is_publishing else _("The notice was withdrawn.")
            return request.redirect(back, done)
        name, button = one.title, _("Publish") if is_publishing else _("Withdraw")
        question = _("Publish %(name)s?", name=name) if is_publishing else _("Withdraw %(name)s?", name=name)
        return request.confirm(question, sentences, button=button, back=back, is_danger=not is_publishing)

    @page("/{id:number}/notify", methods=("GET", "POST"), right=Right.CHANGE)
    def notify(self, request: PageRequest) -> Response:
        """Show which customers would be notified, and start the job."""
        one: Notice = self.get(request)
        found = request.ask(lambda tx: store.preview(tx, one, find_affects(tx, one)))
        if request.is_post:
            total = found.to_notify + found.unreachable
            command = NotifyCustomers(context=request.context, notice_id=one.id, total=total)
            try:
                return change_once(request, command, lambda job: Redirect(f"/jobs/{job.id}"))
            except InvalidNotice:
                error = _("Only a published notice can be mailed.")
                return request.redirect(f"{self.path}/{one.id}", error, is_error=True)
        titles = request.ask(lambda tx: find_titles(tx, found.customer_ids))
        return request.confirm(
            _("Notify the customers of %(name)s?", name=one.title),
            _describe(found, [titles.get(number, str(number)) for number in found.customer_ids]),
            button=ngettext("Mail %(num)s customer", "Mail %(num)s customers", found.to_notify),
            back=f"{self.path}/{one.id}",
            is_danger=False,
        )

    def complete(self, inputs: Inputs, values: dict[str, Any], one: Any) -> None:
        """Read whether the notice is about security, which the form offers as a choice."""
        values["is_security"] = inputs.read("is_security", str) == "yes"

    def shown(self, one: Notice) -> dict[str, Any]:
        """The values that the form shows, by field."""
        return super().shown(one) | {"is_security": one.is_security}

    def kept(self, one: Notice) -> dict[str, Any]:
        """The values that are restored after a deletion, as a draft with a new ID."""
        return super().kept(one) | {"product_id": one.product_id}

    def to_new(self, request: PageRequest, values: Mapping[str, Any]) -> Create:
        """The command that creates a notice; the database assigns its ID."""
        return super().to_new(request, {name: value for name, value in values.items() if name != "id"})

    def more_fields(self, request: PageRequest, one: Notice | None) -> list[FormField]:
        """The choice whether the notice is about security."""
        before = "yes" if one is not None and one.is_security else "no"
        value = request.form.raw("is_security") if request.is_post else before
        options = [("no", _("no")), ("yes", _("yes"))]
        return [FormField("is_security", _("About security"), value, required=True, options=options)]

    def name_of(self, one: Notice) -> str:
        """The notice's title."""
        return one.title

    def _submit(
        self, request: PageRequest, command: Command, inputs: Inputs, one: Any, **more: Any
    ) -> Response:
        try:
            return super()._submit(request, command, inputs, one, **more)
        except InvalidNotice as refusal:
            inputs.errors |= {each.pointer[1:]: explain(each.detail) for each in refusal.errors}
        except UnknownReference:
            inputs.errors["product_id"] = _("There is no such product.")
        return self._render(request, inputs, one)


def _describe(found: Preview, names: list[str]) -> list[str]:
    """Which customers a job would notify, in words."""
    sentences = [
        ngettext(
            "%(num)s customer has a device with an affected version.",
            "%(num)s customers have a device with an affected version.",
            found.customers,
        ),
        ngettext(
            "%(num)s of them will get a mail, in their language.",
            "%(num)s of them will get a mail, each in their language.",
            found.to_notify,
        ),
    ]
    if names:
        more = "" if found.to_notify <= len(names) else " …"
        sentences.append(", ".join(names) + more)
    if found.notified:
        sentences.append(_("Already notified: %(num)s.", num=found.notified))
    if found.unreachable:
        sentences.append(_("Without an e-mail address, not reachable: %(num)s.", num=found.unreachable))
    if found.licenses_without_customer:
        amount = found.licenses_without_customer
        sentences.append(_("Licenses without a customer, not reachable: %(num)s.", num=amount))
    return sentences


def _export(notice_id: int) -> Export:
    """The export of a notice's recipients, by ID."""

    def read(tx: ReadTransaction, after: int) -> tuple[list[Row], int]:
        paging = Paging(sort="id", after=(after, after), limit=PAGE)
        found = store.list_recipients(tx, notice_id, paging).items[:PAGE]
        return [[getattr(one, name) for name in _CSV] for one in found], found[-1].id if found else after

    return Export(_CSV, 0, read)
