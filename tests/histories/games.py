"""Licenses that several programs play with at once, over HTTP, while servers are killed; and what they were
told, as a history for the checker.

Careful programs send an Idempotency-Key, and ask again until they know: that is one operation from the first
question to the answer. Plain ones ask once.
"""

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import quote

import uvloop

from tests.faults.load import FATE_UNKNOWN, UNAVAILABLE
from tests.histories.doors import Door, Told, kill_and_start
from tests.histories.license import Answer, Done, License, Operation, Refused, What, report
from tests.http.asking import V2, Client, basic, core, license_path
from tests.server import RunningServer

#: Why it was refused, by the contract's sentence (§4).
_REFUSALS = {
    "License Key: {key} reached maximum activation count.": "full",
    "Activation Token: {token} is already activated.": "active",
    "Activation Token: {token} could not be found or is deactivated.": "not active",
    "Activation Token: {token} could not be found.": "unknown",
    "License Key: {key} has not been activated yet.": "nothing active",
}
#: What is asked, and how often.
_WISHES: dict[What, int] = {
    "activate": 40,
    "reactivate": 15,
    "deactivate": 15,
    "deactivate all": 3,
    "validate": 14,
    "validate one": 6,
    "set limit": 7,
    "activate device": 20,
    "deactivate device": 8,
}
#: Over v3; a program that is told one of these is told what it asked.
_V3_PATHS: dict[What, str] = {"activate device": "/v3/activate", "deactivate device": "/v3/deactivate"}
_V3_REFUSALS = {"limit_reached": "full", "unknown_device": "unknown device"}
#: A token that no activation has, and how it is called here.
_NOBODY, _NOBODYS_TOKEN = "nobody", "0" * 40
_PAUSE = 0.05
#: How long a batch of games may take altogether, in seconds: far longer than it does.
_TIMEOUT = 300.0
_labels = count(1)
_numbers = count(1)


class Game:
    """A license, and what programs were told of it. A sale is a game in which everybody only activates."""

    def __init__(self, vendor: Client, *, is_sale: bool) -> None:
        self.is_sale = is_sale
        self.number = next(_numbers)
        self.start = License(5 if is_sale else random.choice([1, 2, 3, 4, None]))
        self.key = vendor.license(order_id=self.number, times_activated_max=self.start.limit)
        self.history: list[Operation] = []
        self.tokens = {_NOBODY: _NOBODYS_TOKEN}
        #: What no answer may be.
        self.strange: list[str] = []
        self.left = random.randint(10, 30)
        self.players = random.randint(4, 8)

    def next_wish(self) -> tuple[What, Any]:
        """What a program asks next."""
        self.left -= 1
        if self.is_sale:
            return "activate", f"call-{next(_labels)}"
        (what,) = random.choices(list(_WISHES), list(_WISHES.values()))
        if what == "activate":
            return what, f"call-{next(_labels)}"
        if what == "set limit":
            return what, random.choice([1, 2, 3, 4, None])
        if what in _V3_PATHS:
            return what, f"device-{random.randint(1, 3)}"
        is_about_all = what in ("deactivate all", "validate")
        return what, None if is_about_all else random.choice(list(self.tokens))

    def understood(self, reply: Told, about: Any) -> Answer:
        """What an answer says; what it must not say is noted."""
        if reply.status in (200, 201):
            body = reply.json
            return self._success(body["data"]) if "data" in body else self._v3_success(body)
        if reply.message in _V3_REFUSALS:
            return Refused(_V3_REFUSALS[reply.message])
        sentences = {
            sentence.format(key=self.key, token=self.tokens.get(about, "")): why
            for sentence, why in _REFUSALS.items()
        }
        if reply.status != 404 or reply.message not in sentences:
            self.strange.append(f"{about}: {reply.status} {reply.message}")
        return Refused(sentences.get(reply.message, "nobody knows why"))

    def _success(self, data: Any) -> Done:
        if data["licenseKey"] != self.key:
            self.strange.append(f"an answer about {data['licenseKey']}")
        told = data.get("activationData", [])
        records = told if isinstance(told, list) else [told]
        for one in records:
            self.learn(one["label"], one["token"])
        return Done(
            data["timesActivated"],
            data["timesActivatedMax"],
            frozenset(one["label"] for one in records if one["deactivated_at"] is None),
            frozenset(one["label"] for one in records if one["deactivated_at"] is not None),
            data.get("remainingActivations"),
        )

    def _v3_success(self, body: Any) -> Done:
        license, activation = body["license"], body["activation"]
        label = frozenset({activation["name"]})
        self.learn(activation["name"], activation["token"])
        is_active = activation["deactivated_at"] is None
        counts = license["activations"], license["max_activations"]
        return Done(*counts, active=label) if is_active else Done(*counts, ended=label)

    def learn(self, label: str, token: str) -> None:
        """A label and a token belong together for good."""
        if self.tokens.setdefault(label, token) != token:
            self.strange.append(f"{label} has two tokens")


class Arena:
    """Servers on one database, which are killed now and then, and the programs that ask them."""

    def __init__(self, servers: Sequence[RunningServer], credentials: tuple[str, str]) -> None:
        self._servers = servers
        self._doors = [Door(server) for server in servers]
        self._authorization = basic(*credentials)
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._answers = 0
        self._kill_after: list[int] = []
        self._killing: list[asyncio.Task[None]] = []
        self._one_at_a_time: asyncio.Lock
        self.kills = 0

    def play(self, games: Sequence[Game], *, kills: int = 0) -> None:
        """Play all of these at once to the end, and look what the database holds then; the servers are killed
        that often meanwhile.
        """
        expected = sum(game.left for game in games)
        self._answers = 0
        self._kill_after = sorted(random.sample(range(expected // 10, expected * 7 // 10), kills))
        self._runner.run(self._play(games))
        self._read(games)

    def close(self) -> None:
        self._runner.run(self._hang_up())
        self._runner.close()

    async def _hang_up(self) -> None:
        for door in self._doors:
            await door.close()

    async def _play(self, games: Sequence[Game]) -> None:
        self._one_at_a_time = asyncio.Lock()
        async with asyncio.timeout(_TIMEOUT):
            await asyncio.gather(
                *(
                    self._take_part(game, is_careful=player % 2 == 0)
                    for game in games
                    for player in range(game.players)
                )
            )
            await asyncio.gather(*self._killing)
        self._killing.clear()

    async def _take_part(self, game: Game, *, is_careful: bool) -> None:
        while game.left > 0:
            what, about = game.next_wish()
            operation = await self._ask(game, what, about, is_careful=is_careful)
            if operation is not None:
                game.history.append(operation)
            self._answers += 1
            if self._kill_after and self._answers >= self._kill_after[0]:
                del self._kill_after[0]
                self._killing.append(asyncio.create_task(self._kill(random.choice(self._servers))))

    async def _kill(self, server: RunningServer) -> None:
        async with self._one_at_a_time:
            # When it happens must have nothing to do with what goes on.
            await asyncio.sleep(random.uniform(0, 0.01))
            self.kills += 1
            await asyncio.to_thread(kill_and_start, server)

    async def _ask(self, game: Game, what: What, about: Any, *, is_careful: bool) -> Operation | None:
        """The operation; None when it was not carried out."""
        request = self._request(game, what, about, once=f"once-{next(_labels)}" if is_careful else "")
        began, reply = await self._let_in(request)
        while is_careful and (
            reply is None or (reply.status in (409, 503) and reply.message not in _V3_REFUSALS)
        ):
            await asyncio.sleep(_PAUSE)
            _, reply = await self._let_in(request)
        if reply is None or reply.message == FATE_UNKNOWN:
            return Operation(what, about, None, began)
        ended = time.monotonic()
        if reply.message == UNAVAILABLE:
            return None
        return Operation(what, about, game.understood(reply, about), began, ended)

    async def _let_in(self, request: bytes) -> tuple[float, Told | None]:
        """When a server was asked, and what it said; a server that is not there is not asked."""
        while True:
            door = random.choice(self._doors)
            if await door.is_open():
                return time.monotonic(), await door.ask(request)
            await asyncio.sleep(_PAUSE)

    def _request(self, game: Game, what: What, about: Any, *, once: str) -> bytes:
        headers = [f"Idempotency-Key: {once}"] if once else []
        if what in _V3_PATHS:
            named = {"name": about} if what == "activate device" else {}
            body = json.dumps({"license_key": game.key, "fingerprint": about, **named})
            headers += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
            return "\r\n".join([f"POST {_V3_PATHS[what]} HTTP/1.1", "Host: x", *headers, "", body]).encode()
        if what == "set limit":
            headers.append(f"Authorization: {self._authorization}")
            method, path, query = "PUT", license_path(game.key), f"times_activated_max={about or 0}"
        else:
            method, path = random.choice(["GET", "POST"]), core(_call(what), game.key)
            query = f"token={game.tokens[about]}" if about in game.tokens else ""
            if what == "activate":
                query = f"label={quote(about)}"
        if method != "GET":
            headers.append("Content-Length: 0")
        lines = [f"{method} {V2}{path}?{query} HTTP/1.1", "Host: x", *headers]
        return "\r\n".join([*lines, "", ""]).encode()

    def _read(self, games: Sequence[Game]) -> None:
        """Add to each history what the database holds."""
        found: dict[int, License] = {}
        by_number = {game.number: game for game in games}
        query = """SELECT order_id, times_activated, times_activated_max, label, token, deactivated_at
                   FROM licenses LEFT JOIN activations ON license_id = licenses.id
                   WHERE order_id BETWEEN ? AND ?"""
        counters = {}
        for number, counter, limit, label, token, ended_at in self._servers[0].sql(
            query, min(by_number), max(by_number)
        ):
            counters[number] = counter
            license = found.get(number, License(limit))
            if label is not None:
                by_number[number].learn(label, token)
                license = license.with_active(label)
                license = license if ended_at is None else license.without(frozenset({label}))
            found[number] = license
        now = time.monotonic()
        for number, game in by_number.items():
            if number not in found:
                game.strange.append("the license is gone")
                continue
            told = report(found[number])._replace(times_activated=counters[number])
            game.history.append(Operation("validate", None, told, now, now))


def _call(what: What) -> str:
    """The word for it in the address."""
    return {"reactivate": "activate"}.get(what, what.split()[0])


@contextmanager
def arena(servers: Sequence[RunningServer], credentials: tuple[str, str]) -> Iterator[Arena]:
    """An arena for as long as the block runs."""
    place = Arena(servers, credentials)
    try:
        yield place
    finally:
        place.close()
