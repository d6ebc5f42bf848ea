"""Deliver webhooks at an even rate, while this server process answers calls.

One process at a time works on an endpoint, in steps that go through the desk like calls; requests are sent
between the steps. Each endpoint has its own task, so that an endpoint that does not answer slows no other.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from time import monotonic, process_time
from urllib.parse import urlsplit

from msgspec.structs import replace

from keywright.background.loops import ORIGIN, read_clock
from keywright.background.queue import Handler, Queue
from keywright.core.command import Context
from keywright.core.parsing import parse_retry_after
from keywright.db.watch import Outage
from keywright.delivery.webhooks import rules, store
from keywright.delivery.webhooks.addresses import Network
from keywright.delivery.webhooks.commands import WorkOnEndpoint
from keywright.delivery.webhooks.model import Attempt, Due, Endpoint, Step
from keywright.delivery.webhooks.rules import body_of, write_headers
from keywright.delivery.webhooks.sending import TIMEOUT, Resolve, Sender, SendingFailed, resolve
from keywright.engine.desk import Desk
from keywright.engine.queue import Item
from keywright.signing.commands import LoadKeys, MakeFirstKey
from keywright.signing.jws import Signer
from keywright.signing.model import LoadedKeys

#: The most deliveries that begin in a second.
_MOST = 500.0
#: The most and the fewest while calls wait, which each delivery delays: the most for a process with a whole
#: processor, fewer in proportion for one with a smaller share.
_MOST_WHEN_BUSY, _LEAST_WHEN_BUSY = 230.0, 20.0
#: The process is busy if calls wait in this part of the samples; and the weight of a sample in the average.
_BUSY, _WEIGHT = 0.4, 0.05
#: Deliveries that are less than this apart begin together, in seconds: waiting has a cost, too.
_GRAIN = 0.02
#: The shortest time over which processor time is measured, in seconds.
_LOOK_INTERVAL = 0.5


class Pace:
    """Limits the rate of all deliveries of a server process."""

    def __init__(self, count_waiting: Callable[[], int]) -> None:
        """``count_waiting`` returns the number of calls that are waiting."""
        self._count_waiting = count_waiting
        #: The number of the deliveries' own commands that are waiting.
        self.own_commands = 0
        self._waiting = 0.0
        self._rate_when_busy = _MOST_WHEN_BUSY
        self._used, self._looked_at = process_time(), monotonic()
        self._next_at = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether calls were waiting for more than ``_BUSY`` of the time."""
        return self._waiting > _BUSY

    def look(self) -> None:
        """Measure this process's share of the processor, from time to time."""
        self._note()
        used, now = process_time(), monotonic()
        if now - self._looked_at < _LOOK_INTERVAL:
            return
        share = (used - self._used) / max(now - self._looked_at, 0.001)
        self._rate_when_busy = min(max(_MOST_WHEN_BUSY * share, _LEAST_WHEN_BUSY), _MOST_WHEN_BUSY)
        self._used, self._looked_at = used, now

    async def wait(self) -> None:
        """Wait for a turn."""
        self._note()
        now = monotonic()
        turn_at = max(now, self._next_at)
        self._next_at = turn_at + 1 / (self._rate_when_busy if self.is_busy else _MOST)
        if turn_at - now > _GRAIN:
            await asyncio.sleep(turn_at - now)

    def _note(self) -> None:
        self._waiting += _WEIGHT * ((self._count_waiting() > self.own_commands) - self._waiting)


#: The most characters of a receiver's answer that are stored.
_MAX_KEPT = 500

log = logging.getLogger(__name__)


async def time_attempt(
    due: Due, endpoint: Endpoint, known: tuple[str, ...], signer: Signer, sender: Sender
) -> Attempt:
    """Send one delivery; return the result and how long it took. Raises nothing."""
    began = monotonic()
    try:
        attempt = await _attempt(due, endpoint, known, signer, sender)
    except Exception as problem:
        log.error("webhook %d met an unexpected error", endpoint.id, exc_info=problem)
        attempt = Attempt(due.delivery.id, None, "an unexpected error; the server's log has details", 0)
    return replace(attempt, duration_ms=int((monotonic() - began) * 1000))


async def _attempt(
    due: Due, endpoint: Endpoint, known: tuple[str, ...], signer: Signer, sender: Sender
) -> Attempt:
    """Send one delivery."""
    delivery, now = due.delivery, datetime.now(UTC)
    body = body_of(due, endpoint.payload)
    # The clock may have been behind when the event was recorded.
    happened_at = None if due.event is None else max(due.event.occurred_at, delivery.created_at)
    if body is None or (happened_at is not None and happened_at < rules.oldest_event_at(now)):
        return Attempt(delivery.id, None, "the event is too old, or no longer stored", 0, is_hopeless=True)
    try:
        answer = await sender.send(
            write_headers(delivery.message_id, body, now, known, signer.sign_bytes), body
        )
    except SendingFailed as problem:
        return Attempt(delivery.id, None, str(problem)[:_MAX_KEPT], 0)
    retry_after = None if answer.retry_after is None else parse_retry_after(answer.retry_after, now)
    return Attempt(delivery.id, answer.status, answer.text[:_MAX_KEPT], 0, retry_after)


#: The time between two steps of an endpoint, in seconds: usually, while there are more events to read, while
#: calls wait, and the longest time while requests are in flight.
_STEP_INTERVAL, _MORE_INTERVAL, _BUSY_INTERVAL, _HOLD_INTERVAL = 0.25, 0.1, 0.5, 2.0
#: The most deliveries of an endpoint that may be in progress, and the most concurrent requests to it.
_MAX_TAKEN, _MAX_IN_FLIGHT = 160, 24
#: The time after a step within which its requests must begin, in seconds, so that they end before the claim.
_BEGIN_WITHIN = store.ENDPOINTS.holds_for.total_seconds() - TIMEOUT - 2.0
#: The pause of an endpoint after a step that found nothing to do, in seconds.
_COOL_DOWN = 0.4
#: The pause of an endpoint with the maximum number of waiting deliveries, in seconds.
_FULL_PAUSE = 30.0
#: The time after which the cached signing key is read again, in seconds: it may have been rotated.
_KEY_KNOWN_FOR = 5.0
_MAX_STOPPING = 3.0


class Deliveries(Handler):
    """Works on the endpoints that have deliveries or events to process. Belongs to one event loop."""

    kind, name, most, needs_clock = store.ENDPOINTS, "webhook", rules.MAX_ENDPOINTS, True

    def __init__(
        self, desk: Desk, queue: Queue, *, allowed: Collection[Network], resolve: Resolve = resolve
    ) -> None:
        """``allowed`` are the networks in the setting ``webhook_networks``."""
        self.desk = desk
        self.queue = queue
        self.keys = _SigningKeys(desk)
        self.pace = Pace(lambda: desk.waiting)
        self.new_sender = partial(Sender, allowed=allowed, resolve=resolve)
        self._outages: dict[int, Outage] = {}

    async def work(self, item: Item) -> float:
        """Work on an endpoint until nothing is left to do."""
        outage = self._outages.setdefault(item.id, _new_outage(item.id))
        worker = _Worker(self, item, outage)
        await worker.run()
        return 0.0 if worker.has_worked else _FULL_PAUSE if worker.is_full else _COOL_DOWN


class _Worker:
    """Works on one endpoint until nothing is left to do."""

    def __init__(self, deliveries: Deliveries, item: Item, outage: Outage) -> None:
        self._all, self._desk, self._queue = deliveries, deliveries.desk, deliveries.queue
        self._item = item
        self._outage = outage
        self._slots = asyncio.Semaphore(_MAX_IN_FLIGHT)
        self._sender: Sender | None = None
        self._url = ""
        #: The deliveries in progress, and those of them whose request has not begun.
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._waiting: set[int] = set()
        self._attempts: list[Attempt] = []
        self._can_step = asyncio.Event()
        #: When the claim was last extended, and whether the endpoint is failing.
        self._held_at = 0.0
        self._is_failing = False
        #: Whether a delivery succeeded.
        self._has_delivered = False
        #: Whether there was anything to do; and whether there are more events to read.
        self.has_worked = self._has_more = False
        #: Whether the last step made no delivery because the maximum number is waiting.
        self.is_full = False

    async def run(self) -> None:
        """Take one step after the other. Deliveries whose result could not be saved are attempted again."""
        try:
            while await self._step():
                await self._wait()
            if self._queue.is_stopping.is_set():
                await self._finish()
        finally:
            for task in self._in_flight.values():
                task.cancel()
            if self._sender is not None:
                self._sender.close()

    async def _step(self) -> bool:
        """Take a step, and begin its requests. Return False when the work is finished."""
        self._all.pace.look()
        if self._queue.is_stopping.is_set() or not self._queue.is_clock_right():
            return False
        # All endpoints share the rate: one that has accepted nothing yet gets only a few deliveries.
        most = _MAX_TAKEN if self._has_delivered else rules.PROBES
        step = await self._submit(limit=max(0, most - len(self._in_flight)))
        if step.is_over or step.endpoint is None:
            return False
        self.has_worked = self.has_worked or bool(step.due)
        self._is_failing = step.endpoint.failing_at is not None
        if self._is_failing or not _takes_requests(step.endpoint) or step.endpoint.url != self._url:
            self._drop_waiting()
        if step.due:
            self._send_all(step, step.endpoint, await self._all.keys.get())
        return True

    async def _submit(self, *, limit: int = 0, is_last: bool = False) -> Step:
        began, attempts, self._attempts = monotonic(), tuple(self._attempts), []
        self._has_delivered = self._has_delivered or any(one.is_delivered for one in attempts)
        command = WorkOnEndpoint(
            context=Context(read_clock(), ORIGIN),
            item=self._item,
            claimed_by=self._queue.name,
            attempts=attempts,
            in_flight=frozenset(self._in_flight),
            limit=limit,
            is_last=is_last,
        )
        self._all.pace.own_commands += 1
        try:
            step: Step = await self._desk.execute(command)
        finally:
            self._all.pace.own_commands -= 1
        self._held_at = began
        self.has_worked = self.has_worked or bool(attempts)
        self.is_full, self._has_more = step.is_full, step.has_more
        return step

    async def _wait(self) -> None:
        """Wait until all requests have begun and there are results, then a moment for more results."""
        usual = _MORE_INTERVAL if self._has_more else _STEP_INTERVAL
        usual = _BUSY_INTERVAL if self._all.pace.is_busy else usual
        pause = asyncio.create_task(asyncio.sleep(_HOLD_INTERVAL if self._is_failing else usual))
        if self._in_flight and not self._has_results:
            self._can_step.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._can_step.wait(), _HOLD_INTERVAL)
        await pause

    @property
    def _has_results(self) -> bool:
        return bool(self._attempts) and not self._waiting

    async def _finish(self) -> None:
        """Wait a moment for requests in flight, save their results, and release the claim."""
        self._drop_waiting()
        if self._in_flight:
            await asyncio.wait([*self._in_flight.values()], timeout=_MAX_STOPPING)
        for task in self._in_flight.values():
            task.cancel()
        self._in_flight.clear()
        await self._submit(is_last=True)

    def _drop_waiting(self) -> None:
        """Drop the deliveries whose request has not begun; a later step takes them again."""
        for one in self._waiting:
            self._in_flight.pop(one).cancel()
        self._waiting.clear()

    def _send_all(self, step: Step, endpoint: Endpoint, signer: Signer) -> None:
        if self._sender is None or self._url != endpoint.url:
            self._sender, self._url = self._all.new_sender(endpoint.url), endpoint.url
        for due in step.due:
            self._waiting.add(due.delivery.id)
            sending = self._send(due, endpoint, step.secrets, signer, self._sender)
            self._in_flight[due.delivery.id] = asyncio.create_task(sending)

    async def _send(
        self, due: Due, endpoint: Endpoint, known: tuple[str, ...], signer: Signer, sender: Sender
    ) -> None:
        number = due.delivery.id
        async with self._slots:
            await self._all.pace.wait()
            self._waiting.discard(number)
            # After this time, the claim could end before the request does; a later step takes the delivery.
            if monotonic() - self._held_at < _BEGIN_WITHIN:
                attempt = await time_attempt(due, endpoint, known, signer, sender)
                self._note(attempt, endpoint)
                # Read the attribute only now: a step may have replaced the list during the request.
                self._attempts.append(attempt)
        del self._in_flight[number]
        if self._has_results or not self._in_flight:
            self._can_step.set()

    def _note(self, attempt: Attempt, endpoint: Endpoint) -> None:
        """Log when a receiver begins to fail, and when it accepts deliveries again."""
        if attempt.is_delivered:
            self._outage.end()
        elif not attempt.is_hopeless:
            # Do not log the path or the receiver's answer: they may contain a secret.
            reason = attempt.answer if attempt.status is None else f"status {attempt.status}"
            self._outage.note(f"{urlsplit(endpoint.url).hostname}: {reason}")


def _new_outage(endpoint_id: int) -> Outage:
    end = f"the webhook {endpoint_id} takes deliveries again after %.0f s"
    return Outage(f"the webhook {endpoint_id} fails", end, logging.WARNING)


class _SigningKeys:
    """A cache of the current signing key, for some seconds."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._signer: Signer | None = None
        self._known_until = 0.0

    async def get(self) -> Signer:
        if self._signer is None or monotonic() >= self._known_until:
            loaded: LoadedKeys | None = await self._desk.query(LoadKeys())
            if loaded is None:
                loaded = await self._desk.execute(MakeFirstKey(context=Context(read_clock(), ORIGIN)))
            self._signer = Signer(loaded.private_key, "EdDSA")
            self._known_until = monotonic() + _KEY_KNOWN_FOR
        return self._signer


def _takes_requests(endpoint: Endpoint) -> bool:
    """Return whether the endpoint is enabled and not paused."""
    return endpoint.disabled_at is None and endpoint.paused_until is None
