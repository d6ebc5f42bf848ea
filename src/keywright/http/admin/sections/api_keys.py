"""API keys. The secrets of a new key are shown once, in the response that creates it."""

from functools import partial
from shlex import quote

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import UnknownApiKey
from keywright.http.admin.event_views import reader_zone
from keywright.http.admin.name_suggestions import number_parser, suggest_names
from keywright.http.pages.formats import N_, _, write_moment
from keywright.http.pages.forms import Inputs, parse_choice, require_id
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity import api_keys as access
from keywright.identity.model import ApiKey, IssueApiKey, Permissions, RevokeApiKey, Right
from keywright.identity.store import list_api_keys
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import names_of

#: A label and a description for each permission.
PERMISSIONS: dict[Permissions, tuple[str, str]] = {
    Permissions.READ_WRITE: (
        N_("Read and change"),
        N_("Read and change licenses and policies: this is what a shop needs."),
    ),
    Permissions.READ: (N_("Read"), N_("Read licenses and policies, but change nothing.")),
    Permissions.WRITE: (N_("Change"), N_("Change licenses and policies, but read nothing.")),
    Permissions.CLIENT: (
        N_("Customers' programs"),
        N_("Activate, deactivate and validate only: this key may be part of a program that you ship."),
    ),
}

#: The options and the path of the example call, for keys that may not list licenses.
_EXAMPLES = {
    Permissions.CLIENT: ("", "licenses/validate/LICENSE-KEY"),
    Permissions.WRITE: ("-d license_key=A-NEW-KEY -d status=active ", "licenses"),
}


class ApiKeys(Section):
    """The API keys, including revoked ones."""

    label = N_("API keys")
    path = "/api-keys"
    group = N_("Connections")
    icon = "server"
    right = Right.ADMINISTER

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """All API keys: active ones first, then the newest."""
        api_keys = request.ask(list_api_keys)
        now = request.now
        api_keys.sort(key=lambda one: (one.revoked_at is not None or access.is_expired(one, now), -one.id))
        numbers = {one.product_id for one in api_keys if one.product_id is not None}
        products = request.ask(lambda tx: names_of(tx, NameKind.PRODUCT, numbers))
        return request.render(
            "api_keys/list.html", api_keys=api_keys, products=products, permissions=PERMISSIONS
        )

    @page("/new", methods=("GET", "POST"))
    def create(self, request: PageRequest) -> Response:
        """Create an API key, and show its secrets."""
        inputs, zone = Inputs(request.form), reader_zone(request)
        if request.is_post:
            name = inputs.require("name", parsing.parse_name, "")
            permissions = inputs.require("permissions", parse_choice(Permissions), Permissions.READ)
            product_id = inputs.read("product_id", number_parser(request, NameKind.PRODUCT))
            expires_at = inputs.read("expires_at", partial(parsing.parse_last_day, zone=zone))
            if not inputs.errors:
                secrets = access.new_secrets()
                issue = IssueApiKey(
                    context=request.context,
                    name=name,
                    permissions=permissions,
                    product_id=product_id,
                    expires_at=expires_at,
                    **secrets.hash_fields(),
                )
                return _show_secrets(request, request.change(issue), secrets)
        return request.render(
            "api_keys/new.html",
            errors=inputs.errors,
            permissions=PERMISSIONS,
            zone=zone,
            suggestions=request.ask(suggest_names),
        )

    @page("/{id:number}/revoke", methods=("GET", "POST"))
    def revoke(self, request: PageRequest) -> Response:
        """Revoke an API key permanently."""
        api_key = _get(request, require_id(request.path_params["id"]))
        if request.is_post:
            request.change(RevokeApiKey(context=request.context, api_key_id=api_key.id))
            return request.redirect("/api-keys", _("The API key %(name)s was revoked.", name=api_key.name))
        return request.confirm(
            _("Revoke the API key %(name)s?", name=api_key.name),
            [
                _last_use_text(api_key),
                _("Callers that use this key will be refused. Its licenses remain. This cannot be undone."),
            ],
            button=_("Revoke it"),
            back="/api-keys",
        )


def _show_secrets(request: PageRequest, api_key: ApiKey, secrets: access.Secrets) -> Response:
    # Only this response contains the secrets: no redirect, cookie or log does.
    return request.render(
        "api_keys/issued.html",
        api_key=api_key,
        secrets=secrets,
        curl=_curl_command(request, api_key, secrets),
        permissions=PERMISSIONS,
    )


def _get(request: PageRequest, number: int) -> ApiKey:
    """The API key with this ID, unless it is revoked. Raises ``UnknownApiKey``."""
    for one in request.ask(list_api_keys):
        if one.id == number and one.revoked_at is None:
            return one
    raise UnknownApiKey


def _last_use_text(api_key: ApiKey) -> str:
    if api_key.last_used_at is None:
        return _("This key was never used.")
    return _("This key was last used on %(time)s.", time=write_moment(api_key.last_used_at))


def _curl_command(request: PageRequest, api_key: ApiKey, secrets: access.Secrets) -> str:
    """The command line for an example call."""
    settings = request.site.settings
    options, call = _EXAMPLES.get(api_key.permissions, ("", "licenses"))
    address = f"{request.base_url}/{settings.api_root}/{settings.namespace}/v2/{call}"
    return f"curl -sS -u {secrets.consumer_key}:{secrets.consumer_secret} {options}{quote(address)}; echo"
