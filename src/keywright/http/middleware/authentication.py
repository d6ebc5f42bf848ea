"""Find out who calls, and check what the caller may do."""

from collections.abc import Callable

from keywright.background.counters import Counters
from keywright.core import crypto
from keywright.core.errors import (
    CredentialsInvalid,
    CredentialsMissing,
    NoReadPermission,
    NoSuchAddress,
    NoWritePermission,
    PrefetchRefused,
)
from keywright.http.middleware.api_key_cache import ApiKeyCache
from keywright.http.middleware.attempts import Attempts
from keywright.http.middleware.call import Call
from keywright.http.middleware.credentials import NAMES, read_credentials, read_header
from keywright.http.middleware.routing import Action, Right
from keywright.http.server.peers import source_of
from keywright.identity import api_keys
from keywright.identity.commands import FindApiKey
from keywright.identity.model import Caller, Permissions

#: Browsers announce a prefetch in one of these headers.
_PREFETCH_HEADERS = (b"sec-purpose", b"purpose", b"x-moz")


class Authentication:
    """Finds the caller of each call, and limits wrong credentials."""

    def __init__(
        self, bad_credentials_limit: int, cache: ApiKeyCache, counters: Counters, *, require_api_key: bool
    ) -> None:
        """The limit and ``require_api_key`` are settings."""
        self._cache = cache
        self.attempts = Attempts(bad_credentials_limit)
        self._counters = counters
        self._require_api_key = require_api_key

    async def authenticate(self, call: Call) -> None:
        """Set the caller. Raises ``CredentialsMissing`` where the address needs an API key,
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
            raise NoSuchAddress
        if address is None or not address.is_open or (address.is_core and self._require_api_key):
            raise CredentialsMissing

    async def _find_caller(self, call: Call, authorization: list[bytes]) -> Caller | None:
        """The caller with the credentials of the call; None where there are none."""
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
        except CredentialsInvalid:
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


#: What the permissions of an API key must allow.
_NEEDS: dict[Right, Callable[[Permissions], bool]] = {
    Right.ONE_LICENSE: api_keys.may_call_core,
    Right.READ: api_keys.may_read,
    Right.WRITE: api_keys.may_write,
}


def check_right(call: Call, action: Action) -> None:
    """Raise the error that forbids this caller the action, before anything is looked up."""
    right = action.right
    if right is Right.CORE:
        if call.caller is not None and not api_keys.may_call_core(call.caller.permissions):
            raise NoReadPermission
        if action.changes and call.method == "GET" and _is_prefetch(call):
            raise PrefetchRefused
    elif right is not Right.NONE:
        if call.caller is None:
            raise CredentialsMissing
        if right in _NEEDS and not _NEEDS[right](call.caller.permissions):
            if right is Right.WRITE:
                raise NoWritePermission
            raise NoReadPermission


def _is_prefetch(call: Call) -> bool:
    return any(
        b"prefetch" in value.lower() for name in _PREFETCH_HEADERS for value in call.list_headers(name)
    )
