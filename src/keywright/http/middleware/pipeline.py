"""The edge: the ASGI application around everything.

It takes a request apart, finds out who calls, has the v2 interface answer it (or passes it on to the
pages), turns every error into the contract's shape, and writes one line to the log.
"""

import asyncio
import logging
from time import perf_counter

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.config.logs import log_request
from keywright.core import crypto
from keywright.core import errors as e
from keywright.engine.desk import Desk
from keywright.http.middleware import credentials
from keywright.http.middleware.body import BodyReader
from keywright.http.middleware.call_limits import RateLimits
from keywright.http.middleware.client_address import Addresses
from keywright.http.middleware.rate_limits import source_of
from keywright.http.middleware.sending import ALWAYS, RefusalDelay, say_unknown, send_answer
from keywright.http.v2 import messages, parameters, routes, wire
from keywright.http.v2.call import Answer, Call
from keywright.identity import api_keys
from keywright.identity.commands import FindApiKey
from keywright.identity.model import Caller

#: The most bytes of path and query together.
MAX_ADDRESS = 8192
#: The status of answers to callers that are over a limit.
_LIMITED = 429
_ANY_ORIGIN = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"Idempotency-Replayed, Retry-After"),
)
_EXPOSED = (
    b"access-control-expose-headers",
    b"Idempotency-Replayed, Retry-After, Link, X-WP-Total, X-WP-TotalPages",
)
_PREFLIGHT_HEADERS = b"Authorization, Content-Type, Idempotency-Key"
_PREFETCH_HEADERS = (b"sec-purpose", b"purpose", b"x-moz")

errors_log = logging.getLogger(__name__)


class Edge:
    """The application that the server runs. Whoever runs it gives it its desk first."""

    desk: Desk

    def __init__(self, settings: Settings, pages: ASGIApp) -> None:
        self._settings = settings
        self._pages = pages
        self._origins = frozenset(origin.encode() for origin in settings.allowed_origins)
        below = [*_split(settings.namespace), "v2"]
        self._below_rest_route = below
        self._root = _split(settings.api_root)
        self._prefix = [*self._root, *below]
        self._raw_prefix = [word.encode() for word in self._prefix]
        #: What most paths begin with, before the words of an address.
        self._usual = b"".join(b"/%b" % word for word in [*self._raw_prefix, b""])
        self._budgets = RateLimits(settings)
        self._brake = RefusalDelay()
        self.intake = BodyReader()
        #: What is counted here, to be kept by whoever runs this.
        self.tallies = Counters()
        self._addresses = Addresses(settings.trusted_proxies, self.tallies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._pages(scope, receive, send)
            return
        started = perf_counter()
        words = self._v2_words(scope)
        if words is None:
            await self._pass_on(scope, receive, send, started)
            return
        self.tallies.calls += 1
        call = Call(scope, receive, dict(scope["headers"]))
        answer = await self._answer(call, words)
        if answer.status == _LIMITED:
            await self._brake.delay()
        try:
            await send_answer(call, send, answer)
        finally:
            _write_line(call, answer.status, answer.license_id, started)

    def _v2_words(self, scope: Scope) -> list[str] | None:
        """The address below ``v2``, or None for a request that is not to the v2 interface."""
        path: bytes = scope["raw_path"]
        is_odd = b"%" in path or b"//" in path or path.endswith(b"/")
        if path.startswith(self._usual) and not is_odd:
            return path[len(self._usual) :].decode("latin-1").split("/")
        raw = [word for word in path.split(b"/") if word]
        size = len(self._raw_prefix)
        if raw[:size] == self._raw_prefix:
            return routes.decoded(raw[size:])
        if (not raw or raw == [b"index.php"]) and b"rest_route=" in scope["query_string"]:
            return self._rest_route_words(scope["query_string"])
        words = routes.decoded(raw)
        if words[:1] == ["index.php"]:
            # Sites with PATHINFO permalinks.
            words = words[1:]
        if words == self._root:
            return []
        return words[size:] if words[:size] == self._prefix else None

    def _rest_route_words(self, query: bytes) -> list[str] | None:
        for parameter in query.split(b"&"):
            name, _, value = parameter.partition(b"=")
            if name == b"rest_route":
                words = routes.words_of_rest_route(value)
                if not words and value:
                    return []
                size = len(self._below_rest_route)
                if words[:size] == self._below_rest_route:
                    below = words[size:]
                    return below if b"/" in value else routes.with_key_in_one(below)
        return None

    async def _answer(self, call: Call, words: list[str]) -> Answer:
        address, is_text = None, True
        try:
            method = call.scope["method"]
            found = routes.find_address(words)
            if found is not None:
                address = found[0]
                is_text = _name_call(call, *found)
            await self._understand(call, address)
            if address is None:
                raise e.NoSuchAddress
            if method == "OPTIONS":
                answer = self._options(call, address)
            else:
                answer = await self._act(call, address, is_text=is_text)
            self._budgets.end(call, None)
        except e.KeywrightError as error:
            answer = _refusal(self._budgets.end(call, error) or error, call.sayings)
        except asyncio.CancelledError:
            # The server stops and waits no longer. What the desk has not begun leaves it undone.
            fault = e.FateUnknown() if call.is_change and call.is_begun else e.ShuttingDown()
            self._budgets.end(call, fault)
            answer = _refusal(fault, call.sayings)
        except Exception as problem:
            self._budgets.end(call, e.Fault())
            errors_log.exception("an error that should not be", exc_info=problem)
            answer = _refusal(e.Fault(), call.sayings)
        answer.headers += self._cors(call, address)
        return answer

    async def _act(self, call: Call, address: routes.Address, *, is_text: bool) -> Answer:
        """Do what is asked for, if this caller may, and may now. A key that is no text is unknown."""
        action = routes.find_action(address, call.scope["method"])
        self._check(call, action)
        if action.right is routes.Right.CORE:
            await self._budgets.begin(call, takes_place=action.operation == "activate")
        if call.has_body:
            await _read_body(call, action)
        if call.query or call.sent or b"x-http-method-override" in call.headers:
            action = self._find_meant(call, address, action)
            parameters.require_single_values(call.parameters, action.takes.__struct_fields__)
        if not is_text:
            raise e.UnknownLicense(call.key)
        try:
            answer = await action.answer(call)
        except e.LimitReached:
            self.tallies.count_refusal(call.key)
            raise
        self.tallies.validations += action.operation == "validate"
        return answer

    def _find_meant(self, call: Call, address: routes.Address, action: routes.Action) -> routes.Action:
        """The action of the method that is meant, which the caller needs the right for, too."""
        method = call.take_method()
        if method == call.scope["method"]:
            return action
        meant = routes.find_action(address, method)
        _expect(call, meant)
        self._check(call, meant)
        return meant

    async def _understand(self, call: Call, address: routes.Address | None) -> None:
        """Read what every call has: its query, its client's address, and its caller."""
        scope = call.scope
        call.desk = self.desk
        call.body_limit = self._settings.body_limit
        call.intake = self.intake
        call.namespace = self._settings.namespace
        call.ip_addresses = self._settings.ip_addresses
        self._addresses.find(call)
        query = scope["query_string"]
        if len(scope["raw_path"]) + len(query) > MAX_ADDRESS:
            raise e.AddressTooLong
        if query:
            call.query = parameters.from_query(query)
        if scope["method"] == "OPTIONS":
            return
        authorization = _all(call, b"authorization")
        if authorization or not call.query.keys().isdisjoint(credentials.NAMES):
            call.caller = await self._caller(call, authorization)
        if call.caller is not None:
            self.tallies.used_api_keys[call.caller.api_key_id] = call.now
        elif address is None or not address.is_open or (address.is_core and self._settings.require_api_key):
            raise e.CredentialsMissing

    async def _caller(self, call: Call, authorization: list[bytes]) -> Caller | None:
        """The caller whose credentials came along; None for none. Raises ``CredentialsInvalid``, or
        ``RateLimited`` when there were too many of these before.
        """
        sent = [str(call.query[name]) for name in credentials.NAMES if name in call.query]
        if not authorization and not sent:
            return None
        sent += (one.decode("latin-1") for one in authorization)
        guess = await self._budgets.credentials.begin("\0".join(sent), source_of(call.address))
        is_right = None
        try:
            given = credentials.credentials(call.query, authorization)
            if given is None:
                return None
            question = FindApiKey(consumer_key_hash=crypto.hash_consumer_key(given[0]))
            found = await call.desk.query(question, call)
            caller = api_keys.caller_of(found, given[1])
            is_right = True
        except e.CredentialsInvalid:
            is_right = False
            raise
        finally:
            self._budgets.credentials.end(guess, is_right=is_right)
        return caller

    def _check(self, call: Call, action: routes.Action) -> None:
        """Raise what forbids this caller this action, before anything is looked up."""
        if action.right is routes.Right.CORE:
            if call.caller is not None and not api_keys.may_call_core(call.caller.permissions):
                raise e.NoReadPermission
            if action.changes and call.scope["method"] == "GET" and _is_prefetch(call):
                raise e.PrefetchRefused
            return
        if action.right is not routes.Right.NONE:
            _require(action.right, call.caller)

    def _options(self, call: Call, address: routes.Address) -> Answer:
        methods = address.methods
        allow = ", ".join(methods).encode()
        headers: messages.Headers = ((b"allow", allow),)
        if address.is_open or call.headers.get(b"origin") in self._origins:
            headers += (
                (b"access-control-allow-methods", allow),
                (b"access-control-allow-headers", _PREFLIGHT_HEADERS),
                (b"access-control-max-age", b"86400"),
            )
        call.operation = "options"
        return Answer(200, wire.success({"methods": methods}), headers)

    def _cors(self, call: Call, address: routes.Address | None) -> messages.Headers:
        if address is not None and address.is_open:
            return _ANY_ORIGIN
        if not self._origins:
            return ()
        origin = call.headers.get(b"origin", b"")
        if origin not in self._origins:
            return ((b"vary", b"Origin"),)
        return ((b"vary", b"Origin"), (b"access-control-allow-origin", origin), _EXPOSED)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, started: float) -> None:
        status, has_begun = 500, False

        async def send_and_see(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                message["headers"] = [*message["headers"], *_always_but(message["headers"])]
            await send(message)

        try:
            await self._pages(scope, receive, send_and_see)
        except asyncio.CancelledError:
            # The server stops and waits no longer.
            if has_begun:
                raise
            await say_unknown(send_and_see)
        finally:
            log_request(
                method=scope["method"],
                route=_page(scope),
                status=status,
                duration_ms=_milliseconds(started),
            )


def _require(right: routes.Right, caller: Caller | None) -> None:
    """Raise ``CredentialsMissing``, ``NoReadPermission`` or ``NoWritePermission``."""
    if caller is None:
        raise e.CredentialsMissing
    if right is routes.Right.READ and not api_keys.may_read(caller.permissions):
        raise e.NoReadPermission
    if right is routes.Right.WRITE and not api_keys.may_write(caller.permissions):
        raise e.NoWritePermission


def _name_call(call: Call, address: routes.Address, key: str) -> bool:
    """Say in the call what is asked for; returns whether the key in the address is a text at all."""
    call.key = key if key.isascii() else routes.shown(key)
    _expect(call, address.actions.get(call.scope["method"]))
    return call.key == key or address.words[0] != "licenses"


def _expect(call: Call, action: routes.Action | None) -> None:
    """Note what is asked for: refusals and the log say it."""
    if action is not None:
        call.operation, call.sayings = action.operation, action.sayings


async def _read_body(call: Call, action: routes.Action) -> None:
    try:
        await call.read_body()
    except (e.MalformedForm, e.BodyNotAnObject):
        if action.unreadable is None:
            raise
        raise action.unreadable from None


def _always_but(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of every answer that does not set its own: some pages' files may be kept."""
    said = {name for name, _ in headers}
    return [header for header in ALWAYS if header[0] not in said]


def _refusal(error: e.KeywrightError, sayings: messages.Sayings) -> Answer:
    return Answer(*messages.write(error, sayings), messages.headers(error))


def _write_line(call: Call, status: int, license_id: int | None, started: float) -> None:
    log_request(
        method=call.scope["method"],
        route=call.operation or "none",
        status=status,
        duration_ms=_milliseconds(started),
        address=call.address,
        caller=call.actor,
        license_id=license_id,
        key=crypto.mask(call.key) if call.key else None,
    )


def _page(scope: Scope) -> str:
    """The page's own address; another path is not written, for there may be a license key in it."""
    route = scope.get("route")
    return f"{scope.get('root_path', '')}{route.path}" if isinstance(route, Route) else "none"


def _milliseconds(started: float) -> float:
    return round((perf_counter() - started) * 1000, 3)


def _all(call: Call, wanted: bytes) -> list[bytes]:
    """Every header of that name, in the order they came."""
    if wanted not in call.headers:
        return []
    return [value for name, value in call.scope["headers"] if name == wanted]


def _is_prefetch(call: Call) -> bool:
    return any(b"prefetch" in value.lower() for name in _PREFETCH_HEADERS for value in _all(call, name))


def _split(setting: str) -> list[str]:
    return [word for word in setting.split("/") if word]
