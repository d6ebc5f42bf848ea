"""The same for asyncio: each call runs in a thread."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from .client import Keywright
from .status import Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ._lease import Lease


class AsyncKeywright:
    """Takes what Keywright takes; its methods are Keywright's, to be awaited."""

    def __init__(self, url: str, **options: Any) -> None:
        self._keywright = Keywright(url, **options)

    async def check(self, *, now: bool = False) -> Status:
        """See Keywright.check."""
        return await asyncio.to_thread(self._keywright.check, now=now)

    async def activate(self, license_key: str, **details: Any) -> Status:
        """See Keywright.activate."""
        return await asyncio.to_thread(self._keywright.activate, license_key, **details)

    async def load_file(self, text: str, license_key: str | None = None) -> Status:
        """See Keywright.load_file."""
        return await asyncio.to_thread(self._keywright.load_file, text, license_key)

    async def deactivate(self) -> None:
        """See Keywright.deactivate."""
        await asyncio.to_thread(self._keywright.deactivate)

    async def use(self, meter: str, amount: int = 1) -> dict[str, Any]:
        """See Keywright.use."""
        return await asyncio.to_thread(self._keywright.use, meter, amount)

    @asynccontextmanager
    async def lease(self, holder: str | None = None, seconds: int | None = None) -> AsyncIterator[Lease]:
        """See Keywright.lease."""
        lease = self._keywright.lease(holder, seconds)
        await asyncio.to_thread(lease.__enter__)
        try:
            yield lease
        finally:
            await asyncio.to_thread(lease.__exit__)
