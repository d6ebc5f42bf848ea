"""Budgets of callers of the v2 interface, by the minute: guess, send what cannot be read, take places.

A call takes from the budgets before it is answered and gets back what it did not use up, so that calls at the
same moment cannot pass a limit. Each server process has budgets of its own.
"""

from time import monotonic

from keywright.config import Settings
from keywright.core import errors as e
from keywright.http.middleware.attempts import CredentialAttempt, CredentialAttempts, mark
from keywright.http.middleware.rate_limits import RateLimit, source_of
from keywright.http.v2 import messages
from keywright.http.v2.call import Call
from keywright.identity.model import Permissions

#: How many activations and reactivations may succeed at once, of a license and from an address.
LICENSE_BURST = 1_000
ADDRESS_BURST = 5_000
#: Errors that say that a request could not be read.
_MALFORMED = frozenset(kind for kind, problem in messages.PROBLEMS.items() if problem.status == 400)

#: A limit, and the source whose bucket a token was taken from.
_Token = tuple[RateLimit, str | bytes]


class RateLimitCharge:
    """The tokens one call has taken; each token is given back unless what it is for has happened."""

    __slots__ = ("for_malformed", "for_success", "guess")

    def __init__(self) -> None:
        self.guess: CredentialAttempt | None = None
        self.for_malformed: tuple[_Token, ...] = ()
        self.for_success: tuple[_Token, ...] = ()


class RateLimits:
    """The budgets of all sources."""

    def __init__(self, settings: Settings) -> None:
        self.credentials = CredentialAttempts(settings.bad_credentials_limit)
        self._keys = CredentialAttempts(settings.unknown_key_limit)
        self._malformed = RateLimit(settings.bad_request_limit)
        self._license_changes = RateLimit(
            settings.license_change_limit, burst=LICENSE_BURST, error=e.TooManyChanges
        )
        self._address_changes = RateLimit(
            settings.address_change_limit, burst=ADDRESS_BURST, error=e.TooManyChanges
        )

    async def begin(self, call: Call, *, takes_place: bool) -> None:
        """Take what a core call may use up. Raises ``RateLimited``; ``end`` is due after that, too."""
        sources = _sources(call)
        call.spending = spending = RateLimitCharge()
        spending.guess = guess = await self._keys.begin(call.key, *sources)
        # A query is read at once: what is wrong with it can be counted then.
        if call.has_body and call.is_stranger:
            spending.for_malformed = _take(self._malformed, _malformed_source(call, guess))
        if takes_place and not _is_shop(call):
            if self._license_changes.is_on:
                spending.for_success = _take(self._license_changes, mark(call.key))
            # All callers share one address behind a proxy that is not trusted.
            if not call.is_forwarded_blindly:
                spending.for_success += _take(self._address_changes, sources[0])

    def end(self, call: Call, error: e.KeywrightError | None) -> e.KeywrightError | None:
        """Give back what the call did not use up. Returns the error to answer with: ``RateLimited`` instead
        when there were too many malformed requests before this one.
        """
        spending, call.spending = call.spending, None
        is_success = error is None and not call.is_replayed
        is_malformed = type(error) in _MALFORMED
        has_paid = False
        if spending is not None:
            is_looked_up = is_success or type(error) is e.UnknownLicense
            self._keys.end(spending.guess, is_right=is_success if is_looked_up else None)
            has_paid = bool(spending.for_malformed)
            if not is_success:
                _give_back(spending.for_success)
            if not is_malformed:
                _give_back(spending.for_malformed)
        if is_malformed and not has_paid and call.is_stranger:
            return self._pay_late(call, None if spending is None else spending.guess) or error
        return error

    def _pay_late(self, call: Call, guess: CredentialAttempt | None) -> e.RateLimited | None:
        """Count a malformed request that has not paid before it was read."""
        try:
            self._malformed.take(monotonic(), _malformed_source(call, guess))
        except e.RateLimited as limited:
            return limited
        return None


def _malformed_source(call: Call, guess: CredentialAttempt | None) -> str | bytes:
    """What is to blame for a malformed request: a known key, which what others at its address send must not
    stop, or the address.
    """
    return guess.mark if guess is not None and guess.is_known else source_of(call.address)


def _take(limit: RateLimit, source: str | bytes) -> tuple[_Token, ...]:
    if not limit.is_on:
        return ()
    limit.take(monotonic(), source)
    return ((limit, source),)


def _give_back(taken: tuple[_Token, ...]) -> None:
    for limit, source in taken:
        limit.give_back(monotonic(), source)


def _sources(call: Call) -> tuple[str, ...]:
    """The sources to blame for an unknown key: the address, and the API key.

    A client key is shipped inside programs: what one customer does with it is not the others' doing.
    """
    source = source_of(call.address)
    if call.is_stranger:
        return (source,)
    return (source, call.actor)


def _is_shop(call: Call) -> bool:
    """Whether the caller has an API key that may read and write."""
    return call.caller is not None and call.caller.permissions is Permissions.READ_WRITE
