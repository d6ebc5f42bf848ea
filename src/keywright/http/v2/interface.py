"""The v2 interface as the middlewares see it: it recognizes its calls and decodes them."""

from collections.abc import Collection, Iterator
from typing import Any

from starlette.types import Receive, Scope

from keywright.config import Settings
from keywright.core import errors as e
from keywright.core.parsing import MAX_LABEL_LENGTH
from keywright.engine.desk import Desk
from keywright.http.answer import Answer
from keywright.http.middleware.authentication import check_right
from keywright.http.middleware.body import MAX_UNTRUSTED_BODY
from keywright.http.middleware.call import Call
from keywright.http.middleware.cors import CorsNames
from keywright.http.middleware.routing import Right
from keywright.http.v2 import parameters, wire
from keywright.http.v2.relay import Relay
from keywright.http.v2.routes import (
    ADDRESSES,
    Action,
    Address,
    decode_words,
    join_key,
    parse_rest_route,
    parse_setting,
    refusing,
    to_text,
)
from keywright.licensing.refusals import NamedDevice, to_known_token

#: The header and the parameter in which a POST can override its method.
_METHOD_HEADER, _METHOD = b"x-http-method-override", "_method"
_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class V2:
    """The v2 interface, mounted at the path from the settings."""

    malformed = wire.MALFORMED
    has_own_credentials = False
    has_keys_in_body = False
    states_limits = False
    cors_names = CorsNames(
        b"Authorization, Content-Type, Idempotency-Key",
        b"Idempotency-Replayed, Retry-After",
        b"Idempotency-Replayed, Retry-After, Link, X-WP-Total, X-WP-TotalPages",
    )

    def __init__(self, settings: Settings, desk: Desk, relay: Relay | None = None) -> None:
        self.desk = desk
        self.body_limit = settings.body_limit
        self.untrusted_body_limit = MAX_UNTRUSTED_BODY
        self._below_rest_route = [*parse_setting(settings.namespace), "v2"]
        self._root = parse_setting(settings.api_root)
        self._prefix = [*self._root, *self._below_rest_route]
        self._raw_prefix = [word.encode() for word in self._prefix]
        #: The prefix of most paths, before the segments of an address.
        self._path_start = b"".join(b"/%b" % word for word in [*self._raw_prefix, b""])
        #: The root of the interface: programs call it to test the connection.
        index = Address((), {"GET": Action("index", Right.NONE, self._answer_index, changes=False)})
        addresses = list(ADDRESSES)
        if settings.v2_validate == "refuse":
            addresses = list(map(refusing, addresses))
        if relay is not None:
            addresses = list(map(relay.wrap, addresses))
        self._addresses = {one.words: one for one in (index, *addresses)}
        self._index = wire.encode(_describe("/".join(self._below_rest_route), self._addresses.values()))

    def open_call(self, scope: Scope, receive: Receive) -> Call | None:
        """The call for a request; None for a request to something else."""
        path: bytes = scope["raw_path"]
        is_odd = b"%" in path or b"//" in path or path.endswith(b"/")
        if path.startswith(self._path_start) and not is_odd:
            words = path[len(self._path_start) :].decode("latin-1").split("/")
        elif (found := self._find_words(path, scope["query_string"])) is not None:
            words = found
        else:
            return None
        address, key = self._find_address(words)
        call = Call(self, scope, receive, address, key)
        if not key.isascii():
            call.key = to_text(key)
            call.is_key_text = call.key == key or words[0] != "licenses"
        return call

    def parse_query(self, query: bytes) -> parameters.Parameters:
        """The parameters in a query. Raises ``MalformedForm``."""
        return parameters.parse_query(query)

    def parse_body(self, call: Call, body: bytes) -> parameters.Parameters:
        """The parameters in a body. Raises ``MalformedJson``, ``BodyNotAnObject`` or ``MalformedForm``;
        instead of the last two, the ``unreadable`` error of the action, if it has one.
        """
        try:
            return parameters.parse_body(call.headers.get(b"content-type", b""), body)
        except (e.MalformedForm, e.BodyNotAnObject):
            unreadable = call.action.unreadable if isinstance(call.action, Action) else None
            if unreadable is None:
                raise
            raise unreadable from None

    def prepare(self, call: Call, action: Action) -> Action:
        """Set the call's parameters, and return the action, after a method override.

        Raises ``InvalidParameters``, ``UnknownLicense`` for a key that is not valid text and, if the method
        is overridden, what refuses the other method.
        """
        if call.query or call.sent or _METHOD_HEADER in call.headers:
            method = _take_method(call)
            if method != call.method:
                action = self._change_action(call, method)
            call.parameters = call.query | call.sent
            parameters.require_single_values(call.parameters, action.takes)
        if not call.is_key_text:
            raise e.UnknownLicense(call.key)
        return action

    def find_device(self, call: Call) -> NamedDevice:
        """The label of an activation, or the token, if it can be read."""
        label, token = call.parameters.get("label"), call.parameters.get("token")
        if call.operation != "activate" or not isinstance(label, str):
            label = None
        # A longer label is a reason to refuse the call.
        return NamedDevice(None, label and label[:MAX_LABEL_LENGTH], to_known_token(token))

    def write_methods(self, methods: Collection[str]) -> bytes:
        """The body of the answer to OPTIONS."""
        return wire.success({"methods": methods})

    def write_error(self, error: e.KeywrightError, call: Call) -> Answer:
        """The answer for an error, with the action's own message if it has one."""
        sentences = call.action.sentences if isinstance(call.action, Action) else wire.NO_SENTENCES
        return wire.write_error(error, sentences)

    def _change_action(self, call: Call, method: str) -> Action:
        """Switch the call to the action of another method."""
        address: Address | None = call.address
        assert address is not None  # noqa: S101
        action = address.find_action(method)
        call.action, call.operation = action, action.operation
        check_right(call, action)
        return action

    def _find_words(self, path: bytes, query: bytes) -> list[str] | None:
        """The path segments below ``v2``; None for any other path."""
        raw = [word for word in path.split(b"/") if word]
        size = len(self._raw_prefix)
        if raw[:size] == self._raw_prefix:
            return decode_words(raw[size:])
        if (not raw or raw == [b"index.php"]) and b"rest_route=" in query:
            return self._find_rest_route(query)
        words = decode_words(raw)
        if words[:1] == ["index.php"]:
            # WordPress sites with PATHINFO permalinks.
            words = words[1:]
        if words == self._root:
            return []
        return words[size:] if words[:size] == self._prefix else None

    def _find_rest_route(self, query: bytes) -> list[str] | None:
        for parameter in query.split(b"&"):
            name, _, value = parameter.partition(b"=")
            if name == b"rest_route":
                words = parse_rest_route(value)
                if not words and value:
                    return []
                size = len(self._below_rest_route)
                if words[:size] == self._below_rest_route:
                    below = words[size:]
                    return below if b"/" in value else join_key(below)
        return None

    def _find_address(self, words: list[str]) -> tuple[Address | None, str]:
        """The address that matches these segments, and the license key or ID in the path."""
        addresses = self._addresses
        if words:
            # The key or ID is the last segment, or the second.
            if (found := addresses.get((*words[:-1], None))) is not None:
                return found, words[-1]
            if len(words) > 2 and (found := addresses.get((words[0], None, *words[2:]))) is not None:
                return found, words[1]
        return addresses.get(tuple(words)), ""

    async def _answer_index(self, _call: Call) -> Answer:
        return Answer(200, self._index)


def _take_method(call: Call) -> str:
    """The effective method: a POST may override it in a header, the query or the body, as in WordPress.
    Raises ``InvalidParameters``.
    """
    if call.method != "POST":
        return call.method
    named: list[Any] = [value.decode("latin-1") for value in call.list_headers(_METHOD_HEADER)]
    named += [given.pop(_METHOD) for given in (call.query, call.sent) if _METHOD in given]
    methods = {one.upper() if isinstance(one, str) else "" for one in named} or {call.method}
    if len(methods) > 1 or not methods <= _METHODS:
        raise e.InvalidParameters({_METHOD: "must be POST, PUT, PATCH or DELETE"})
    return methods.pop()


def _describe(namespace: str, addresses: Collection[Address]) -> dict[str, Any]:
    """The index of the interface in WordPress's format: its name, and its routes with their methods."""
    routes = {
        "".join(f"/{word}" for word in (namespace, *_pattern(one))): {
            "namespace": namespace,
            "methods": list(one.actions),
        }
        for one in addresses
    }
    return {"name": "Keywright", "namespaces": [namespace], "routes": routes}


def _pattern(address: Address) -> Iterator[str]:
    """The segments of an address, with WordPress's regular expression for the key or ID."""
    name = "license_key" if address.words[:1] == ("licenses",) else "generator_id"
    return (f"(?P<{name}>[^/]+)" if word is None else word for word in address.words)
