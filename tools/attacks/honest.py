"""An honest caller: a validation every 50 ms, and a change every second."""

import asyncio
import statistics
from time import monotonic

import msgspec

from tools.attacks.wire import LICENSES, Connection, NotAnswered, Target, get

ADDRESS = "127.0.0.2"
_EVERY, _CHANGE_EVERY = 0.05, 1.0
#: The default timeout of a caller, in seconds.
TIMEOUT = 2.0
#: The size of the connection pool: a call never waits for its predecessor.
_CONNECTIONS = 8


class Figures(msgspec.Struct, frozen=True):
    """The results. ``failed`` counts calls without a 200 response in time. Times are measured from when a
    call was due; that of a failed call is at least the timeout.
    """

    calls: int
    failed: int
    p50_ms: float
    p99_ms: float
    changes: int
    changes_failed: int


class Honest:
    """The caller, and the outcomes of its calls so far."""

    def __init__(self, target: Target, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        self._validate = get(f"{LICENSES}/validate/{target.honest_key}")
        self._change = get(f"{LICENSES}/activate/{target.changed_key}")
        self._connections = [Connection(target.server, ADDRESS) for _ in range(_CONNECTIONS)]
        self._for_changes = Connection(target.server, ADDRESS)
        self._seconds: list[float] = []
        self._failed = self._changes = self._changes_failed = 0

    async def prepare(self) -> None:
        """Open the connections, and make a call over each."""
        for one in self._connections:
            await one.ask(self._validate, self._timeout)
        await self._for_changes.ask(self._change, self._timeout)

    async def call(self, seconds: float) -> Figures:
        """Make calls for this long."""
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for one in self._connections:
            free.put_nowait(one)
        began = monotonic()
        async with asyncio.TaskGroup() as calls:
            calls.create_task(self._call_changing(began, seconds))
            for number in range(int(seconds / _EVERY)):
                due = began + number * _EVERY
                await asyncio.sleep(due - monotonic())
                calls.create_task(self._call_once(free, due))
        return self._figures()

    def close(self) -> None:
        """Close the connections."""
        for one in (*self._connections, self._for_changes):
            one.close()

    async def _call_once(self, free: "asyncio.Queue[Connection]", due: float) -> None:
        try:
            async with asyncio.timeout(due + self._timeout - monotonic()):
                connection = await free.get()
        except TimeoutError:
            is_right = False
        else:
            is_right = await self._is_answered(connection, self._validate, due)
            free.put_nowait(connection)
        taken = monotonic() - due
        self._seconds.append(taken if is_right else max(taken, self._timeout))
        self._failed += not is_right

    async def _call_changing(self, began: float, seconds: float) -> None:
        for number in range(int(seconds / _CHANGE_EVERY)):
            due = began + number * _CHANGE_EVERY
            await asyncio.sleep(due - monotonic())
            is_right = await self._is_answered(self._for_changes, self._change, max(due, monotonic()))
            self._changes += 1
            self._changes_failed += not is_right

    async def _is_answered(self, connection: Connection, request: bytes, due: float) -> bool:
        try:
            answer = await connection.ask(request, max(0.0, due + self._timeout - monotonic()))
        except NotAnswered:
            return False
        return answer.status == 200

    def _figures(self) -> Figures:
        hundredths = [one * 1000 for one in statistics.quantiles(self._seconds, n=100, method="inclusive")]
        return Figures(
            len(self._seconds),
            self._failed,
            hundredths[49],
            hundredths[98],
            self._changes,
            self._changes_failed,
        )
