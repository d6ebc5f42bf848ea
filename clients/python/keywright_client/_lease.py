"""A place of a floating license, held while a ``with`` runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .errors import KeywrightError, Refused, VerificationError
from .status import parse_time


class Lease:
    """``is_held`` turns false when the place is lost: the server was away too long, or gave it to another."""

    def __init__(
        self,
        call: Callable[..., dict[str, Any]],
        held: list[Lease],
        holder: str | None,
        seconds: int | None,
        license_key: str,
    ) -> None:
        import threading  # Late: it is slow, and most programs never come here.

        self.license_key, self._all = license_key, held
        self._call, self._stopped, self._thread = call, threading.Event(), threading.Thread
        self._request = {"holder": holder or f"pid {os.getpid()}-{os.urandom(4).hex()}", "seconds": seconds}
        self.id, self._ends, self._seconds = "", 0.0, 0.0

    @property
    def is_held(self) -> bool:
        """Whether the place is ours at this moment."""
        return not self._stopped.is_set() and time.monotonic() < self._ends

    def __enter__(self) -> Lease:
        self._take("/v3/leases")
        self._stopped.clear()
        self._all.append(self)
        self._thread(target=self._go_on, name="keywright-lease", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._all.remove(self)
        self._ends = 0.0
        # The place ends by itself where the server cannot be told.
        with suppress(KeywrightError):
            self._call("/v3/leases/release", lease_id=self.id)

    def renew(self) -> None:
        """Renew it now; in the background, half of its time passes first. Raises what entering does."""
        try:
            self._take("/v3/leases/renew", lease_id=self.id)
        except Refused:
            self._ends = 0.0
            raise

    def _take(self, path: str, **more: Any) -> None:
        began, claims = time.monotonic(), self._call(path, **self._request, **more)
        lease = claims.get("lease") or {}
        end = parse_time(lease.get("expires_at"))
        if end is None or not lease.get("id") or not claims["valid"]:
            raise VerificationError("payload")
        # A lease that is shared is the same place for many: what is between may not ask in another's name.
        if lease.get("holder") != self._request["holder"]:
            raise VerificationError("question")
        self.id, self._seconds = lease["id"], end.timestamp() - claims["iat"]
        self._ends = began + self._seconds

    def _go_on(self) -> None:
        wait = self._seconds / 2
        while not self._stopped.wait(max(wait, 1.0)):
            wait = self._seconds / 2
            try:
                self.renew()
            except KeywrightError as error:
                wait = wait if isinstance(error, Refused) else self._seconds / 10
