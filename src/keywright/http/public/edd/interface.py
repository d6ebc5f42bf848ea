"""The API of EDD Software Licensing as an interface: at ``/edd``, and at the root for a host name of the old
site. Clients treat every status but 200 as a fault, and then make no calls for an hour.
"""

from typing import Any

import msgspec
from starlette.types import Receive, Scope

from keywright.config import Settings
from keywright.core import errors as e
from keywright.core.parsing import is_storable
from keywright.engine.desk import Desk
from keywright.http.answer import Answer, error_headers
from keywright.http.middleware.attempts import Attempts
from keywright.http.middleware.body import MAX_UNTRUSTED_BODY
from keywright.http.middleware.call import Call
from keywright.http.middleware.public_interface import PublicAction as Action
from keywright.http.middleware.public_interface import PublicInterface
from keywright.http.middleware.routing import Address, Right
from keywright.http.public.edd import answers
from keywright.http.public.edd.parameters import (
    Parameters,
    is_true,
    parse_form,
    parse_package,
    read,
    read_item,
)
from keywright.http.server.sockets import base_of_links, source_of
from keywright.licensing.activations.model import Device
from keywright.licensing.activations.site_handlers import (
    ActivateSite,
    CheckSite,
    DeactivateSite,
    SitePlace,
)
from keywright.licensing.activations.sites import SITE, parse_site, site_of_agent
from keywright.licensing.refusals import NamedDevice
from keywright.licensing.updates.model import STABLE
from keywright.licensing.updates.queries import CheckedUpdate, CheckForUpdate
from keywright.licensing.updates.rules import Asked, UpdateCode

_ACTION, _PRODUCTS = "edd_action", "products"
_PATHS = frozenset({b"/edd", b"/edd/", b"/edd-sl-api", b"/edd-sl-api/"})
#: The old site's own paths, used only with an action, which may be in the body.
_ROOTS = frozenset({b"/", b"/index.php"})
_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data")
_PACKAGE = b"/edd-sl/package_download/"
_LINK = b"referrer-policy", b"no-referrer"
#: The longest license key that is looked up, and the longest version. Longer texts are cut off.
_MAX_KEY, _MAX_VERSION = 255, 64
_encode = msgspec.json.Encoder().encode


class Edd(PublicInterface):
    """The paths of the EDD API, as an interface."""

    malformed = frozenset({e.MalformedForm, e.NoSuchAddress, e.BodyTooLarge, e.BodyIncomplete})
    body_limit = untrusted_body_limit = MAX_UNTRUSTED_BODY

    def __init__(self, settings: Settings, desk: Desk) -> None:
        self.desk = desk
        self._settings = settings
        #: Attempts with the keys of further products in one call: each key may be a guess.
        self._attempts = Attempts(settings.unknown_key_limit)
        self._actions = {
            "activate_license": Action("activate", Right.CORE, changes=True, answer=self._activate),
            "deactivate_license": Action("deactivate", Right.CORE, changes=True, answer=self._deactivate),
            "check_license": Action("validate", Right.CORE, changes=False, answer=self._check),
            "get_version": Action("find_update", Right.CORE, changes=False, answer=self._get_version),
            "package_download": Action("download", Right.CORE, changes=False, answer=self._send_package),
        }
        unread = Action("edd", Right.CORE, changes=True, answer=self._activate)
        self._address = Address[Action](("edd",), {"GET": unread, "POST": unread})

    def open_call(self, scope: Scope, receive: Receive) -> Call | None:
        """Return the call for a request; None if the path is not this interface's."""
        path: bytes = scope["raw_path"]
        is_here = path in _PATHS or path.startswith(_PACKAGE)
        if not is_here and not (path in _ROOTS and _may_have_action(scope)):
            return None
        return Call(self, scope, receive, self._address)

    def parse_query(self, query: bytes) -> Parameters:
        """Parse the parameters of a query. Raises ``MalformedForm``."""
        return parse_form(b"", query)

    def parse_body(self, call: Call, body: bytes) -> Parameters:
        """Parse the parameters of a form. Raises ``MalformedForm``."""
        return parse_form(call.headers.get(b"content-type", b""), body)

    def prepare(self, call: Call, _unread: Action) -> Action:
        """Set the call's parameters and key. Returns the action that they name. Raises ``NoSuchAddress``."""
        sent = call.sent if isinstance(call.sent, dict) else {}
        call.parameters = call.query | sent
        path: bytes = call.scope["raw_path"]
        if path.startswith(_PACKAGE):
            token = path[len(_PACKAGE) :].decode("latin-1").strip("/")
            call.parameters = {_ACTION: "package_download"} | parse_package(token)
        action = self._actions.get(read(call.parameters, _ACTION))
        if action is None:
            raise e.NoSuchAddress
        call.action, call.operation = action, action.operation
        call.key = _key_of(call.parameters)
        return action

    def find_device(self, call: Call) -> NamedDevice:
        """Return the calling site as a device."""
        site = _site_of(call, call.parameters)
        return NamedDevice() if site is None else NamedDevice(SITE + site, site, None)

    def write_error(self, error: e.KeywrightError, _call: Call | None = None) -> Answer:
        """Return the answer for an error that does not concern the license's state."""
        body = answers.INVALID | {"error": error.problem, "msg": error.fill(error.sentence)}
        return Answer(error.status, _encode(body), error_headers(error))

    # --- licenses ---------------------------------------------------------------------------------

    async def _activate(self, call: Call) -> Answer:
        """Activate the site."""
        if _site_of(call, call.parameters) is None:
            call.is_unchanged = True
            return Answer(200, _encode(answers.refuse_without_site(read_item(call.parameters))))
        place = await self._change(call, ActivateSite)
        return self._answer(call, place, answers.show_activated(place, read_item(call.parameters), call.now))

    async def _deactivate(self, call: Call) -> Answer:
        """Deactivate the site."""
        place = await self._change(call, DeactivateSite)
        return self._answer(call, place, answers.show_deactivated(place, read_item(call.parameters)))

    async def _check(self, call: Call) -> Answer:
        """Answer whether the license is valid for the site."""
        item, site = read_item(call.parameters), _site_of(call, call.parameters)
        about: dict[str, Any] = {"item": item, "only_product_id": call.only_product_id, "now": call.now}
        query = CheckSite(key=call.key, fingerprint=SITE + (site or ""), **about)
        place: SitePlace = await self.desk.query(query, call)
        shown = answers.show_checked(place, item, call.now)
        call.finding = _FINDINGS.get(shown["license"])
        return self._answer(call, place, shown)

    async def _change(self, call: Call, kind: type[ActivateSite] | type[DeactivateSite]) -> SitePlace:
        site = _site_of(call, call.parameters) or ""
        about: dict[str, Any] = {"item": read_item(call.parameters), "only_product_id": call.only_product_id}
        device, call.is_change = Device(SITE + site, site or None), True
        command = kind(context=call.context, license=call.key, device=device, **about)
        place: SitePlace = await self.desk.execute(command, call)
        call.is_unchanged = not place.is_changed
        if place.view is not None:
            mismatch = None if place.is_item else e.ProductMismatch.problem
            call.finding = mismatch if place.refusal is None else place.refusal.problem
        return place

    def _answer(self, call: Call, place: SitePlace, shown: dict[str, Any]) -> Answer:
        call.is_key_unknown = place.view is None
        asked = [read(call.parameters, name) for name in ("item_id", "item_name", "license", "url")]
        answer = Answer(200, _encode(shown | {"checksum": answers.checksum(asked)}))
        if place.view is not None:
            answer.license_id, answer.product_id = place.view.license.id, place.view.license.product_id
            if shown["license"] == "valid" and place.activation is not None:
                answer.activation_id = place.activation.id
        return answer

    # --- versions ---------------------------------------------------------------------------------

    async def _get_version(self, call: Call) -> Answer:
        """Answer with the newest version of one product or several."""
        several = call.parameters.get(_PRODUCTS)
        products = several if isinstance(several, dict) else {"": call.parameters}
        # Sequentially: a call with many products must not take more places in the queue than any other.
        looked = [await self._look_at_one(call, one) for one in products.values()]
        call.is_key_unknown = bool(call.key) and looked[0] is not None and _is_wrong(looked[0])
        pairs = zip(products.items(), looked, strict=True)
        shown = {slug: self._show(call, one, found) for (slug, one), found in pairs}
        return self._answer_version(call, shown if products is several else shown[""], looked)

    async def _look_at_one(self, call: Call, one: Parameters) -> CheckedUpdate | None:
        """Return the newest version of one of several products; None after too many wrong keys."""
        key = _key_of(one)
        if key in ("", call.key):
            return await self._look(call, one)
        try:
            attempt = await self._attempts.begin(key, source_of(call.client_address))
        except e.RateLimited:
            return None
        found = await self._look(call, one)
        self._attempts.end(attempt, is_right=not _is_wrong(found))
        return found

    async def _look(self, call: Call, one: Parameters) -> CheckedUpdate:
        site, version = _site_of(call, call.parameters | one), _version_of(one)
        query = CheckForUpdate(
            now=call.now,
            key=_key_of(one) or None,
            fingerprint=None if site is None else SITE + site,
            item=read_item(one),
            is_shown=True,
            asked=Asked(
                app_version=version or None,
                channel="beta" if is_true(one, "beta") else STABLE,
                php_version=read(one, "php_version") or None,
                wp_version=read(one, "wp_version") or None,
            ),
            only_product_id=call.only_product_id,
        )
        found: CheckedUpdate = await self.desk.query(query, call)
        return found

    def _show(self, call: Call, one: Parameters, found: CheckedUpdate | None) -> dict[str, Any]:
        if found is None:
            return answers.nothing(None)
        slug, version = read(one, "slug"), _version_of(one)
        return answers.show_version(found, slug, version, self._link_of(call, found))

    def _link_of(self, call: Call, found: CheckedUpdate) -> str:
        """Return the URL of the package; "" without a package, or if the server's own URL is unknown."""
        if found.path_of_file is None:
            return ""
        host = call.headers.get(b"host", b"").decode("latin-1")
        try:
            base = base_of_links(self._settings.public_url, call.scope["scheme"], host)
        except e.PublicUrlMissing:
            return ""
        return base + found.path_of_file

    def _answer_version(
        self, call: Call, shown: dict[str, Any], looked: list[CheckedUpdate | None]
    ) -> Answer:
        counted = tuple(pair for one in looked if one is not None for pair in one.counted)
        answer, found = Answer(200, _encode(shown), releases=counted), looked[0]
        if len(looked) != 1 or found is None or found.license is None:
            return answer
        answer.license_id, activation = found.license.id, found.activation
        if activation is not None and activation.deactivated_at is None:
            version = _version_of(call.parameters)
            answer.activation_id = activation.id
            answer.app_version = version if version and version != activation.app_version else None
        return answer

    async def _send_package(self, call: Call) -> Answer:
        """Redirect a package link that the old site created to the package."""
        found = await self._look(call, call.parameters)
        call.is_key_unknown = _is_wrong(found)
        link = self._link_of(call, found)
        if not link:
            return Answer(401, b"Unauthorized", (_LINK,), content_type=(b"content-type", b"text/plain"))
        return Answer(302, b"", ((b"location", link.encode()), _LINK))


#: The finding that the license's page shows for a failed check.
_FINDINGS = {
    "expired": "expired",
    "disabled": "disabled",
    "site_inactive": "not_activated",
    "invalid_item_id": "product_mismatch",
    "item_name_mismatch": "product_mismatch",
}


def _may_have_action(scope: Scope) -> bool:
    """Whether a request to the root may be a call of this API."""
    if b"edd_action=" in scope["query_string"]:
        return True
    kinds = (value for name, value in scope["headers"] if name == b"content-type")
    return scope["method"] == "POST" and next(kinds, b"").lower().startswith(_FORMS)


def _key_of(parameters: Parameters) -> str:
    products = parameters.get(_PRODUCTS)
    if isinstance(products, dict):
        parameters = next(iter(products.values()))
    return read(parameters, "license").replace("\0", "")[:_MAX_KEY]


def _version_of(parameters: Parameters) -> str:
    """Return the program's version; "" if databases cannot store the text."""
    version = read(parameters, "version")[:_MAX_VERSION]
    return version if is_storable(version) else ""


def _site_of(call: Call, parameters: Parameters) -> str | None:
    agent = call.headers.get(b"user-agent", b"").decode("utf-8", "replace")
    return parse_site(read(parameters, "url") or site_of_agent(agent))


def _is_wrong(found: CheckedUpdate) -> bool:
    """Whether the key belongs to no license."""
    return found.decision.code is UpdateCode.UNKNOWN_LICENSE and not found.shown
