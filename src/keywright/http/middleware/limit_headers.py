"""Tell the rate limits of a call: ``RateLimit-Policy`` and ``RateLimit``
(draft-ietf-httpapi-ratelimit-headers-10).
"""

from collections.abc import Mapping
from time import monotonic

from keywright.http.answer import Headers
from keywright.http.middleware.attempts import digest
from keywright.http.middleware.authentication import Authentication
from keywright.http.middleware.call import Call
from keywright.http.middleware.call_limits import CallLimits
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.middleware.routing import Right
from keywright.http.server.peers import source_of


class _Group:
    """Limits that the same calls are under, by name."""

    def __init__(self, limits: Mapping[str, RateLimit]) -> None:
        shown = {name: limit for name, limit in limits.items() if limit.is_on}
        policies = (f'"{name}";q={one.burst};w={one.window}' for name, one in shown.items())
        self._policy = (b"ratelimit-policy", ", ".join(policies).encode())
        #: Each limit with what is told while its bucket is full; most are.
        self._limits = [(name, one, f'"{name}";r={one.burst};t=0') for name, one in shown.items()]
        all_full = (b"ratelimit", ", ".join(full for _, _, full in self._limits).encode())
        self._all_full: Headers = (self._policy, all_full) if shown else ()
        #: The sources whose bucket may not be full; None where they are not only addresses.
        self._sources = None if _OF_LICENSE in shown else [one.sources for one in shown.values()]

    def headers(self, source: str, key: str) -> Headers:
        """The headers for an address; ``key`` is the license key."""
        if self._sources is not None and not any([source in one for one in self._sources]):
            return self._all_full
        now = monotonic()
        told = []
        for name, one, full in self._limits:
            state = one.find_state(now, digest(key) if name == _OF_LICENSE else source)
            told.append(full if state is None else f'"{name}";r={state[0]};t={state[1]}')
        return self._policy, (b"ratelimit", ", ".join(told).encode())


_OF_LICENSE = "license-activations"


class LimitHeaders:
    """The headers about the limits of a call. They do not show how much each of them counts itself: those of
    failures count failures only.
    """

    def __init__(self, limits: CallLimits, authentication: Authentication) -> None:
        failures = {"malformed-requests": limits.malformed}
        client = {"unknown-keys": limits.keys.limit, **failures}
        activation = {_OF_LICENSE: limits.license_changes, "address-activations": limits.address_changes}
        self._management = _Group({"wrong-credentials": authentication.attempts.limit, **failures})
        self._client = _Group(client)
        trial = {"trials": limits.trials, **failures}
        self._of_operation = {"activate": _Group(client | activation), "start_trial": _Group(trial)}

    def headers(self, call: Call) -> Headers:
        """The headers of the call's answer; none where its limits are off."""
        group = self._management
        if call.action is not None and call.action.right is Right.CORE:
            group = self._of_operation.get(call.operation, self._client)
        return group.headers(source_of(call.client_address), call.key)
