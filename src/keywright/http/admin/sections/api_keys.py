"""API keys: who may use the interface. Their secrets are shown in one answer, and nowhere else."""

from shlex import quote

from starlette.requests import Request
from starlette.responses import Response

from keywright.config import Settings
from keywright.core import parsing
from keywright.core.errors import UnknownApiKey
from keywright.core.parsing import write_time
from keywright.http.admin.name_suggestions import suggest_names
from keywright.http.pages.inputs import Inputs, number_of, one_of
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity import api_keys as access
from keywright.identity.commands import IssueApiKey, RevokeApiKey
from keywright.identity.model import ApiKey, Permissions
from keywright.identity.rights import Right
from keywright.identity.store import list_api_keys
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import names_of

#: What each permission lets its bearer do, in a few words and in a sentence.
PERMISSIONS: dict[Permissions, tuple[str, str]] = {
    Permissions.READ_WRITE: (
        "Read and change",
        "Look at licenses and generators, and change them: this is what a shop needs.",
    ),
    Permissions.READ: ("Read", "Look at licenses and generators, and change nothing."),
    Permissions.WRITE: ("Change", "Change licenses and generators, and look at none."),
    Permissions.CLIENT: (
        "Customers' programs",
        "Nothing but activate, deactivate and validate: this one may be inside a program that you give away.",
    ),
}

#: What is tried, and with which options, where not everything may be looked at.
_CALLS = {
    Permissions.CLIENT: ("", "licenses/validate/LICENSE-KEY"),
    Permissions.WRITE: ("-d license_key=A-NEW-KEY -d status=active ", "licenses"),
}


class ApiKeys(Section):
    """Who may use the interface, and since when not any more."""

    label = "API keys"
    path = "/api-keys"
    icon = "server"
    right = Right.ADMINISTER

    @page("")
    def browse(self, request: PageRequest) -> Response:
        """Every API key, those in force first, the newest first."""
        api_keys = request.ask(list_api_keys)
        api_keys.sort(key=lambda one: (one.revoked_at is not None, -one.id))
        numbers = {one.product_id for one in api_keys if one.product_id is not None}
        products = request.ask(lambda tx: names_of(tx, NameKind.PRODUCT, numbers))
        return request.render(
            "api_keys/list.html", api_keys=api_keys, products=products, permissions=PERMISSIONS
        )

    @page("/new", methods=("GET", "POST"))
    def create(self, request: PageRequest) -> Response:
        """Make one, and show its secrets: now, and never again."""
        inputs = Inputs(request.form)
        if request.is_post:
            name = inputs.need("name", parsing.parse_name, "")
            permissions = inputs.need("permissions", one_of(Permissions), Permissions.READ)
            product_id = inputs.read("product_id", parsing.parse_integer)
            if product_id is not None and permissions is not Permissions.CLIENT:
                inputs.errors["product_id"] = "Only an API key for customers' programs has a product."
            if not inputs.errors:
                return _issued(request, name, permissions, product_id)
        return request.render(
            "api_keys/new.html",
            status=422 if inputs.errors else 200,
            errors=inputs.errors,
            permissions=PERMISSIONS,
            products=request.ask(lambda tx: suggest_names(tx, NameKind.PRODUCT)),
        )

    @page("/{id:number}/revoke", methods=("GET", "POST"))
    def revoke(self, request: PageRequest) -> Response:
        """End one, at once and for good."""
        api_key = _get(request, number_of(request.path_params["id"]))
        if request.is_post:
            request.change(RevokeApiKey(context=request.context, api_key_id=api_key.id))
            return request.redirect("/api-keys", f"The API key {api_key.name} is revoked.")
        return request.confirm(
            f"Revoke the API key {api_key.name}?",
            [
                _last_use(api_key),
                "Whoever uses it is refused from then on. It cannot be made good again; its licenses stay.",
            ],
            button="Revoke it",
            back="/api-keys",
        )


def _issued(request: PageRequest, name: str, permissions: Permissions, product_id: int | None) -> Response:
    secrets = access.new_secrets()
    issue = IssueApiKey(
        context=request.context,
        name=name,
        permissions=permissions,
        product_id=product_id,
        **secrets.hashed(),
    )
    api_key: ApiKey = request.change(issue)
    # In this answer and nowhere else: no redirect, no cookie, no log.
    return request.render(
        "api_keys/issued.html",
        api_key=api_key,
        secrets=secrets,
        curl=_curl(request.http, request.browser.is_secure, request.site.settings, api_key, secrets),
        permissions=PERMISSIONS,
    )


def _get(request: PageRequest, number: int) -> ApiKey:
    """The API key in force with this number. Raises ``UnknownApiKey``."""
    for one in request.ask(list_api_keys):
        if one.id == number and one.revoked_at is None:
            return one
    raise UnknownApiKey


def _last_use(api_key: ApiKey) -> str:
    if api_key.last_used_at is None:
        return "It was never used."
    return f"It was last used on {write_time(api_key.last_used_at)} (UTC)."


def _curl(
    request: Request, is_secure: bool, settings: Settings, api_key: ApiKey, secrets: access.Secrets
) -> str:
    """A call to try."""
    scheme, host = "https" if is_secure else "http", request.headers.get("host", "")
    options, call = _CALLS.get(api_key.permissions, ("", "licenses"))
    address = f"{scheme}://{host}/{settings.api_root}/{settings.namespace}/v2/{call}"
    return f"curl -sS -u {secrets.consumer_key}:{secrets.consumer_secret} {options}{quote(address)}; echo"
