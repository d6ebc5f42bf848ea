"""Guessing keys: how many wrong ones a source may send, and who need not care."""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from time import monotonic

from keywright.core.errors import RateLimited
from keywright.http.middleware.rate_limits import RateLimit

#: How long a key that was right stays known where it came from, in seconds; and how many keys do.
_KNOWN_FOR = 24 * 3600.0
_MOST_KNOWN = 100_000
#: How old that knowledge becomes before it is renewed, in seconds: most calls leave the order as it is.
_RENEWED_AFTER = 60.0
# BLAKE2b with a key is a MAC (RFC 7693), and takes a third of the time of an HMAC.
_KEYED = hashlib.blake2b(key=secrets.token_bytes(32), digest_size=16)


def mark(text: str) -> bytes:
    """16 bytes that stand for this text in this process, and say nothing about it."""
    keyed = _KEYED.copy()
    keyed.update(text.encode())
    return keyed.digest()


class CredentialAttempt:
    """A key that is about to be looked up. ``sources`` have paid for it; a known one costs nothing."""

    __slots__ = ("mark", "right_at", "sources")

    def __init__(self, mark: bytes, sources: tuple[str, ...]) -> None:
        self.mark = mark
        self.sources = sources
        #: When it was right for the last time, or a little earlier; None as long as that is not known.
        self.right_at: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether the key was right before."""
        return self.right_at is not None


class CredentialAttempts:
    """The number of wrong keys of one kind that each source may send in a minute; 0 is no limit.

    A key that was right is known for 24 h where it came from, and can be used there though others at the same
    address have spent the budget. Every other key is refused then without being looked up.
    """

    def __init__(self, per_minute: int, *, most_known: int = _MOST_KNOWN) -> None:
        self._limit = RateLimit(per_minute)
        self._most_known = most_known
        self._known: OrderedDict[bytes, CredentialAttempt] = OrderedDict()
        #: Keys that are being looked up for the first time.
        self._trying: dict[bytes, asyncio.Future[None]] = {}

    async def begin(self, key: str, *sources: str) -> CredentialAttempt | None:
        """Take what a wrong key costs from each source's budget; None where there is no limit. A right key
        will be known at the first source.

        Raises ``RateLimited``; but where the same key came earlier and has not been looked up yet, not before
        that has shown whether it is right.
        """
        if not self._limit.is_on:
            return None
        name = mark(f"{sources[0]}\0{key}")
        if (known := self._find_known(name)) is not None:
            return known
        try:
            self._limit.take(monotonic(), *sources)
        except RateLimited:
            await self._first_try(name)
            if (known := self._find_known(name)) is None:
                raise
            return known
        if name not in self._trying:
            self._trying[name] = asyncio.get_running_loop().create_future()
        return CredentialAttempt(name, sources)

    def end(self, guess: CredentialAttempt | None, *, is_right: bool | None) -> None:
        """Tell whether the key was right; None where the look-up did not show it."""
        if guess is None:
            return
        if guess.right_at is None:
            self._pay(guess, is_right=is_right)
        elif is_right is False:
            self._known.pop(guess.mark, None)
        elif is_right and monotonic() > guess.right_at + _RENEWED_AFTER:
            self._remember(guess)

    def _find_known(self, name: bytes) -> CredentialAttempt | None:
        known = self._known.get(name)
        if known is None or known.right_at is None or monotonic() > known.right_at + _KNOWN_FOR:
            return None
        return known

    def _pay(self, guess: CredentialAttempt, *, is_right: bool | None) -> None:
        if is_right is not False:
            self._limit.give_back(monotonic(), *guess.sources)
        if is_right:
            self._remember(guess)
        first = self._trying.pop(guess.mark, None)
        if first is not None:
            first.set_result(None)

    def _remember(self, guess: CredentialAttempt) -> None:
        guess.right_at, guess.sources = monotonic(), ()
        self._known[guess.mark] = guess
        self._known.move_to_end(guess.mark)
        if len(self._known) > self._most_known:
            self._known.popitem(last=False)

    async def _first_try(self, name: bytes) -> None:
        first = self._trying.get(name)
        if first is not None:
            # A caller that goes away takes nothing from the others who wait.
            await asyncio.shield(first)
