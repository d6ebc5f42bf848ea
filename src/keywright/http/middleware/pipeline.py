"""The steps that every call passes, in order. They are plain functions over one ``Call``, which costs less
than nested applications.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter, time

from starlette.types import ASGIApp, Receive, Scope, Send

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.core import errors as e
from keywright.core.errors import AddressTooLong, LimitReached, NoSuchAddress
from keywright.http.answer import Answer
from keywright.http.middleware.access_log import AccessLog
from keywright.http.middleware.authentication import ApiKeyCache, Authentication, check_right
from keywright.http.middleware.body import BodyReader, take_small_body
from keywright.http.middleware.call import Call, Interface
from keywright.http.middleware.call_limits import CallLimits, LimitHeaders
from keywright.http.middleware.client_address import ClientAddresses
from keywright.http.middleware.cors import Cors
from keywright.http.middleware.routing import Right
from keywright.http.middleware.sending import RefusalDelay, send_answer, to_keywright_error
from keywright.licensing.refusals import RefusedCall

#: The maximum size of path and query together, in bytes.
MAX_ADDRESS = 8192
_TOO_MANY_REQUESTS = 429
#: The operations whose refusals are recorded, and the refusals that mean that the license exists.
_AS_DEVICE = frozenset({"activate", "validate"})
_ABOUT_LICENSES = frozenset(
    {
        e.LicenseExpired,
        e.LicenseInactive,
        e.LicenseDisabled,
        e.LimitReached,
        e.VersionNotCovered,
        e.ProductMismatch,
        e.KeyRotated,
        e.FingerprintRequired,
        e.TooManyNewDevices,
        e.NoRemovalLeft,
        e.UnknownToken,
        e.TokenNotActive,
    }
)


#: Called with the operation, the outcome, and the duration of a call in seconds.
CountCall = Callable[[str, str, float], None]


class Middlewares:
    """The middlewares, shared by all interfaces."""

    def __init__(
        self,
        settings: Settings,
        counters: Counters,
        api_key_cache: ApiKeyCache,
        body_reader: BodyReader,
        access_log: AccessLog,
        *,
        count_call: CountCall | None,
    ) -> None:
        self.counters = counters
        self.body_reader = body_reader
        self.access_log = access_log
        self.count_call = count_call
        self.client_addresses = ClientAddresses(settings.trusted_proxies, settings.ip_addresses, counters)
        self.authentication = Authentication(
            settings.bad_credentials_limit,
            api_key_cache,
            counters,
            require_api_key=settings.require_api_key,
        )
        self.limits = CallLimits(settings)
        self.limit_headers = LimitHeaders(self.limits, self.authentication)
        self.allowed_origins = settings.allowed_origins
        self.refusal_delay = RefusalDelay()


class Pipeline:
    """The ASGI application of the interfaces; requests to none of them go to ``otherwise``."""

    def __init__(self, interfaces: Sequence[Interface], middlewares: Middlewares, otherwise: ASGIApp) -> None:
        self._interfaces = interfaces
        self._middlewares = middlewares
        self._otherwise = otherwise
        self._cors = {one: Cors(middlewares.allowed_origins, one.cors_names) for one in interfaces}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = perf_counter()
        for interface in self._interfaces:
            call = interface.open_call(scope, receive)
            if call is not None:
                break
        else:
            await self._otherwise(scope, receive, send)
            return
        self._middlewares.counters.calls += 1
        answer = await self._answer(call)
        try:
            if answer.status == _TOO_MANY_REQUESTS:
                await self._middlewares.refusal_delay.wait()
            await send_answer(call, send, answer)
        finally:
            self._middlewares.access_log.log_call(call, answer, started)
            if (count_call := self._middlewares.count_call) is not None:
                count_call(call.operation or "none", call.error_code or "ok", perf_counter() - started)

    async def _answer(self, call: Call) -> Answer:
        """The answer, even if something fails."""
        limits = self._middlewares.limits
        try:
            answer = await self._decide(call)
            limits.end(call, None, len(answer.body))
        except (Exception, asyncio.CancelledError) as problem:
            error = to_keywright_error(problem, call)
            if type(error) is LimitReached:
                self._middlewares.counters.count_refusal(call.key)
            if type(error) in _ABOUT_LICENSES and call.operation in _AS_DEVICE:
                self._see_refusal(call, error.problem)
            error = limits.end(call, error) or error
            call.error_code = error.code
            answer = call.interface.write_error(error, call)
        if call.interface.states_limits:
            answer.headers += self._middlewares.limit_headers.headers(call)
        cors = self._cors[call.interface]
        answer.headers += cors.headers(call.address, call.headers.get(b"origin", b""))
        return answer

    async def _decide(self, call: Call) -> Answer:
        """Authorize the call and run its action. Raises the error of the first step that refuses it."""
        steps = self._middlewares
        steps.client_addresses.find(call)
        self._read_query(call)
        if call.method == "OPTIONS":
            return self._answer_options(call)
        await steps.authentication.authenticate(call)
        if call.address is None:
            raise NoSuchAddress
        action = call.address.find_action(call.method)
        check_right(call, action)
        is_read_first = call.interface.has_keys_in_body
        # Anyone can have a client key: it must not make it easier to guess license keys.
        is_guess = action.right is Right.CORE or (
            action.right is Right.ONE_LICENSE and not call.has_secret_key
        )
        if is_guess and not is_read_first:
            await steps.limits.begin(call, takes_place=action.operation == "activate")
        if call.has_body and not _take_body(call):
            await self._read_body(call)
        action = call.interface.prepare(call, action)
        if is_guess and is_read_first:
            await steps.limits.begin(call, takes_place=action.operation == "activate")
        answer: Answer = await action.answer(call)
        if call.finding is not None:
            self._see_refusal(call, call.finding)
            if call.finding == LimitReached.problem:
                steps.counters.count_refusal(call.key)
        is_validation = action.operation == "validate" and not call.is_key_unknown
        self._count(answer, is_core=action.right is Right.CORE, is_validation=is_validation)
        return answer

    def _count(self, answer: Answer, *, is_core: bool, is_validation: bool) -> None:
        """Count a validation, and record when the license was seen."""
        counters = self._middlewares.counters
        for release_id, what in answer.releases:
            counters.count_release(release_id, what)
        if is_validation:
            counters.count_validation(answer.product_id)
        if is_core and answer.license_id is not None:
            counters.last_seen.see(
                answer.license_id,
                answer.activation_id,
                time(),
                is_validation=is_validation,
                version=answer.app_version,
            )

    def _see_refusal(self, call: Call, reason: str) -> None:
        """Record that a device was refused the use of an existing license."""
        device = call.interface.find_device(call).without_unstorable()
        refused = RefusedCall(
            reason=reason,
            operation=call.operation,
            **device._asdict(),
            ip_address=call.kept_address,
            refused_at=call.now,
        )
        self._middlewares.counters.refusals.see(call.key, refused)

    def _read_query(self, call: Call) -> None:
        query = call.scope["query_string"]
        if len(call.scope["raw_path"]) + len(query) > MAX_ADDRESS:
            raise AddressTooLong
        if query:
            call.query = call.interface.parse_query(query)

    async def _read_body(self, call: Call) -> None:
        # The limit depends on the caller, who is known by now.
        interface = call.interface
        call.sent = await self._middlewares.body_reader.read(
            call.headers,
            call.receive,
            interface.body_limit,
            partial(interface.parse_body, call),
            address=call.client_address,
            is_trusted=call.has_secret_key,
            untrusted_limit=interface.untrusted_body_limit,
        )

    def _answer_options(self, call: Call) -> Answer:
        if call.address is None:
            raise NoSuchAddress
        call.operation = "options"
        cors = self._cors[call.interface]
        headers = cors.preflight_headers(call.address, call.headers.get(b"origin", b""))
        return Answer(200, call.interface.write_methods(call.address.methods), headers)


def _take_body(call: Call) -> bool:
    """Read a small body that has already arrived; return whether there was one."""
    body, call.receive = take_small_body(call.headers, call.receive, call.interface.body_limit)
    if body is not None:
        call.sent = call.interface.parse_body(call, body)
    return body is not None
