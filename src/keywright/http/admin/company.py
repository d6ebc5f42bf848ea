"""Sign in through the company's OpenID provider: redirect the browser there, and handle its return.

The state of an attempt is in an encrypted cookie, so that any server can complete what another one began.
"""

import logging
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

import msgspec
from starlette.responses import RedirectResponse, Response

from keywright.config.groups import Provider
from keywright.core.command import Context
from keywright.core.errors import UnknownUser
from keywright.http.pages.formats import N_, _
from keywright.http.pages.once import KeptForm, decode_kept
from keywright.http.pages.render import BASE
from keywright.http.pages.request import PageRequest
from keywright.identity import oidc, sessions
from keywright.identity.model import RefuseSignIn, StartCompanySession
from keywright.identity.oidc import Attempt, NotBelieved

#: The path to which the provider redirects back; it is registered there.
CALLBACK = "/sign-in/company/callback"
#: The cookie with the attempt, and the one that marks a browser as signed in through the provider.
_COOKIE, _COMPANY_COOKIE = "keywright-company", "keywright-by-company"
#: How long an attempt may take, in seconds, and the longest value of its cookie, in characters: all cookies
#: must fit into 4096 bytes.
_MAX_AGE, _MAX_COOKIE = 600, 3000
_PLACE = b"sign-in with the company"
_FAILED = N_("Signing in with your company account failed. Try again; the server's log has the reason.")
_NO_ROLE = N_(
    "Your company account has no access to these pages. Ask the people who manage your company's groups."
)

log = logging.getLogger(__name__)


class Ended(NamedTuple):
    """The result of an attempt: the page to open and the form that was kept, or the ``error`` to show."""

    target: str = ""
    kept: KeptForm | None = None
    error: str = ""


def is_by_company(request: PageRequest) -> bool:
    """Whether this browser signed in with a company account, and has not signed out since."""
    return request.site.settings.provider is not None and request.browser.read_cookie(_COMPANY_COOKIE) != ""


def has_begun(request: PageRequest) -> bool:
    """Whether this browser has an attempt in progress."""
    return request.browser.read_cookie(_COOKIE) != ""


def sign_out(request: PageRequest, response: Response) -> Response:
    """Remove the browser's mark, so that the next sign-in offers the choice again."""
    if request.browser.read_cookie(_COMPANY_COOKIE):
        request.browser.write_cookie(response, _COMPANY_COOKIE, "", 0)
    return response


def redirect_uri(request: PageRequest) -> str:
    """The address to which the provider redirects back. Raises ``PublicUrlMissing``."""
    if request.site.settings.admin_address is None:
        return f"{request.base_of_links()}{BASE}{CALLBACK}"
    # The provider only redirects to registered addresses, so the Host header can be used.
    scheme = "https" if request.browser.is_secure else "http"
    return f"{scheme}://{request.http.headers.get('host', '')}{BASE}{CALLBACK}"


def send_to_provider(
    request: PageRequest, client: oidc.Client, provider: Provider, target: str, kept: str
) -> Response:
    """Begin an attempt and redirect to the provider. Raises ``NotBelieved``."""
    with request.release_lock():
        metadata = client.discover(provider.issuer)
    attempt = oidc.begin(provider, redirect_uri(request), request.now, target, kept)
    sealed = _seal(request, attempt)
    if len(sealed) > _MAX_COOKIE:
        sealed = _seal(request, msgspec.structs.replace(attempt, target="", kept=""))
    url = oidc.authorization_url(provider, metadata, attempt)
    if request.is_post:
        # form-action 'self' would forbid a redirect.
        response = request.render("to_company.html", address=url)
        response.headers["refresh"] = f"0; url={url}"
    else:
        response = RedirectResponse(url, 303)
    request.browser.write_cookie(response, _COOKIE, sealed, _MAX_AGE)
    return response


def end_attempt(request: PageRequest, client: oidc.Client) -> Ended:
    """Sign in the user whom the provider names. A refusal is logged and recorded as an event."""
    provider, attempt = request.site.settings.provider, _unseal(request)
    try:
        if provider is None or attempt is None or attempt.issuer != provider.issuer:
            raise NotBelieved(oidc.NO_ATTEMPT)
        answer = {name: request.query.all(name) for name in request.query}
        with request.release_lock():
            metadata = client.discover(provider.issuer)
            code = oidc.check_answer(attempt, metadata, answer, request.now)
            account = client.finish(provider, attempt, code, request.now)
        return _start_session(request, provider, account, attempt)
    except NotBelieved as problem:
        log.warning("a sign-in with the company's account was refused: %s", problem)
        context = Context(request.now, request.browser.origin)
        request.change(RefuseSignIn(context=context, name="", reason=str(problem)))
        return Ended(error=_(_FAILED))


def forget_attempt(request: PageRequest, response: Response, *, is_signed_in: bool) -> Response:
    """Delete the cookie of a completed attempt. Mark the browser if it signed in; else remove the mark."""
    request.browser.write_cookie(response, _COOKIE, "", 0)
    if is_signed_in:
        request.browser.write_cookie(response, _COMPANY_COOKIE, "yes")
        return response
    return sign_out(request, response)


def _start_session(
    request: PageRequest, provider: Provider, account: oidc.Account, attempt: Attempt
) -> Ended:
    settings, token = request.site.settings, sessions.new_session_token()
    start = StartCompanySession(
        context=Context(request.now, request.browser.origin),
        issuer=provider.issuer,
        subject=account.subject,
        name=account.name,
        email=account.email,
        role=account.role,
        token_hash=sessions.hash_session_token(token),
        minutes=min(settings.oidc_check_minutes, settings.session_hours * 60),
    )
    try:
        if request.change(start) is None:
            return Ended(error=_(_NO_ROLE))
    except UnknownUser:
        return Ended(error=_(_NO_ROLE))
    request.browser.set_token(token)
    return Ended(attempt.target, decode_kept(attempt.kept))


def _seal(request: PageRequest, attempt: Attempt) -> str:
    packed = zlib.compress(msgspec.json.encode(attempt), 9)
    sealed = request.ask(lambda tx: tx.key_ring.seal(packed, _PLACE))
    return urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _unseal(request: PageRequest) -> Attempt | None:
    text = request.browser.read_cookie(_COOKIE, _MAX_COOKIE)
    try:
        sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        packed = request.ask(lambda tx: tx.key_ring.unseal(sealed, _PLACE))
        return msgspec.json.decode(zlib.decompress(packed), type=Attempt)
    except (ValueError, zlib.error):
        return None
