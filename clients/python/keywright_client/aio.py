"""The same for asyncio: each call runs in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from .client import Keywright
from .status import Status

T = TypeVar("T")


class AsyncKeywright:
    """Takes what Keywright takes, and has its methods, to be awaited; ``lease`` is for ``async with``."""

    def __init__(self, url: str, **options: Any) -> None:
        self._keywright = Keywright(url, **options)

    async def check(self, *, now: bool = False) -> Status:
        return await _in_thread(self._keywright.check, now=now)

    async def activate(self, license_key: str, **details: Any) -> Status:
        return await _in_thread(self._keywright.activate, license_key, **details)

    async def start_trial(self, **details: Any) -> Status:
        return await _in_thread(self._keywright.start_trial, **details)

    async def load_file(self, text: str, license_key: str | None = None) -> Status:
        return await _in_thread(self._keywright.load_file, text, license_key)

    async def deactivate(self) -> None:
        await _in_thread(self._keywright.deactivate)

    async def use(self, meter: str, amount: int = 1) -> dict[str, Any]:
        return await _in_thread(self._keywright.use, meter, amount)

    @asynccontextmanager
    async def lease(self, holder: str | None = None, **options: Any) -> AsyncIterator[Any]:
        lease = self._keywright.lease(holder, **options)
        await _in_thread(lease.__enter__)
        try:
            yield lease
        finally:
            await _in_thread(lease.__exit__)


async def _in_thread(call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    # Imported late: it is slow, and most programs never come here.
    import asyncio

    return await asyncio.to_thread(call, *arguments, **options)
