"""Rate limits for attempts in the portal. Each server process counts separately."""

from collections.abc import Mapping
from hashlib import sha256
from threading import Lock
from time import monotonic

from keywright.core.crypto import fold_key
from keywright.core.errors import RateLimited
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.server.sockets import site_of, source_of

_QUARTER, _DAY = 900, 86_400
#: Attempts per 15 minutes: from one IP address, from the network around it, and about one license, customer,
#: sign-in or browser; 0 means no limit. Nothing is counted per e-mail address: strangers who know it could
#: lock its owner out. Attempts with what strangers do not have, the mark of a known browser or a mailed link,
#: are not counted per IP address, which a stranger may share.
_LIMITS = {
    "mail": (40, 120, 40),
    "known": (0, 0, 5),
    "code": (40, 120, 10),
    "known-code": (0, 0, 20),
    "key": (30, 90, 30),
    "link": (30, 90, 30),
    "mailed": (0, 0, 30),
    "file": (120, 360, 30),
    "change": (120, 360, 60),
    "export": (10, 30, 2),
    "erase": (30, 90, 10),
}
#: New keys per license and day.
_ROTATIONS = 5


class Limits:
    """Counts attempts. Thread-safe."""

    def __init__(self) -> None:
        self._limits = {
            f"{kind} {part}": RateLimit(limit, period=_QUARTER)
            for kind, limits in _LIMITS.items()
            for part, limit in zip(("address", "site", "about"), limits, strict=True)
        }
        self._rotations = RateLimit(_ROTATIONS, period=_DAY)
        self._lock = Lock()

    def take(self, kind: str, address: str, about: str | None) -> dict[str, str]:
        """Count an attempt. Returns the argument for ``give_back``. Raises ``RateLimited``."""
        sources = {f"{kind} address": source_of(address), f"{kind} site": site_of(address)}
        if about is not None:
            # All spellings of a license key count as one. It is hashed, so that no key is kept in memory.
            about = fold_key(about) if kind == "key" else about
            sources[f"{kind} about"] = sha256(about.encode(errors="replace")).hexdigest()
        taken: dict[str, str] = {}
        with self._lock:
            try:
                for name, source in sources.items():
                    self._limits[name].take(monotonic(), source)
                    taken[name] = source
            except RateLimited:
                self._give_back(taken)
                raise
        return taken

    def give_back(self, taken: Mapping[str, str]) -> None:
        """Undo the count of an attempt that succeeded."""
        with self._lock:
            self._give_back(taken)

    def take_rotation(self, license_id: int) -> None:
        """Count a new key for a license. Raises ``RateLimited``."""
        with self._lock:
            self._rotations.take(monotonic(), str(license_id))

    def _give_back(self, taken: Mapping[str, str]) -> None:
        for name, source in taken.items():
            self._limits[name].give_back(monotonic(), source)
