"""Attacks by callers with credentials: an API key with read permission, a license key, a user's password."""

import asyncio
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Self

import httpx
import pyotp

from tools.attacks import honest
from tools.attacks.stranger import Attack, Stranger
from tools.attacks.wire import NotAnswered, Target, get, post

_JSON, _SECOND_FACTOR = "application/json", "/account/second-factor"
#: More calls than may wait with one API key, and the wait time that they request.
_POLLS, _WAIT_SECONDS = 300, 30
#: About the maximum metadata of a device.
_METADATA = {"a": "x" * 15_500}
_FORM_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')
_TICKET = re.compile(r'name="ticket" value="([^"]+)"')
_SECRET = re.compile(r'name="secret" value="([A-Z2-7]{32})"')
_CODES = re.compile(r'<code id="codes">([^<]+)</code>')
_PATIENCE = 30.0


async def _wait_for_events(stranger: Stranger) -> None:
    """Let 300 calls with one API key wait for events of its product, while the same key lists its
    licenses.
    """
    await asyncio.gather(_list_licenses(stranger), *(_poll(stranger) for _ in range(_POLLS)))


async def _poll(stranger: Stranger) -> None:
    authorization, cursor = f"Authorization: {stranger.target.reader}", ""
    async with stranger.connection() as connection:
        while stranger.left:
            path = f"/v3/events?limit=200&wait_seconds={_WAIT_SECONDS}{cursor}"
            with suppress(NotAnswered):
                answer = await connection.ask(get(path, authorization), stranger.left)
                stranger.outcomes[str(answer.status)] += 1
                if answer.status == 200:
                    cursor = f"&cursor={json.loads(answer.body)['next_cursor']}"
                else:
                    await asyncio.sleep(min(stranger.left, 0.2))


async def _list_licenses(stranger: Stranger) -> None:
    request = get("/v3/licenses?limit=5", f"Authorization: {stranger.target.reader}")
    async with stranger.connection(honest.ADDRESS) as connection:
        async for _ in stranger.at_a_rate(10):
            answer = await connection.ask(request, _PATIENCE)
            stranger.outcomes["list answered" if answer.status == 200 else "list refused"] += 1


def _kept(stranger: Stranger) -> Iterator[bytes]:
    """Yield requests of devices that activate twice, with much metadata, and deactivate twice."""
    for number in count():
        device = {"license_key": stranger.target.single_key, "fingerprint": f"device-{number:08}"}
        for path in ("activate", "activate", "deactivate", "deactivate"):
            body = device | ({"metadata": _METADATA} if path == "activate" else {})
            key = f"Idempotency-Key: {secrets.token_hex(12)}"
            yield post(f"/v3/{path}", _JSON, json.dumps(body).encode(), key)


async def _fill_with_answers(stranger: Stranger) -> None:
    """With one license key, cause responses of 16 kB that are stored for a day."""
    requests = _kept(stranger)
    await stranger.all_the_time(8, lambda: next(requests))


class _Browser:
    """A browser for the administration pages, at an address of this machine."""

    def __init__(self, stranger: Stranger, address: str) -> None:
        host, port = stranger.target.server
        transport = httpx.AsyncHTTPTransport(local_address=address)
        self._http = httpx.AsyncClient(
            transport=transport, base_url=f"http://{host}:{port}/admin", timeout=_PATIENCE
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def get(self, path: str) -> str:
        return (await self._http.get(path)).text

    async def post(self, path: str, *, page: str = "/sign-in", **fields: str) -> httpx.Response:
        """Send the form of a page."""
        token = _FORM_TOKEN.search(await self.get(page))
        csrf_token = "" if token is None else token[1]
        origin = str(self._http.base_url).removesuffix("/admin/")
        return await self._http.post(
            path, data={"csrf_token": csrf_token, **fields}, headers={"Origin": origin}
        )

    async def enter_password(self, target: Target) -> str:
        """Return the ticket for entering the code; empty if no code is needed."""
        answer = await self.post("/sign-in", name=target.name, password=target.password)
        ticket = _TICKET.search(answer.text)
        return "" if ticket is None else ticket[1]


async def _set_up_codes(browser: _Browser, target: Target) -> list[str]:
    """Set up a second factor for the user; return the recovery codes."""
    await browser.enter_password(target)
    secret = _SECRET.search(await browser.get(_SECOND_FACTOR))
    assert secret is not None
    code, enable = pyotp.TOTP(secret[1]).now(), f"{_SECOND_FACTOR}/enable"
    answer = await browser.post(enable, page=_SECOND_FACTOR, secret=secret[1], code=code)
    found = _CODES.search(answer.text)
    assert found is not None
    return found[1].split()


async def _guess_codes(stranger: Stranger) -> None:
    """Guess codes of a second factor over four connections, with the right password, at full speed; the user
    signs in with recovery codes, in known and unknown browsers.
    """
    target = stranger.target
    async with _Browser(stranger, honest.ADDRESS) as own, _Browser(stranger, stranger.address) as thief:
        codes = await _set_up_codes(own, target)
        await own.post("/sign-out", page=_SECOND_FACTOR)
        ticket = await thief.enter_password(target)
        # On a busy machine, passwords take long.
        stranger.begin()

        async def guess() -> None:
            while stranger.left:
                answer = await thief.post("/sign-in/code", ticket=ticket, code="000000")
                stranger.outcomes[str(answer.status_code)] += 1

        async def come_back() -> None:
            # Each recovery code is valid once.
            async for number in stranger.at_a_rate(min(1, (len(codes) - 1) / stranger.seconds)):
                async with _Browser(stranger, honest.ADDRESS) as another:
                    browser = own if number % 2 else another
                    again = await browser.enter_password(target)
                    answer = await browser.post("/sign-in/code", ticket=again, code=codes[number])
                    is_in = answer.status_code == 303
                    stranger.outcomes["owner let in" if is_in else "owner refused"] += 1
                    await browser.post("/sign-out", page=_SECOND_FACTOR)

        await asyncio.gather(come_back(), *(guess() for _ in range(4)))


async def _find_and_export(stranger: Stranger) -> None:
    """Search, and export all events, over eight connections of a signed-in user, at full speed."""
    async with _Browser(stranger, stranger.address) as browser:
        await browser.enter_password(stranger.target)
        # On a busy machine, passwords take long.
        stranger.begin()

        async def search() -> None:
            while stranger.left:
                for path in (f"/find?q={secrets.token_hex(3)}", "/find?q=a", "/events/export"):
                    stranger.largest = max(stranger.largest, len(await browser.get(path)))
                    stranger.outcomes["page"] += 1

        await asyncio.gather(*(search() for _ in range(8)))


ATTACKS = {
    "A18": Attack("a user searches and exports, full speed", _find_and_export),
    "A12": Attack(f"{_POLLS} calls with one API key wait for events", _wait_for_events),
    "A13": Attack("answers of 16 kB to keep, with one license key", _fill_with_answers),
    "A14": Attack("codes of a second factor, with the right password", _guess_codes),
}
