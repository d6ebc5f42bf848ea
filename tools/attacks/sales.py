"""Attacks on the addresses that shops and customers use. During each, an honest shop reports a sale every
half second, and during those on the portal, an honest customer signs in.
"""

import asyncio
import itertools
import json
import random
import re
import secrets
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from keywright.core.standard_webhooks import new_secret, sign
from tools.attacks import honest
from tools.attacks.stranger import Attack, Stranger
from tools.attacks.wire import Connection, NotAnswered, get, post

_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
#: The maximum body size for shops, and the size of a typical order, which takes more than one read.
_LARGEST, _ORDER = 512 * 1024, 6_000
#: The number of connections with incomplete bodies, from one address.
_SLOW = 150
_PATIENCE = 30.0
_COOKIE = re.compile(r"(?:__Host-)?keywright-portal=[^;]+")
_ASKED = re.compile(r"(?:__Host-)?keywright-sign-in=(?:[0-9]+\.)*([0-9]+)")
_BUYER = "ada@example.com"
_FORM_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')


Strike = Callable[[Stranger], Coroutine[Any, Any, None]]


def _signed(path: str, secret: str, body: bytes) -> bytes:
    number, now = f"msg_{secrets.token_hex(12)}", int(datetime.now(UTC).timestamp())
    headers = {
        "webhook-id": number,
        "webhook-timestamp": str(now),
        "webhook-signature": sign(number, now, body, [secret]),
    }
    return post(path, _JSON, body, *(f"{name}: {value}" for name, value in headers.items()))


def _sale(size: int) -> bytes:
    contents = {
        "order": f"attacked-{secrets.token_hex(8)}",
        "customer": {"email": _BUYER},
        "lines": [{"product": "pro"}],
        "note": "x" * size,
    }
    at = datetime.now(UTC).isoformat()
    return json.dumps({"type": "order.paid", "timestamp": at, "data": contents}).encode()


async def _sell(stranger: Stranger) -> None:
    """The honest shop."""
    async with stranger.connection(honest.ADDRESS) as connection:
        async for _ in stranger.at_a_rate(2):
            request = _signed(stranger.target.shop_path, stranger.target.shop_secret, _sale(_ORDER))
            await _count(stranger, connection, request, "sale")


async def _count(stranger: Stranger, connection: Connection, request: bytes, what: str) -> None:
    with suppress(NotAnswered):
        if (await connection.ask(request, _PATIENCE)).status == 200:
            stranger.outcomes[f"{what} taken"] += 1
            return
    stranger.outcomes[f"{what} refused"] += 1


def _beside_a_shop(strike: Strike) -> Strike:
    async def both(stranger: Stranger) -> None:
        await asyncio.gather(strike(stranger), _sell(stranger))

    return both


# --- shops ------------------------------------------------------------------------------------------


async def _forge(stranger: Stranger) -> None:
    """Send forged signatures of all kinds of shops over 16 connections, at full speed."""
    path, body = stranger.target.shop_path, _sale(_ORDER)
    forged = (
        *(_signed(path, new_secret(), body) for _ in range(20)),
        post("/in/stripe/1", _JSON, body, "Stripe-Signature: t=1,v1=00"),
        post("/in/woocommerce/1", _JSON, body, "X-WC-Webhook-Signature: AAAA"),
    )
    await stranger.all_the_time(16, lambda: random.choice(forged))


async def _send_large_events(stranger: Stranger) -> None:
    """Send ten forged events per second, of the maximum size and larger."""
    path = stranger.target.shop_path
    sizes = itertools.cycle([_LARGEST - 1_000, 2 * _LARGEST])
    bodies: Iterator[bytes] = (_sale(size) for size in sizes)

    async def once(_: int) -> None:
        async with stranger.connection() as connection:
            await stranger.ask(connection, _signed(path, new_secret(), next(bodies)))

    await stranger.without_waiting(10, once)


async def _send_slowly(stranger: Stranger) -> None:
    """Send all but the end of a body over 150 connections, and wait. Large and small bodies together fill any
    limit.
    """
    path = stranger.target.shop_path
    sizes = (_LARGEST - 1_000, _LARGEST // 10, _ORDER)
    bodies = itertools.cycle([_signed(path, new_secret(), _sale(size))[:-10] for size in sizes])

    async def over_one(request: bytes) -> None:
        while stranger.left:
            async with stranger.connection() as connection:
                with suppress(NotAnswered):
                    answer = await connection.ask(request, stranger.left)
                    stranger.outcomes[str(answer.status)] += 1
            await asyncio.sleep(min(stranger.left, 0.1))

    await asyncio.gather(*(over_one(next(bodies)) for _ in range(_SLOW)))


# --- the portal -------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """What is needed to send a form of the portal."""

    cookie: str
    csrf_token: str


async def _open_portal(connection: Connection) -> _Form | None:
    """Get the first page; None if there is no response."""
    with suppress(NotAnswered):
        page = await connection.ask(get("/portal"), _PATIENCE)
        cookie = _COOKIE.search(page.headers.get("set-cookie", ""))
        token = _FORM_TOKEN.search(page.body.decode())
        if cookie and token:
            return _Form(cookie[0], token[1])
    return None


def _ask_to_sign_in(form: _Form, email: str) -> bytes:
    body = urlencode({"csrf_token": form.csrf_token, "email": email}).encode()
    return post("/portal/sign-in", _FORM, body, f"Cookie: {form.cookie}")


async def _come_back(stranger: Stranger) -> None:
    """Request a code every second, as an honest customer."""
    async for number in stranger.at_a_rate(1):
        async with stranger.connection(honest.ADDRESS) as connection:
            form = await _open_portal(connection)
            if form is None:
                stranger.outcomes["customer refused"] += 1
            else:
                request = _ask_to_sign_in(form, f"customer-{number}@example.com")
                await _count(stranger, connection, request, "customer")


async def _ask_for_codes(stranger: Stranger) -> None:
    """Request sign-in codes for changing e-mail addresses over 16 connections, at full speed."""
    async with stranger.connection() as connection:
        form = await _open_portal(connection)
    if form is None:
        stranger.outcomes["no form"] += 1
        return

    def request() -> bytes:
        return _ask_to_sign_in(form, f"{secrets.token_hex(6)}@example.com")

    await asyncio.gather(stranger.all_the_time(16, request), _come_back(stranger))


async def _ask_in_a_name(stranger: Stranger) -> None:
    """35 times per second, from changing addresses: request a code as the shop's buyer; with every seventh,
    also guess the code and the link.
    """
    async with stranger.connection() as connection:
        form = await _open_portal(connection)
    if form is None:
        stranger.outcomes["no form"] += 1
        return

    async def once(number: int) -> None:
        address = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}.{random.randint(1, 250)}"
        async with stranger.connection(address) as connection:
            answer = await stranger.ask(connection, _ask_to_sign_in(form, _BUYER))
            asked = _ASKED.search("" if answer is None else answer.headers.get("set-cookie", ""))
            if asked is None or number % 7:
                return
            fields = urlencode({"csrf_token": form.csrf_token, "email": _BUYER, "code": "00000000"}).encode()
            for path in ("/portal/sign-in/code", f"/portal/sign-in/{asked[1]}/{'0' * 32}"):
                cookies = f"Cookie: {form.cookie}; {asked[0]}"
                await stranger.ask(connection, post(path, _FORM, fields, cookies))

    await asyncio.gather(stranger.without_waiting(35, once), _come_back(stranger))


ATTACKS = {
    "A11": Attack("35 sign-ins a second in one customer's name", _beside_a_shop(_ask_in_a_name)),
    "A9-forged": Attack("forged events of shops, full speed", _beside_a_shop(_forge)),
    "A9-large": Attack("ten events of half a megabyte or more a second", _beside_a_shop(_send_large_events)),
    "A9-slow": Attack(
        f"{_SLOW} events of up to half a megabyte that do not end", _beside_a_shop(_send_slowly)
    ),
    "A10": Attack("sign-in codes for the portal, full speed", _beside_a_shop(_ask_for_codes)),
}
