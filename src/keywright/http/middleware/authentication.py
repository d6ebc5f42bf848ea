"""Authenticate callers, and check their permissions.

Only the lookup of an API key is cached: the secret of every call is compared.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from keywright.background.counters import Counters
from keywright.core import crypto
from keywright.core import errors as e
from keywright.http.middleware.attempts import Attempts
from keywright.http.middleware.call import Call
from keywright.http.middleware.routing import Action, Right
from keywright.http.server.sockets import source_of
from keywright.identity import api_keys
from keywright.identity.api_keys import split_token
from keywright.identity.model import ApiKey, Caller, FindApiKey, Permissions

NAMES = ("consumer_key", "consumer_secret")


def read_credentials(query: Mapping[str, Any], authorization: Sequence[bytes]) -> tuple[str, str] | None:
    """The consumer key and secret; None if the request has none. The query takes precedence over HTTP Basic.

    Raises ``CredentialsMissing`` for half of a pair, ``CredentialsInvalid`` for an unreadable Basic header,
    and ``InvalidParameters`` if the query has one of them twice or as a list, or there are two headers.
    """
    reasons = {
        name: "must be one value, sent once" for name in NAMES if not isinstance(query.get(name, ""), str)
    }
    if reasons:
        raise e.InvalidParameters(reasons)
    if len(authorization) > 1:
        raise e.InvalidParameters({"Authorization": "was sent more than once"})
    key, secret = (query.get(name, "") for name in NAMES)
    if key and secret:
        return key, secret
    from_header = _parse_basic(authorization[0]) if authorization else None
    if from_header is None and (key or secret):
        raise e.CredentialsMissing
    return from_header


def read_header(authorization: Sequence[bytes]) -> tuple[str, str] | None:
    """The consumer key and secret in the header, as HTTP Basic or as a bearer token (RFC 6750); None for
    another scheme. Raises ``CredentialsMissing`` or ``CredentialsInvalid``.
    """
    if len(authorization) != 1:
        raise e.CredentialsInvalid
    scheme, _, token = authorization[0].partition(b" ")
    if scheme.lower() != b"bearer":
        return _parse_basic(authorization[0])
    secrets = split_token(token.strip().decode("latin-1"))
    if secrets is None:
        raise e.CredentialsInvalid
    return secrets


def _parse_basic(authorization: bytes) -> tuple[str, str] | None:
    """The user and password of HTTP Basic (RFC 7617); None for another scheme."""
    scheme, _, encoded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise e.CredentialsInvalid from None
    key, colon, secret = decoded.partition(":")
    if not colon:
        raise e.CredentialsInvalid
    if not key or not secret:
        raise e.CredentialsMissing
    return key, secret


#: How long an API key is cached, in seconds: other processes may accept a revoked key for that long.
LIFETIME = 1.0
#: The maximum size of the cache.
MAX_KEYS = 1_000


class ApiKeyCache:
    """The API keys that this process looked up within the last second. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """``clock`` returns monotonic seconds."""
        self._clock = clock
        #: API keys and their expiry, by hashed consumer key; the oldest first.
        self._found: dict[str, tuple[ApiKey, float]] = {}
        self._clears = 0

    def __len__(self) -> int:
        """The number of cached API keys."""
        return len(self._found)

    async def find(
        self, consumer_key_hash: str, look_up: Callable[[], Awaitable[ApiKey | None]]
    ) -> ApiKey | None:
        """The API key with this hashed consumer key, cached or from ``look_up``; None is not cached."""
        now = self._clock()
        known = self._found.get(consumer_key_hash)
        if known is not None and now < known[1]:
            return known[0]
        clears = self._clears
        api_key = await look_up()
        # A value that was read before ``clear`` may be outdated.
        if api_key is not None and clears == self._clears:
            # Counted from before the lookup, because it may read the state of that moment.
            self._keep(consumer_key_hash, api_key, now + LIFETIME)
        return api_key

    def clear(self) -> None:
        """Clear the cache, because an API key has changed."""
        self._clears += 1
        self._found.clear()

    def _keep(self, consumer_key_hash: str, api_key: ApiKey, until: float) -> None:
        self._found.pop(consumer_key_hash, None)
        if len(self._found) >= MAX_KEYS:
            del self._found[next(iter(self._found))]
        self._found[consumer_key_hash] = (api_key, until)


#: Headers in which browsers announce a prefetch.
_PREFETCH_HEADERS = (b"sec-purpose", b"purpose", b"x-moz")


class Authentication:
    """Authenticates the caller of each call, and limits wrong credentials."""

    def __init__(
        self, bad_credentials_limit: int, cache: ApiKeyCache, counters: Counters, *, require_api_key: bool
    ) -> None:
        """The limit and ``require_api_key`` are settings."""
        self._cache = cache
        self.attempts = Attempts(bad_credentials_limit)
        self._counters = counters
        self._require_api_key = require_api_key

    async def authenticate(self, call: Call) -> None:
        """Set the caller of the call. Raises ``CredentialsMissing`` if the address needs an API key,
        ``CredentialsInvalid``, or ``RateLimited`` after too many wrong credentials.
        """
        authorization = call.list_headers(b"authorization")
        if authorization or (call.query and not call.query.keys().isdisjoint(NAMES)):
            caller = await self._find_caller(call, authorization)
            if caller is not None:
                call.set_caller(caller)
                self._counters.used_api_keys[caller.api_key_id] = call.now
                return
        address = call.address
        if address is None and call.interface.has_own_credentials:
            raise e.NoSuchAddress
        if address is None or not address.is_open or (address.is_core and self._require_api_key):
            raise e.CredentialsMissing

    async def _find_caller(self, call: Call, authorization: list[bytes]) -> Caller | None:
        """The caller with the credentials of the call; None if it has none."""
        sent = [str(call.query[name]) for name in NAMES if name in call.query]
        sent += (one.decode("latin-1") for one in authorization)
        attempt = await self.attempts.begin("\0".join(sent), source_of(call.client_address))
        is_right = None
        try:
            if call.interface.has_own_credentials:
                credentials = read_header(authorization)
            else:
                credentials = read_credentials(call.query, authorization)
            if credentials is None:
                return None
            caller = await self._check(call, *credentials)
            is_right = True
        except e.CredentialsInvalid:
            is_right = False
            raise
        finally:
            self.attempts.end(attempt, is_right=is_right)
        return caller

    async def _check(self, call: Call, consumer_key: str, consumer_secret: str) -> Caller:
        consumer_key_hash = crypto.hash_consumer_key(consumer_key)
        query = FindApiKey(consumer_key_hash=consumer_key_hash)
        api_key = await self._cache.find(consumer_key_hash, lambda: call.desk.query(query, call))
        return api_keys.caller_of(api_key, consumer_secret, call.now)


#: What the permissions of an API key must allow, by right.
_NEEDS: dict[Right, Callable[[Permissions], bool]] = {
    Right.ONE_LICENSE: api_keys.may_call_core,
    Right.READ: api_keys.may_read,
    Right.WRITE: api_keys.may_write,
}


def check_right(call: Call, action: Action) -> None:
    """Raise an error if the caller may not perform the action, before anything is looked up."""
    right = action.right
    if right is Right.CORE:
        if call.caller is not None and not api_keys.may_call_core(call.caller.permissions):
            raise e.NoReadPermission
        if action.changes and call.method == "GET" and _is_prefetch(call):
            raise e.PrefetchRefused
    elif right is not Right.NONE:
        if call.caller is None:
            raise e.CredentialsMissing
        if right in _NEEDS and not _NEEDS[right](call.caller.permissions):
            if right is Right.WRITE:
                raise e.NoWritePermission
            raise e.NoReadPermission


def _is_prefetch(call: Call) -> bool:
    return any(
        b"prefetch" in value.lower() for name in _PREFETCH_HEADERS for value in call.list_headers(name)
    )
