"""Pages for signing in to the portal, and for the customer's account.

Known and unknown e-mail addresses get the same response. Opening a mailed link does not use it up; it shows a
button, because mail scanners open links.
"""

import secrets
from typing import Any

import msgspec
from starlette.responses import Response

from keywright.core import errors as e
from keywright.core.parsing import parse_name
from keywright.http.pages.formats import _
from keywright.http.portal.page import Needs, Page
from keywright.http.portal.request import PortalRequest
from keywright.identity.passwords import is_link_token
from keywright.identity.sessions import hash_session_token, new_session_token
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH
from keywright.licensing.licenses.model import License
from keywright.maintenance.personal_data import find_customer_data
from keywright.provisioning.customers import CustomerFields, UpdateCustomer, parse_email
from keywright.provisioning.portal import model as portal_model
from keywright.provisioning.portal.store import browser_mark, find_marked

_MAX_CODE, _MAX_TOKEN = 20, 100


def ask_for_code(request: PortalRequest) -> Response:
    """Mail a code to an address, and show the form for the code."""
    if not request.site.has_mail:
        return request.redirect("")
    email = _read_email(request)
    if email is None and "key" in request.form:
        return request.render("claim.html", status=422, email="", has_error=True, is_wrong=False)
    if email is None:
        return _render_start(request, has_error=True)
    key = request.form.get("key", "")
    if key:
        request.take("key", key)
    command = portal_model.AskToSignIn(
        context=request.context,
        email=email,
        key=key.strip()[:MAX_KEY_LENGTH] or None,
        sign_in_id=secrets.randbelow(10**18),
        mark=_take_for_mail(request),
        language=request.language.code,
    )
    request.change(command)
    request.browser.add_sign_in(command.sign_in_id)
    return request.render("code.html", email=email, key=key, is_wrong=False)


def enter_code(request: PortalRequest) -> Response:
    """Sign in with the code."""
    email = _read_email(request)
    if email is None:
        return request.redirect("")
    asked = request.browser.sign_in_ids
    mark = _find_mark(request)
    taken = request.take("known-code", mark) if mark else request.take("code", str(asked[-1:]))
    token, key = new_session_token(), request.form.get("key", "")
    try:
        customer_id, license = _submit_code(request, asked, hash_session_token(token))
    except (e.InvalidLicenseKey, e.NotClaimable):
        return request.render("claim.html", status=403, email=email, has_error=False, is_wrong=True)
    if customer_id is None:
        return request.render("code.html", status=403, email=email, key=key, is_wrong=True)
    request.site.limits.give_back(taken)
    if license is None:
        return _go_on(request, customer_id, token)
    return _go_on(request, customer_id, token, f"/licenses/{license.id}", _("The license is yours now."))


def _submit_code(
    request: PortalRequest, asked: tuple[int, ...], token_hash: bytes
) -> tuple[int | None, License | None]:
    """Submit the code. Returns the customer's ID (None for a wrong code), and the license claimed with the
    key in the form, if there is one.
    """
    code = request.form.get("code", "")[:_MAX_CODE]
    fields: dict[str, Any] = {"sign_in_ids": asked, "code": code, "token_hash": token_hash}
    if not request.form.get("key", ""):
        return request.change(portal_model.EnterCode(context=request.context, **fields)), None
    language = request.language.code
    claim = portal_model.ClaimWithCode(
        context=request.context, license=request.read_key(), language=language, **fields
    )
    license: License | None = request.change(claim)
    return (None if license is None else license.customer_id), license


def show_claim(request: PortalRequest) -> Response:
    """Ask for a license key and an e-mail address; the person who proves the address gets the license."""
    if not request.site.has_mail:
        return request.redirect("")
    return request.render("claim.html", email="", has_error=False, is_wrong=False)


def open_mailed_link(request: PortalRequest) -> Response:
    """Show the button of a mailed link (GET), or sign in with the link (POST)."""
    if not request.is_post:
        return request.render("link.html")
    number, link = str(request.path_params["id"]), request.path_params["token"][:_MAX_TOKEN]
    # Attempts by strangers, who know the ID of a sign-in that they requested, must not block a valid link.
    is_right = request.ask(lambda tx: is_link_token(tx.key_ring, number, link))
    taken = request.take("mailed", number) if is_right else request.take("link")
    if not is_right:
        raise e.CustomerSignInOver
    token = new_session_token()
    customer_id = request.change(
        portal_model.FollowMailedLink(
            context=request.context,
            sign_in_id=int(number),
            link_token=link,
            token_hash=hash_session_token(token),
        )
    )
    request.site.limits.give_back(taken)
    return _go_on(request, customer_id, token)


def open_portal_link(request: PortalRequest) -> Response:
    """Show the button of a link that the vendor created (GET), or sign in with the link (POST)."""
    if not request.is_post:
        return request.render("link.html")
    link, token = request.path_params["token"][:_MAX_TOKEN], new_session_token()
    taken = request.take("link", link)
    try:
        customer_id = request.change(
            portal_model.FollowPortalLink(
                context=request.context,
                link_hash=hash_session_token(link),
                token_hash=hash_session_token(token),
            )
        )
    except e.CustomerSignInOver as error:
        return request.error_page(error)
    request.site.limits.give_back(taken)
    return _go_on(request, customer_id, token)


def sign_out(request: PortalRequest) -> Response:
    """End the session."""
    if request.browser.customer is not None:
        command = portal_model.EndPortalSession(
            context=request.context, token_hash=hash_session_token(request.browser.token)
        )
        request.change(command)
    request.browser.set_token()
    request.browser.forget_license()
    return request.redirect("", _("You are signed out."))


def mail_lost_keys(request: PortalRequest) -> Response:
    """Ask for an e-mail address (GET), or mail its license keys to it (POST)."""
    if not request.site.has_mail:
        return request.redirect("")
    if not request.is_post:
        return request.render("lost_keys.html", has_error=False, email="")
    email = _read_email(request)
    if email is None:
        return request.render(
            "lost_keys.html", status=422, has_error=True, email=request.form.get("email", "")
        )
    _take_for_mail(request)
    request.change(
        portal_model.MailKeys(context=request.context, email=email, language=request.language.code)
    )
    return request.render("keys_mailed.html", email=email)


def choose_language(request: PortalRequest) -> Response:
    """Store the chosen language in the browser."""
    code, back = request.form.get("language", ""), request.form.get("next", "")
    if code in request.site.languages:
        request.browser.set_language(code)
    is_own = back.startswith("/") and all(one.isalnum() or one in "/-" for one in back)
    return request.redirect(back if is_own else "")


def render_start(request: PortalRequest) -> Response:
    """Render the start page, which asks for an e-mail address, or without a mail server for a license key."""
    return _render_start(request)


def _render_start(request: PortalRequest, *, has_error: bool = False) -> Response:
    if not request.site.has_mail:
        return request.render("enter_key.html", is_wrong=False)
    return request.render(
        "sign_in.html",
        status=422 if has_error else 200,
        email=request.form.get("email", ""),
        has_error=has_error,
    )


def _take_for_mail(request: PortalRequest) -> str:
    """Count a mail against the limits. Returns the browser's mark. Raises ``RateLimited``."""
    mark = _find_mark(request)
    if mark:
        request.take("known", mark)
    else:
        request.take("mail")
    return mark


def _find_mark(request: PortalRequest) -> str:
    """Return the mark of a customer who has signed in with this browser; empty if missing or forged."""
    mark = request.browser.mark
    is_known = mark and request.ask(lambda tx: find_marked(tx.key_ring, mark)) is not None
    return mark if is_known else ""


def _read_email(request: PortalRequest) -> str | None:
    try:
        return parse_email(request.form.get("email", ""))
    except (ValueError, e.KeywrightError):
        return None


def _go_on(
    request: PortalRequest, customer_id: int, token: str, path: str = "", message: str = ""
) -> Response:
    request.browser.set_token(token)
    request.browser.set_mark(request.ask(lambda tx: browser_mark(tx.key_ring, customer_id)))
    return request.redirect(path, message)


_BOTH, _POST = ("GET", "POST"), ("POST",)
PAGES = (
    Page("/sign-in", ask_for_code, methods=_POST),
    Page("/claim", show_claim),
    Page("/sign-in/code", enter_code, methods=_POST),
    Page("/sign-in/{id:number}/{token}", open_mailed_link, methods=_BOTH),
    Page("/link/{token}", open_portal_link, methods=_BOTH),
    Page("/sign-out", sign_out, methods=_POST),
    Page("/lost-keys", mail_lost_keys, methods=_BOTH),
    Page("/language", choose_language, Needs.NOTHING, _POST),
)


_HERE = "/account"


def show_account(request: PortalRequest) -> Response:
    """Show the form for name and language, and the links for personal data."""
    return _render(request, request.customer.name or "")


def save_account(request: PortalRequest) -> Response:
    """Change the customer's name and language."""
    name, language = request.form.get("name", ""), request.form.get("language", "")
    changes: dict[str, Any] = {}
    try:
        changes["name"] = parse_name(name) if name else None
    except ValueError:
        return _render(request, name, has_error=True)
    if language in request.site.languages:
        changes["language"] = language
        request.browser.set_language(language)
    # Limited because every change, like every key that is shown, adds an event.
    request.take("change", str(request.customer.id))
    change = UpdateCustomer(context=request.context, id=request.customer.id, fields=CustomerFields(**changes))
    try:
        request.change(change)
    except e.Refusal as error:
        return request.refuse(_HERE, error)
    return request.redirect(_HERE, _("Saved."))


def mail_keys(request: PortalRequest) -> Response:
    """Mail the customer's license keys to the customer's address."""
    email = request.customer.email
    if email is None:
        return request.redirect(_HERE, _("We do not have an e-mail address for you."), is_error=True)
    request.take("mail", email)
    command = portal_model.MailKeys(context=request.context, email=email, language=request.language.code)
    request.change(command)
    return request.redirect(_HERE, _("Your license keys are on their way to %(email)s.", email=email))


def export(request: PortalRequest) -> Response:
    """Return a download of all data that is stored about the customer, as JSON."""
    number = request.customer.id
    request.take("export", str(number))
    try:
        found = request.ask(lambda tx: find_customer_data(tx, number, for_customer=True))
    except e.TooMuchStored as error:
        return request.refuse(_HERE, error)
    content = msgspec.json.format(msgspec.json.encode(found), indent=2)
    return request.download("my-data.json", content, "application/json")


def ask_for_erasure(request: PortalRequest) -> Response:
    """Ask for confirmation (GET), or record the request to erase the customer's data (POST)."""
    if not request.is_post:
        return request.render("erase.html")
    request.take("erase", str(request.customer.id))
    request.change(portal_model.RequestErasure(context=request.context, customer_id=request.customer.id))
    return request.redirect(
        _HERE, _("Your request has been passed on. You will hear from us within a month.")
    )


def withdraw_erasure(request: PortalRequest) -> Response:
    """Withdraw the request to erase the customer's data."""
    request.take("erase", str(request.customer.id))
    command = portal_model.RequestErasure(
        context=request.context, customer_id=request.customer.id, is_withdrawn=True
    )
    request.change(command)
    return request.redirect(_HERE, _("Your data will be kept."))


def _render(request: PortalRequest, name: str, *, has_error: bool = False) -> Response:
    chosen = request.language.code
    status = 422 if has_error else 200
    return request.render("account.html", status=status, name=name, chosen=chosen, has_error=has_error)


_POST_ACCOUNT = ("POST",)
ACCOUNT_PAGES = (
    Page(_HERE, show_account, Needs.CUSTOMER),
    Page(f"{_HERE}/save", save_account, Needs.CUSTOMER, _POST_ACCOUNT),
    Page(f"{_HERE}/mail-keys", mail_keys, Needs.CUSTOMER, _POST_ACCOUNT),
    Page(f"{_HERE}/export", export, Needs.CUSTOMER, _POST_ACCOUNT),
    Page(f"{_HERE}/erase", ask_for_erasure, Needs.CUSTOMER, ("GET", "POST")),
    Page(f"{_HERE}/keep", withdraw_erasure, Needs.CUSTOMER, _POST_ACCOUNT),
)
