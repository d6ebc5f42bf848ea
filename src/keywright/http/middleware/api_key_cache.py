"""Remember the API keys of the last second, so that most calls need no look-up of their own.

Only the look-up is saved: the secret of each call is compared with what was found.
"""

from collections.abc import Awaitable, Callable
from time import monotonic

from keywright.identity.model import ApiKey

#: How long an API key is remembered, in seconds: other processes may go on accepting a revoked one so long.
LIFETIME = 1.0
#: The most API keys that are remembered.
MAX_KEYS = 1_000


class ApiKeyCache:
    """The API keys that this process has found in the last second. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """``clock`` gives seconds that never go back."""
        self._clock = clock
        #: API keys by their hashed consumer key, and until when they are remembered; the oldest first.
        self._found: dict[str, tuple[ApiKey, float]] = {}
        self._clears = 0

    def __len__(self) -> int:
        """The number of API keys that take space."""
        return len(self._found)

    async def find(
        self, consumer_key_hash: str, look_up: Callable[[], Awaitable[ApiKey | None]]
    ) -> ApiKey | None:
        """The API key with this hashed consumer key, from memory or from ``look_up``; None is not kept."""
        now = self._clock()
        known = self._found.get(consumer_key_hash)
        if known is not None and now < known[1]:
            return known[0]
        clears = self._clears
        api_key = await look_up()
        # What was read before ``clear`` may be the past.
        if api_key is not None and clears == self._clears:
            # From before the look-up: it shows the database of some moment since then.
            self._keep(consumer_key_hash, api_key, now + LIFETIME)
        return api_key

    def clear(self) -> None:
        """Forget all API keys: one of them has changed."""
        self._clears += 1
        self._found.clear()

    def _keep(self, consumer_key_hash: str, api_key: ApiKey, until: float) -> None:
        self._found.pop(consumer_key_hash, None)
        if len(self._found) >= MAX_KEYS:
            del self._found[next(iter(self._found))]
        self._found[consumer_key_hash] = (api_key, until)
