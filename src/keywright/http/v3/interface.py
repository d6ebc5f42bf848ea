"""The v3 interface as the middlewares see it: it recognizes its calls and decodes them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from starlette.types import Receive, Scope

from keywright.config import Settings
from keywright.core import errors as e
from keywright.core.parsing import MAX_ID
from keywright.engine.desk import Desk
from keywright.http.answer import Answer
from keywright.http.middleware.call import Call as AnyCall
from keywright.http.middleware.cors import CorsNames
from keywright.http.signatures import Signatures
from keywright.http.v3 import answers, decoding
from keywright.http.v3.answers import encode, write_problem
from keywright.http.v3.call import Call
from keywright.http.v3.decoding import require_known, split_query
from keywright.http.v3.route import Address, Route
from keywright.http.v3.routes import ROUTES
from keywright.http.v3.waiting import Waiters
from keywright.licensing.refusals import NamedDevice, to_known_token

#: The maximum size of a body, in bytes.
MAX_BODY = 64 * 1024
_MAX_WORD = 64
#: The OpenAPI document is also served below the root of v3, by the pages of the server.
_DOCUMENTS = (b"/openapi.json", b"/openapi.yaml")
#: The members of a body that name a device.
_DEVICE = ("fingerprint", "name", "token")
#: The key of an address in the tree of path segments; no segment contains a slash.
_HERE = "/"
#: The errors of malformed requests, which the rate limiter counts.
_MALFORMED = frozenset(
    kind
    for kind in e.CATALOG
    if issubclass(kind, e.BadRequest) and kind not in (e.NoSuchAddress, e.MethodNotAllowed)
)
_SEEN = b"ETag, Idempotency-Replayed, Link, Location, RateLimit, RateLimit-Policy, Retry-After"


class V3:
    """The v3 interface, mounted at the path from the settings."""

    malformed = _MALFORMED
    body_limit = untrusted_body_limit = MAX_BODY
    has_own_credentials = True
    has_keys_in_body = True
    states_limits = True
    cors_names = CorsNames(
        b"Authorization, Content-Type, Idempotency-Key, If-Match", _SEEN, _SEEN, is_always_sent=False
    )

    def __init__(
        self, settings: Settings, desk: Desk, signatures: Signatures, routes: Sequence[Route] = ROUTES
    ) -> None:
        self.desk = desk
        self._common: dict[str, Any] = {
            "signatures": signatures,
            "waiters": Waiters(desk),
            "settings": settings,
        }
        self.root = f"/{settings.v3_root}"
        self._root = self.root.encode()
        by_words = defaultdict(list)
        for route in routes:
            by_words[route.words].append(route)
        addresses = {words: Address(some) for words, some in by_words.items()}
        #: The addresses without parameters, by path; most calls go to these.
        self._fixed = {
            "/".join([self.root, *map(str, words)]).encode(): one
            for words, one in addresses.items()
            if None not in words
        }
        # For generated clients: the document's paths begin with a slash.
        self._fixed[self._root + b"/"] = addresses[()]
        self._others: dict[str | None, Any] = {}
        for words, address in addresses.items():
            _add_to_tree(self._others, words, address)

    def open_call(self, scope: Scope, receive: Receive) -> Call | None:
        """The call for a request; None for a request to something else."""
        path: bytes = scope["raw_path"]
        if not path.startswith(self._root):
            return None
        address = self._fixed.get(path)
        if address is not None:
            return Call(self, scope, receive, address, {}, root=self.root, **self._common)
        below = path[len(self._root) :]
        if below in _DOCUMENTS or (below and not below.startswith(b"/")):
            return None
        address, parameters = self._find_address(below.decode("latin-1").split("/")[1:])
        return Call(self, scope, receive, address, parameters, root=self.root, **self._common)

    def parse_query(self, _query: bytes) -> dict[str, Any]:
        """An empty dict: ``prepare`` decodes the query, once the caller is known."""
        return {}

    def parse_body(self, call: AnyCall, body: bytes) -> Any:
        """The decoded body; None if the route has no body. Raises ``UnsupportedMediaType``,
        ``BodyUnreadable`` or ``InvalidBody``.
        """
        route = call.action
        if not isinstance(route, Route) or route.body is None:
            return None
        assert isinstance(call, Call)  # noqa: S101
        call.raw_body = body
        kind = call.headers.get(b"content-type", b"")
        if kind != answers.JSON and answers.is_form(route, kind, body):
            return route.body.decode_form(body)
        return route.body.decode_json(body)

    def prepare(self, call: AnyCall, route: Route) -> Route:
        """Decode the query, and set the arguments of the handler on the call.

        Raises ``NotFound``, ``NotAcceptable``, ``UnknownParameters``, ``InvalidQuery`` or ``BodyUnreadable``.
        """
        assert isinstance(call, Call)  # noqa: S101
        if route.needs_all_products and call.only_product_id is not None:
            raise e.NotFound(f"address here for an API key of product {call.only_product_id}")
        accept = call.headers.get(b"accept")
        if accept is not None:
            answers.require_acceptable(accept, route.produces)
            call.is_signed = route.can_be_signed and answers.is_signed(accept)
        query: bytes = call.scope["query_string"]
        if route.query is not None:
            call.asked = route.query.decode_query(query, is_closed=not route.is_client)
        elif query and not route.is_client:
            require_known(split_query(query), [])
        if route.body is not None:
            if not call.has_body and route.needs_body:
                raise e.BodyUnreadable
            call.body = call.sent if call.has_body else route.body.decode_json(b"{}")
            if route.has_key:
                # Guesses of update tokens are rate-limited like guesses of license keys.
                call.key = call.body.license_key or getattr(call.body, "update_token", None) or ""
        return route

    def find_device(self, call: AnyCall) -> NamedDevice:
        """The device that the body names."""
        assert isinstance(call, Call)  # noqa: S101
        fingerprint, name, token = (getattr(call.body, one, None) for one in _DEVICE)
        return NamedDevice(fingerprint, name, to_known_token(token))

    def write_methods(self, methods: Collection[str]) -> bytes:
        """The body of the answer to OPTIONS."""
        return encode({"methods": methods})

    def write_error(self, error: e.KeywrightError, call: AnyCall | None = None) -> Answer:
        """The answer for an error."""
        if type(error) is not e.NoSuchAddress or call is None:
            return write_problem(error)
        path = call.scope["raw_path"].decode("latin-1").removeprefix(self.root)
        return write_problem(error, decoding.of_path(path.strip("/").split("/")))

    def _find_address(self, words: list[str]) -> tuple[Address | None, dict[str, Any]]:
        """The address with these path segments, and its parameters; None if there is no such address."""
        node: Any = self._others
        values = []
        for word in words:
            following = node.get(word)
            if following is None:
                following = node.get(None)
                values.append(word)
            if following is None:
                return None, {}
            node = following
        address: Address | None = node.get(_HERE)
        return (None, {}) if address is None else _with_parameters(address, values)


def _add_to_tree(tree: dict[str | None, Any], words: Sequence[str | None], address: Address) -> None:
    """Add an address to a tree of path segments, under the key ``_HERE``."""
    for word in words:
        tree = tree.setdefault(word, {})
    tree[_HERE] = address


def _with_parameters(address: Address, values: Sequence[str]) -> tuple[Address | None, dict[str, Any]]:
    parameters: dict[str, Any] = {}
    for (name, is_text), value in zip(address.parameters, values, strict=True):
        if is_text:
            parameters[name] = value
        elif value.isascii() and value.isdigit() and len(value) < 20 and 1 <= int(value) <= MAX_ID:
            parameters[name] = int(value)
        else:
            return None, {}
        if len(value) > _MAX_WORD:
            return None, {}
    return address, parameters
