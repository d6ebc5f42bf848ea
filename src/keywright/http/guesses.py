"""Guessing keys: how many wrong ones a source may send, and who need not care."""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from time import monotonic
from typing import NamedTuple

from keywright.errors import RateLimited
from keywright.http.limits import RateLimit

#: How long a key that was right stays known where it came from, in seconds; and how many keys do.
_KNOWN_FOR = 24 * 3600.0
_MOST_KNOWN = 100_000
_SECRET = secrets.token_bytes(32)


def mark(*texts: str) -> bytes:
    """16 bytes that stand for these texts in this process, and say nothing about them."""
    # BLAKE2b with a key is a MAC (RFC 7693) and takes a third of the time of an HMAC.
    joined = "\0".join(texts).encode(errors="surrogatepass")
    return hashlib.blake2b(joined, key=_SECRET, digest_size=16).digest()


class Guess(NamedTuple):
    """A key that is about to be looked up; ``sources`` have paid for it. A known key costs nothing."""

    mark: bytes
    is_known: bool
    sources: tuple[str, ...] = ()


class Guesses:
    """How many wrong keys of one kind each source may send in a minute; 0 is no limit.

    A key that was right is known for 24 h where it came from, and can be used there though others at the same
    address have spent the budget. Every other key is refused then without being looked up.
    """

    def __init__(self, per_minute: int, *, most_known: int = _MOST_KNOWN) -> None:
        self._limit = RateLimit(per_minute)
        self._most_known = most_known
        #: When a key was right for the last time, by its mark.
        self._known: OrderedDict[bytes, float] = OrderedDict()
        #: Keys that are being looked up for the first time.
        self._trying: dict[bytes, asyncio.Future[None]] = {}

    async def begin(self, key: str, *sources: str) -> Guess | None:
        """Take what a wrong key costs from each source's budget; None where there is no limit. A right key
        will be known at the first source.

        Raises ``RateLimited``; but where the same key came earlier and has not been looked up yet, not before
        that has shown whether it is right.
        """
        if not self._limit.is_on:
            return None
        guess = Guess(mark(sources[0], key), is_known=False, sources=sources)
        if self._is_known(guess.mark):
            return Guess(guess.mark, is_known=True)
        try:
            self._limit.take(monotonic(), *sources)
        except RateLimited:
            await self._first_try(guess.mark)
            if not self._is_known(guess.mark):
                raise
            return Guess(guess.mark, is_known=True)
        if guess.mark not in self._trying:
            self._trying[guess.mark] = asyncio.get_running_loop().create_future()
        return guess

    def end(self, guess: Guess | None, *, is_right: bool | None) -> None:
        """Tell whether the key was right; None where the look-up did not show it."""
        if guess is None:
            return
        if is_right:
            self._remember(guess.mark)
        elif is_right is False and guess.is_known:
            self._known.pop(guess.mark, None)
        if is_right is not False:
            self._limit.give_back(monotonic(), *guess.sources)
        first = None if guess.is_known else self._trying.pop(guess.mark, None)
        if first is not None:
            first.set_result(None)

    def _is_known(self, mark: bytes) -> bool:
        at = self._known.get(mark)
        return at is not None and monotonic() < at + _KNOWN_FOR

    def _remember(self, mark: bytes) -> None:
        self._known[mark] = monotonic()
        self._known.move_to_end(mark)
        if len(self._known) > self._most_known:
            self._known.popitem(last=False)

    async def _first_try(self, mark: bytes) -> None:
        first = self._trying.get(mark)
        if first is not None:
            # A caller that goes away takes nothing from the others who wait.
            await asyncio.shield(first)
