"""The clients: they take places, give some up again, validate, and write down what they were told."""

import asyncio
import random
import secrets
import time
from collections.abc import Sequence
from typing import Any

from drill.connections import Connection, Reply
from drill.instances import API
from drill.journal import Activation, Answer, Fate, Journal, Lane, LicenseKey

#: What a program waits for an answer.
CLIENT_SECONDS = 10.0
#: Between two calls of a client; and before a call is tried again.
_PAUSE, _RETRY_PAUSE = 0.05, 0.25
#: After the end nobody tries longer than this to find out what became of a call.
_LAST_SECONDS = 60.0
_LIMITED_SHARE, _GIVEN_UP_SHARE = 0.25, 0.2
#: So many try to take a place on each limited license, more than it has.
_RIVALS = 6
#: Statuses after which the same call may be made again: busy, rate-limited, ours.
_AGAIN = (409, 429)


class Clients:
    """What all clients of a round share."""

    def __init__(self, journal: Journal, ports: Sequence[int]) -> None:
        self.journal = journal
        self._ports = ports
        self._limited = [one for one in journal.licenses if one.limit is not None]
        self._unlimited = [one for one in journal.licenses if one.limit is None]
        self._rival = 0
        self._ends_at: float | None = None
        #: By number of the limited license: the most that was acknowledged.
        self._acknowledged: dict[int, int] = {}

    @property
    def is_over(self) -> bool:
        """Whether no client begins anything new."""
        return self._ends_at is not None

    def end(self) -> None:
        """Begin nothing new."""
        self._ends_at = time.monotonic()

    async def activate(self, first: int, *, is_keyed: bool) -> None:
        """Take places until the end. Only with ``is_keyed`` a call is tried until it has an answer."""
        caller = _Caller(self, first)
        while not self.is_over:
            one = Activation(self._next_license(), secrets.token_hex(12), is_keyed)
            self.journal.activations.append(one)
            await caller.activate(one)
            if one.fate == "done":
                self._acknowledge(one)
            if one.fate == "done" and one.license.limit is None and random.random() < _GIVEN_UP_SHARE:
                await caller.deactivate(one)
            await asyncio.sleep(_PAUSE if one.fate in ("done", "refused") else _RETRY_PAUSE)
        caller.close()

    async def validate(self, first: int) -> None:
        """Validate until the end, and look whether the answers can be."""
        caller = _Caller(self, first)
        while not self.is_over:
            license = random.choice(self._limited[: self._rival // _RIVALS + 1])
            at_least = self._acknowledged.get(license.id, 0)
            reply = await caller.validate(license)
            if reply is not None and reply.status == 200:
                self.journal.contradictions += _contradictions(license, reply.body["data"], at_least)
            await asyncio.sleep(_PAUSE)
        caller.close()

    def port(self, instance: int) -> int:
        """Where this instance answers."""
        return self._ports[instance]

    def other(self, instance: int) -> int:
        """Whom to ask instead of this instance."""
        return (instance + 1) % len(self._ports)

    def is_too_late(self) -> bool:
        """Whether it is time to give up on calls that were begun."""
        return self._ends_at is not None and time.monotonic() > self._ends_at + _LAST_SECONDS

    def _next_license(self) -> LicenseKey:
        if random.random() >= _LIMITED_SHARE:
            return random.choice(self._unlimited)
        # One after the other, so that at any moment some are about to be full.
        self._rival += 1
        return self._limited[(self._rival // _RIVALS) % len(self._limited)]

    def _acknowledge(self, one: Activation) -> None:
        before = self._acknowledged.get(one.license.id, 0)
        self._acknowledged[one.license.id] = max(before, one.times_activated)


class _Caller:
    """One client, with a connection to each instance; it begins with the instance ``first``."""

    def __init__(self, clients: Clients, first: int) -> None:
        self._clients = clients
        self._first = first
        self._connections: dict[int, Connection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def activate(self, one: Activation) -> None:
        path = f"{API}/licenses/activate/{one.license.key}?label={one.label}"
        fate, reply = await self._change(path, one.label if one.is_keyed else None)
        one.fate = fate
        if reply is None:
            return
        if fate == "done":
            answer = reply.body["data"]
            one.token, one.times_activated = answer["activationData"]["token"], answer["timesActivated"]
        else:
            one.message = f"{reply.status} {reply.body['message']}"

    async def deactivate(self, one: Activation) -> None:
        one.given_up = "unknown"
        path = f"{API}/licenses/deactivate/{one.license.key}?token={one.token}"
        one.given_up, reply = await self._change(path, f"{one.label}-back" if one.is_keyed else None)
        if reply is not None and one.given_up != "done":
            one.message = f"{reply.status} {reply.body['message']}"

    async def validate(self, license: LicenseKey) -> Reply | None:
        return await self._attempt("read", self._first, f"{API}/licenses/validate/{license.key}", {})

    async def _change(self, path: str, retry_key: str | None) -> tuple[Fate, Reply | None]:
        """Ask until there is an answer, at one instance and the other; without a key ask once."""
        instance = self._first
        headers = {} if retry_key is None else {"Idempotency-Key": retry_key}
        while True:
            reply = await self._attempt("write", instance, path, headers)
            if reply is not None and reply.status == 200:
                return "done", reply
            if reply is not None and reply.status < 500 and reply.status not in _AGAIN:
                return "refused", reply
            if retry_key is None:
                # A second call could be a second place.
                return ("unknown" if reply is None or _is_unsure(reply) else "failed"), reply
            if self._clients.is_too_late():
                return "unknown", None
            instance = self._clients.other(instance)
            await asyncio.sleep(_RETRY_PAUSE)

    async def _attempt(self, lane: Lane, instance: int, path: str, headers: dict[str, str]) -> Reply | None:
        reply: Reply | None = None
        began = time.monotonic()
        try:
            reply = await self._connection(instance).get(path, headers, CLIENT_SECONDS)
            what = _in_a_word(reply)
        except TimeoutError:
            what = "timeout"
        except OSError:
            what = "connection"
        now = time.monotonic()
        self._clients.journal.answers.append(Answer(now, lane, instance, what, now - began))
        return reply

    def _connection(self, instance: int) -> Connection:
        if instance not in self._connections:
            self._connections[instance] = Connection(self._clients.port(instance))
        return self._connections[instance]


def _in_a_word(reply: Reply) -> str:
    word = {200: "ok", 404: "refused"}.get(reply.status, str(reply.status))
    return f"{word}?" if _is_unsure(reply) else word


def _is_unsure(reply: Reply) -> bool:
    return reply.status == 503 and "not known" in reply.body["message"]


def _contradictions(license: LicenseKey, answer: dict[str, Any], at_least: int) -> list[str]:
    """What a validation of a limited license said that cannot be; nobody gives its places up."""
    counted = answer["timesActivated"]
    active = sum(one["deactivated_at"] is None for one in answer["activationData"])
    found = []
    if counted != active:
        found.append(f"license {license.id} was said to count {counted} and have {active} active")
    if license.limit is not None and counted > license.limit:
        found.append(f"license {license.id} was said to have {counted} of {license.limit} places taken")
    if counted < at_least:
        found.append(f"license {license.id} was said to count {counted} after {at_least} was acknowledged")
    return found
