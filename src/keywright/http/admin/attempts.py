"""How often a password may be wrong."""

from collections.abc import Mapping
from threading import Lock
from time import monotonic

from keywright.http.limits import FailureLimit


class Attempts:
    """Failures in a minute, counted for each kind of source (``address``, ``name``), from several threads."""

    def __init__(self, **most: int) -> None:
        self._limits = {kind: FailureLimit(per_minute) for kind, per_minute in most.items()}
        self._lock = Lock()

    def check(self, sources: Mapping[str, str]) -> None:
        """Raise ``RateLimited`` when one of these has to wait."""
        with self._lock:
            for kind, source in sources.items():
                self._limits[kind].check(source, monotonic())

    def count(self, sources: Mapping[str, str]) -> None:
        """These have failed once more."""
        with self._lock:
            for kind, source in sources.items():
                self._limits[kind].count(source, monotonic())
