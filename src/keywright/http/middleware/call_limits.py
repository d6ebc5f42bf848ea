"""The rate limits of calls, and the headers that state them.

A call takes tokens before it is executed, and gets back those that it did not use, so that concurrent calls
cannot exceed a limit. Each server process counts separately.
"""

from collections.abc import Mapping
from time import monotonic

from keywright.config import Settings
from keywright.core import errors as e
from keywright.http.answer import Headers
from keywright.http.middleware.attempts import Attempt, Attempts, digest
from keywright.http.middleware.authentication import Authentication
from keywright.http.middleware.call import Call, Charge, Token
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.middleware.routing import Right
from keywright.http.server.sockets import source_of
from keywright.identity.model import Permissions

#: The burst of successful activations and reactivations, per license and per address.
LICENSE_BURST = 1_000
ADDRESS_BURST = 5_000
#: The burst and the rate per minute of successful calls with an idempotency key, per address: the database
#: stores each answer for a day. A large answer counts once more for each ``KEPT_BYTES``.
KEPT_BURST, _KEPT_LIMIT, KEPT_BYTES = 5_000, 600, 1_600
_HOUR = 3_600


class CallLimits:
    """The rate limits of all interfaces."""

    def __init__(self, settings: Settings) -> None:
        self.keys = Attempts(settings.unknown_key_limit)
        self.malformed = RateLimit(settings.bad_request_limit)
        self.license_changes = RateLimit(
            settings.license_change_limit, burst=LICENSE_BURST, error=e.TooManyChanges
        )
        self.address_changes = RateLimit(
            settings.address_change_limit, burst=ADDRESS_BURST, error=e.TooManyChanges
        )
        self.kept_answers = RateLimit(_KEPT_LIMIT, burst=KEPT_BURST, error=e.TooManyKeptAnswers)
        self.trials = RateLimit(settings.trial_limit, period=_HOUR, error=e.TooManyTrials)

    async def begin(self, call: Call, *, takes_place: bool) -> None:
        """Take the tokens of a core call. Raises ``RateLimited``; call ``end`` in any case."""
        sources = _sources(call)
        call.charge = charge = Charge()
        # The start of a trial has no license key.
        attempt = await self.keys.begin(call.key, *sources) if call.key else None
        charge.attempt = attempt
        # Errors in what was read before, such as the query, are counted in ``end``.
        if call.has_body and not call.has_secret_key and not call.interface.has_keys_in_body:
            charge.for_malformed = _take(self.malformed, _malformed_source(call, attempt))
        if takes_place and not _is_shop(call):
            if self.license_changes.is_on:
                charge.for_success = _take(self.license_changes, digest(call.key))
            # Behind an untrusted proxy, all callers share one address.
            if not call.is_behind_unknown_proxy:
                charge.for_success += _take(self.address_changes, sources[0])
        if call.operation == "start_trial" and not _is_shop(call) and not call.is_behind_unknown_proxy:
            self._take_for_trial(call, charge, sources[0])
        if b"idempotency-key" in call.headers and not takes_place and not _is_shop(call):
            self._take_for_kept_answer(call, charge, sources[0])

    def _take_for_trial(self, call: Call, charge: Charge, address: str) -> None:
        """Take the token for a new trial. If there is none, the device may still get its existing trial, but
        the lookup costs a token of unknown license keys.
        """
        try:
            charge.for_success = _take(self.trials, address)
        except e.TooManyTrials as limited:
            charge.for_unknown = _take(self.keys.limit, address)
            call.limited = limited

    def _take_for_kept_answer(self, call: Call, charge: Charge, address: str) -> None:
        if not call.is_behind_unknown_proxy:
            charge.for_kept_answer = _take(self.kept_answers, address)

    def end(
        self, call: Call, error: e.KeywrightError | None, answer_size: int = 0
    ) -> e.KeywrightError | None:
        """Give back the tokens that the call did not use; ``answer_size`` is in bytes. Return the error to
        answer with: ``RateLimited`` after too many malformed requests.
        """
        charge, call.charge = call.charge, None
        is_malformed = type(error) in call.interface.malformed
        has_paid = False
        if charge is not None:
            is_success = error is None and not call.is_replayed and not call.is_key_unknown
            is_looked_up = (
                is_success or call.is_key_unknown or type(error) in (e.UnknownLicense, e.OtherProductKey)
            )
            self.keys.end(charge.attempt, is_right=is_success if is_looked_up else None)
            has_paid = bool(charge.for_malformed)
            if is_success and call.is_change and not call.is_unchanged:
                for limit, source in charge.for_kept_answer:
                    limit.owe(monotonic(), source, answer_size // KEPT_BYTES)
            else:
                _give_back(charge.for_kept_answer)
            if not is_success or call.is_unchanged:
                _give_back(charge.for_success)
            if not call.is_key_unknown:
                _give_back(charge.for_unknown)
            if not is_malformed:
                _give_back(charge.for_malformed)
        if is_malformed and not has_paid and not call.has_secret_key:
            return self._count_malformed(call, None if charge is None else charge.attempt) or error
        return error

    def _count_malformed(self, call: Call, attempt: Attempt | None) -> e.RateLimited | None:
        """Take the token for a malformed request that did not pay before it was read."""
        try:
            self.malformed.take(monotonic(), _malformed_source(call, attempt))
        except e.RateLimited as limited:
            return limited
        return None


def _malformed_source(call: Call, attempt: Attempt | None) -> str | bytes:
    """The source that pays for a malformed request: a known key, which others at its address must not block,
    or else the address.
    """
    if attempt is not None and attempt.is_known:
        return attempt.digest
    return source_of(call.client_address)


def _take(limit: RateLimit, source: str | bytes) -> tuple[Token, ...]:
    if not limit.is_on:
        return ()
    limit.take(monotonic(), source)
    return ((limit, source),)


def _give_back(taken: tuple[Token, ...]) -> None:
    for limit, source in taken:
        limit.give_back(monotonic(), source)


def _sources(call: Call) -> tuple[str, ...]:
    """The sources that pay for an unknown license key: the address, and the API key.

    A client key does not pay: shipped programs contain it, and one customer must not block the others.
    """
    source = source_of(call.client_address)
    return (source, call.actor) if call.has_secret_key else (source,)


def _is_shop(call: Call) -> bool:
    return call.caller is not None and call.caller.permissions is Permissions.READ_WRITE


class _Group:
    """The limits that apply to a group of calls, by name."""

    def __init__(self, limits: Mapping[str, RateLimit]) -> None:
        shown = {name: limit for name, limit in limits.items() if limit.is_on}
        policies = (f'"{name}";q={one.burst};w={one.window}' for name, one in shown.items())
        self._policy = (b"ratelimit-policy", ", ".join(policies).encode())
        #: Each limit with its header for a full bucket, which is the usual case.
        self._limits = [(name, one, f'"{name}";r={one.burst};t=0') for name, one in shown.items()]
        all_full = (b"ratelimit", ", ".join(full for _, _, full in self._limits).encode())
        self._all_full: Headers = (self._policy, all_full) if shown else ()
        #: The sources with a bucket that may not be full; None if not all sources are addresses.
        self._sources = None if _OF_LICENSE in shown else [one.sources for one in shown.values()]

    def headers(self, source: str, key: str) -> Headers:
        """The headers for an address and a license key."""
        if self._sources is not None and not any([source in one for one in self._sources]):
            return self._all_full
        now = monotonic()
        items = []
        for name, one, full in self._limits:
            state = one.find_state(now, digest(key) if name == _OF_LICENSE else source)
            items.append(full if state is None else f'"{name}";r={state[0]};t={state[1]}')
        return self._policy, (b"ratelimit", ", ".join(items).encode())


_OF_LICENSE = "license-activations"


class LimitHeaders:
    """Builds the rate limit headers of answers. Note that limits on failures count failures only."""

    def __init__(self, limits: CallLimits, authentication: Authentication) -> None:
        failures = {"malformed-requests": limits.malformed}
        client = {"unknown-keys": limits.keys.limit, **failures}
        activation = {_OF_LICENSE: limits.license_changes, "address-activations": limits.address_changes}
        self._management = _Group({"wrong-credentials": authentication.attempts.limit, **failures})
        self._client = _Group(client)
        trial = {"trials": limits.trials, **failures}
        self._of_operation = {"activate": _Group(client | activation), "start_trial": _Group(trial)}

    def headers(self, call: Call) -> Headers:
        """The headers of the call's answer; none if its limits are off."""
        group = self._management
        if call.action is not None and call.action.right is Right.CORE:
            group = self._of_operation.get(call.operation, self._client)
        return group.headers(source_of(call.client_address), call.key)
