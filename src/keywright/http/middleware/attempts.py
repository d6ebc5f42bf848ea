"""Rate-limit wrong license keys and wrong credentials, but not keys that were right before."""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from time import monotonic

from keywright.core.errors import RateLimited
from keywright.http.middleware.rate_limits import RateLimit

#: How long a right key is remembered per source, in seconds, and how many keys are remembered.
_KNOWN_FOR = 24 * 3600.0
_MAX_KNOWN = 100_000
#: A remembered key is refreshed only after this many seconds, so that most calls write nothing.
_RENEW_AFTER = 60.0
# Keyed BLAKE2b is a MAC (RFC 7693), and takes a third of the time of an HMAC.
_KEYED = hashlib.blake2b(key=secrets.token_bytes(32), digest_size=16)


def digest(text: str) -> bytes:
    """A keyed hash of the text, 16 bytes; the key exists only in this process."""
    keyed = _KEYED.copy()
    keyed.update(text.encode())
    return keyed.digest()


class Attempt:
    """A lookup of a key. Each of ``sources`` has paid a token for it; known keys are free."""

    __slots__ = ("digest", "right_at", "sources")

    def __init__(self, digest: bytes, sources: tuple[str, ...]) -> None:
        self.digest = digest
        self.sources = sources
        #: When the key was last right, or a little earlier; None if unknown.
        self.right_at: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether the key was right before."""
        return self.right_at is not None


class Attempts:
    """Limits how many wrong keys of one kind each source may send per minute; 0 is no limit.

    A right key is remembered for 24 h at its source, and still works there after others at the same address
    have used up the limit. All other keys are then refused without a lookup.
    """

    def __init__(self, per_minute: int, *, max_known: int = _MAX_KNOWN) -> None:
        self.limit = RateLimit(per_minute)
        self._max_known = max_known
        self._known: OrderedDict[bytes, Attempt] = OrderedDict()
        #: Keys whose first lookup is in progress.
        self._running: dict[bytes, asyncio.Future[None]] = {}

    async def begin(self, key: str, *sources: str) -> Attempt | None:
        """Take a token from each source; None if there is no limit. A right key will be remembered at the
        first source.

        Raises ``RateLimited``; but if an earlier call is looking up the same key, waits for its result first.
        """
        if not self.limit.is_on:
            return None
        name = digest(f"{sources[0]}\0{key}")
        if (known := self._find_known(name)) is not None:
            return known
        try:
            self.limit.take(monotonic(), *sources)
        except RateLimited:
            await self._wait_for_first(name)
            if (known := self._find_known(name)) is None:
                raise
            return known
        if name not in self._running:
            self._running[name] = asyncio.get_running_loop().create_future()
        return Attempt(name, sources)

    def end(self, attempt: Attempt | None, *, is_right: bool | None) -> None:
        """Record whether the key was right; None if the lookup did not determine it."""
        if attempt is None:
            return
        if attempt.right_at is None:
            self._settle(attempt, is_right=is_right)
        elif is_right is False:
            self._known.pop(attempt.digest, None)
        elif is_right and monotonic() > attempt.right_at + _RENEW_AFTER:
            self._remember(attempt)

    def _find_known(self, name: bytes) -> Attempt | None:
        known = self._known.get(name)
        if known is None or known.right_at is None or monotonic() > known.right_at + _KNOWN_FOR:
            return None
        return known

    def _settle(self, attempt: Attempt, *, is_right: bool | None) -> None:
        """Give the tokens back unless the key was wrong."""
        if is_right is not False:
            self.limit.give_back(monotonic(), *attempt.sources)
        if is_right:
            self._remember(attempt)
        first = self._running.pop(attempt.digest, None)
        if first is not None:
            first.set_result(None)

    def _remember(self, attempt: Attempt) -> None:
        attempt.right_at, attempt.sources = monotonic(), ()
        self._known[attempt.digest] = attempt
        self._known.move_to_end(attempt.digest)
        if len(self._known) > self._max_known:
            self._known.popitem(last=False)

    async def _wait_for_first(self, name: bytes) -> None:
        first = self._running.get(name)
        if first is not None:
            # Shielded, so that a caller that disconnects does not cancel it for the others.
            await asyncio.shield(first)
