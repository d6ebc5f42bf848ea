"""The outbox, and the templates of mails: the built-in ones and the vendor's own."""

from typing import NamedTuple

from starlette.responses import HTMLResponse, Response

from keywright.background.mailer import mail_settings_of
from keywright.core.errors import NoSuchAddress
from keywright.db.transaction import ReadTransaction
from keywright.delivery.mail import letters, store
from keywright.delivery.mail import model as mail_model
from keywright.delivery.mail.defaults import CODES, Source, built_in, choose_language
from keywright.delivery.mail.html import LOGO
from keywright.delivery.mail.message import Composed, render_source
from keywright.delivery.mail.sandbox import MAX_SOURCE, BadTemplate
from keywright.events.model import MailState, MailTemplate
from keywright.http.admin.name_suggestions import read_number
from keywright.http.admin.periods import PAGE_SIZE, build_chips
from keywright.http.admin.texts import MAIL_STATES, MAIL_TEXTS, mail_gaps
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import N_, _, ngettext
from keywright.http.pages.forms import parse_number, require_id
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.provisioning.brand import Brand
from keywright.provisioning.customers import fold_email
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import find_brand, find_by_emails, list_names

#: An ID that no customer has, so that no mail matches it.
_NOBODY = -(2**62)
#: The most mails of a state that are counted.
_MOST = 1_000


def _find_person(request: PageRequest, text: str) -> tuple[int | None, str]:
    """The ID of the customer with this e-mail address, name or ID; and an error message about the text."""
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
    """The queued mails. Every user may view them, with masked addresses."""

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
            chips=build_chips(
                self.path,
                {"state": request.query.get("state"), "to": who},
                [
                    ("state", _("State"), "" if state is None else _(MAIL_STATES[state])),
                    ("to", _("Mails to the customer"), who),
                ],
            ),
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
        """Queue a mail again."""
        number = require_id(request.path_params["id"])
        request.change(mail_model.SendAgain(context=request.context, mail_id=number))
        customer_id = parse_number(request.form.get("customer", ""))
        back = self.path if customer_id is None else f"/customers/{customer_id}"
        return request.redirect(back, _("The mail was queued again."))

    @page("/held", methods=("POST",), right=Right.ADMINISTER)
    def decide_held(self, request: PageRequest) -> Response:
        """Send or drop the mails that a restored backup contained."""
        is_sent, decided = request.form.get("decision") == "send", 0
        while True:
            step = request.change(mail_model.DecideHeld(context=request.context, is_sent=is_sent))
            decided += step.decided
            if step.is_complete:
                break
        if is_sent:
            text = ngettext("%(num)s mail was queued.", "%(num)s mails were queued.", decided)
        else:
            text = ngettext("%(num)s mail was dropped.", "%(num)s mails were dropped.", decided)
        return request.redirect(self.path, text)


#: The most products that can be chosen from.
_MAX_PRODUCTS = 500
_MAX_SUBJECT = 500
#: The Content-Security-Policy for the preview of a mail: only inline styles and inline images are allowed.
_PREVIEW_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; base-uri 'none'; "
    "frame-ancestors 'none'"
)


class _Place(NamedTuple):
    """A template's name, product and language."""

    name: MailTemplate
    product_id: int
    language: str

    @property
    def path(self) -> str:
        return f"/mail-templates/{self.name}?language={self.language}&product={self.product_id}"


class MailTemplates(Section):
    """The templates; the page of mails links to them."""

    label = N_("Mail templates")
    path = "/mail-templates"
    in_menu = False
    right = Right.ADMINISTER

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """All templates, with the vendor's own."""
        own = request.ask(store.list_templates)
        products = request.ask(_list_products)
        return request.render(
            "mail_templates/list.html",
            templates=MAIL_TEXTS,
            own=own,
            products=products,
            languages=_languages(),
            gaps=mail_gaps(self.site.settings),
        )

    @page("/{name}", methods=("GET", "POST"))
    def edit(self, request: PageRequest) -> Response:
        """Edit a template, preview it with sample values, and save it."""
        place = _place_of(request)
        own = request.ask(lambda tx: _find_own(tx, place))
        language = choose_language(place.language, "en")
        source = built_in(place.name, language) if own is None else Source(own.subject, own.text, own.html)
        errors: dict[str, str] = {}
        if request.is_post:
            source = Source(
                request.form.get("subject", ""),
                request.form.raw("text").replace("\r\n", "\n"),
                request.form.raw("html").replace("\r\n", "\n"),
            )
            composed = self._compose(request, place, source, errors)
            if composed is not None and request.form.get("do") == "html":
                return _preview_page(composed, request.ask(find_brand))
            if composed is not None and request.form.get("do") != "preview":
                save = mail_model.SaveTemplate(context=request.context, **place._asdict(), **source._asdict())
                request.change(save)
                return request.redirect(place.path, _("The template was saved."))
        else:
            composed = self._compose(request, place, source, errors)
        return request.render(
            "mail_templates/edit.html",
            place=place,
            source=source,
            own=own,
            composed=composed,
            errors=errors if request.is_post else {},
            template_label=MAIL_TEXTS[place.name],
            products=request.ask(_list_products),
            languages=_languages(),
            max_source=MAX_SOURCE,
            gaps=mail_gaps(self.site.settings),
        )

    @page("/{name}/test", methods=("POST",))
    def send_sample(self, request: PageRequest) -> Response:
        """Send a test mail with sample values to the user."""
        place = _place_of(request)
        if request.user.email is None:
            message = _("Set your e-mail address under “My account” first.")
            return request.redirect(place.path, message, is_error=True)
        sample = mail_model.QueueSample(
            context=request.context,
            user_id=request.user.id,
            template=place.name,
            product_id=place.product_id or None,
            language=place.language,
        )
        request.change(sample)
        if self.site.settings.smtp_server is None:
            return request.redirect(place.path, _("The test mail is waiting: there is no mail server."))
        return request.redirect(place.path, _("The test mail is on its way."))

    @page("/{name}/delete", methods=("POST",))
    def delete(self, request: PageRequest) -> Response:
        """Delete the vendor's own template; the built-in one is used again."""
        place = _place_of(request)
        request.change(mail_model.DeleteTemplate(context=request.context, **place._asdict()))
        return request.redirect(place.path, _("The built-in template is used again."))

    def _compose(
        self, request: PageRequest, place: _Place, source: Source, errors: dict[str, str]
    ) -> Composed | None:
        """Render the mail with sample values. If it is invalid, add to ``errors`` and return None."""
        brand = request.ask(find_brand)
        mail_settings = mail_settings_of(self.site.settings)
        vendor = brand.name or mail_settings.vendor or _("Your company")
        mail_settings = mail_settings._replace(vendor=vendor)
        values = letters.sample_values(mail_settings, request.now)
        if not source.subject.strip() or len(source.subject) > _MAX_SUBJECT:
            errors["subject"] = _("Write a subject of at most %(number)s characters.", number=_MAX_SUBJECT)
        if not source.text.strip():
            errors["text"] = _("This field is required.")
        for field, part in (
            ("subject", Source(source.subject, "-")),
            ("text", Source("-", source.text)),
            ("html", Source("-", "-", source.html)),
        ):
            try:
                render_source(part, values, choose_language(place.language, "en"), Brand(), is_strict=True)
            except BadTemplate as problem:
                errors.setdefault(field, _sentence_of(problem))
        if errors:
            return None
        return render_source(source, values, choose_language(place.language, "en"), brand, is_strict=True)


def _sentence_of(problem: BadTemplate) -> str:
    if problem.line is None:
        return problem.sentence
    return _("Line %(line)s: %(problem)s", line=problem.line, problem=problem.sentence)


def _place_of(request: PageRequest) -> _Place:
    """The template in the address. Raises ``NoSuchAddress``."""
    name = next((one for one in MailTemplate if one == request.path_params["name"]), None)
    language = request.query.get("language", CODES[0])
    product_id = parse_number(request.query.get("product", "")) or mail_model.EVERY_PRODUCT
    if name is None or language not in CODES:
        raise NoSuchAddress
    return _Place(name, product_id, language)


def _find_own(tx: ReadTransaction, place: _Place) -> mail_model.OwnTemplate | None:
    own = store.find_template(tx, place.name, place.product_id, place.language)
    return own if own is not None and own.product_id == place.product_id else None


def _list_products(tx: ReadTransaction) -> dict[int, str]:
    return list_names(tx, NameKind.PRODUCT, after=0, limit=_MAX_PRODUCTS)


def _languages() -> dict[str, str]:
    return {code: choose_language(code, "en").name for code in CODES}


def _preview_page(composed: Composed, brand: Brand) -> Response:
    page = composed.html.replace(LOGO, f"data:{brand.logo_type};base64,{brand.logo}")
    return HTMLResponse(page, headers={"content-security-policy": _PREVIEW_POLICY})
