"""Attacks by callers without credentials, on the server's work before authentication."""

import asyncio
import base64
import itertools
import random
import re
import secrets
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tools.attacks import honest
from tools.attacks.stranger import Attack, Stranger
from tools.attacks.wire import LICENSES, Connection, NotAnswered, get, post, quiet_socket

_FORM_KIND = "application/x-www-form-urlencoded"
_HEADERS = 32_000
_BODY = 1024 * 1024
_STYLE = re.compile(r'href="(/admin/static/admin[^"]+css)"')
_FORM_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')
#: The cookie that ties forms to a browser, and that of a browser known from an earlier sign-in.
_COOKIE, _KNOWN = re.compile(r"keywright=[^;]+"), re.compile(r"keywright-known=[^;]+")
_BROWSER_PATIENCE = 30.0
#: More connections than a process may open by default (1,024 descriptors), and their number per address.
_IDLE, _IDLE_PER_ADDRESS = 2_000, 50


_DOWNLOADS = 64


async def _send_cookies(stranger: Stranger) -> None:
    """Send a GET with 32 kB of backslashes in a quoted cookie every two seconds: 16 kB per second."""
    request = get("/admin/sign-in", 'Cookie: keywright="' + "\\" * _HEADERS + '"')

    async def once() -> None:
        async with stranger.connection() as connection:
            await stranger.ask(connection, request)

    await stranger.without_waiting(0.5, lambda _: once())


def _large_bodies(stranger: Stranger) -> Iterator[bytes]:
    path = f"{LICENSES}/activate/{stranger.target.full_key}"
    # Nested 20 levels deep, the maximum allowed. The form is also slow to parse.
    nested = b'{"a":[' + b"%b%b," % (b"[" * 18, b"]" * 18) * (_BODY // 37 - 1) + b"[]]}"
    form = b"a=%41&" * 999 + b"b=" + b"%41" * (_BODY // 3 - 3_000)
    return itertools.cycle(
        [
            post(path, "application/json", nested),
            post(path, "application/x-www-form-urlencoded", form),
        ]
    )


async def _send_large_bodies(stranger: Stranger) -> None:
    """Send five bodies of 1 MiB per second: nested JSON and forms."""
    bodies = _large_bodies(stranger)

    async def once(_: int) -> None:
        async with stranger.connection() as connection:
            await stranger.ask(connection, next(bodies))

    await stranger.without_waiting(5, once)


async def _never_read(stranger: Stranger) -> None:
    """Request 2 MB over each of 200 connections, and read nothing."""
    loop = asyncio.get_running_loop()
    async with stranger.connection() as connection:
        page = await stranger.ask(connection, get("/admin/sign-in"))
    style = _STYLE.search(page.body.decode()) if page is not None else None
    request = get(style[1] if style else "/admin/sign-in") * 100
    with ExitStack() as stack:
        for _ in range(200):
            sock = stack.enter_context(quiet_socket(stranger.address))
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(stranger.left):
                    await loop.sock_connect(sock, stranger.target.server)
                    await loop.sock_sendall(sock, request)
                stranger.outcomes["connected"] += 1
        await asyncio.sleep(stranger.left)


async def _be_idle(stranger: Stranger) -> None:
    """Open as many idle connections as the server accepts, from many addresses."""
    connections = [
        stranger.connection(f"127.0.1.{number // _IDLE_PER_ADDRESS + 1}") for number in range(_IDLE)
    ]

    async def keep_open(connection: Connection) -> None:
        while stranger.left:
            try:
                async with asyncio.timeout(stranger.left):
                    await connection.open()
                    stranger.outcomes["connected"] += 1
                    await connection.wait_until_closed()
                stranger.outcomes["hung up on"] += 1
            except (OSError, TimeoutError):
                connection.close()
            # Limit the rate: the attack is the number of connections, not a flood of new ones.
            await asyncio.sleep(min(stranger.left, 2))

    try:
        await asyncio.gather(*map(keep_open, connections))
    finally:
        for one in connections:
            one.close()


def _unknown_key() -> bytes:
    return get(f"{LICENSES}/validate/GUESS-{secrets.token_hex(8)}")


async def _guess_keys(stranger: Stranger) -> None:
    """Guess license keys over 250 connections, at full speed."""
    await stranger.all_the_time(250, _unknown_key)


async def _guess_credentials(stranger: Stranger) -> None:
    """Guess API keys over 250 connections, half of them with an encoded parameter name."""
    is_odd = itertools.cycle([False, True])

    def request() -> bytes:
        key, secret = f"ck_{secrets.token_hex(20)}", f"cs_{secrets.token_hex(20)}"
        if next(is_odd):
            return get(f"{LICENSES}?c%6fnsumer_key={key}&c%6fnsumer_secret={secret}")
        basic = base64.b64encode(f"{key}:{secret}".encode()).decode()
        return get(LICENSES, f"Authorization: Basic {basic}")

    await stranger.all_the_time(250, request)


async def _share_the_address(stranger: Stranger) -> None:
    """From the honest caller's address, send 700 unknown keys at once, then 20 per second."""

    async def once(connection: Connection) -> None:
        await stranger.ask(connection, _unknown_key())

    async def many() -> None:
        async with stranger.connection() as connection:
            for _ in range(70):
                await once(connection)

    await asyncio.gather(*(many() for _ in range(10)))
    async with stranger.connection() as connection:
        async for _ in stranger.at_a_rate(20):
            await once(connection)


class _Form(NamedTuple):
    """What is needed to send a form of the pages."""

    cookie: str
    csrf_token: str


async def _form(stranger: Stranger, address: str) -> _Form | None:
    """Get the sign-in form; None if there is no response."""
    with suppress(NotAnswered):
        async with stranger.connection(address) as connection:
            page = await connection.ask(get("/admin/sign-in"), _BROWSER_PATIENCE)
        cookie = _COOKIE.search(page.headers.get("set-cookie", ""))
        token = _FORM_TOKEN.search(page.body.decode())
        if cookie and token:
            return _Form(cookie[0], token[1])
    return None


def _sign_in(form: _Form, name: str, password: str, known: str = "") -> bytes:
    body = urlencode({"csrf_token": form.csrf_token, "name": name, "password": password}).encode()
    cookies = f"Cookie: {form.cookie}" + (f"; {known}" if known else "")
    return post("/admin/sign-in", "application/x-www-form-urlencoded", body, cookies)


async def _signed_in(stranger: Stranger, known: str = "") -> str | None:
    """Sign in as an honest user; return the cookie that makes the browser known, None if refused."""
    form = await _form(stranger, honest.ADDRESS)
    if form is None:
        return None
    request = _sign_in(form, stranger.target.name, stranger.target.password, known)
    with suppress(NotAnswered):
        async with stranger.connection(honest.ADDRESS) as connection:
            answer = await connection.ask(request, _BROWSER_PATIENCE)
        found = _KNOWN.search(answer.headers.get("set-cookie", ""))
        return found[0] if found else None
    return None


async def _guess_passwords(stranger: Stranger) -> None:
    """Try 15 wrong passwords per second from changing addresses, while a known browser signs in
    every second.
    """
    known, form = await _signed_in(stranger), await _form(stranger, stranger.address)
    if known is None or form is None:
        stranger.outcomes["no sign-in form"] += 1
        return
    # On a busy machine, the first sign-in takes long.
    stranger.begin()

    async def guess(_: int) -> None:
        address = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}.{random.randint(1, 250)}"
        guessed = _sign_in(form, f"guess-{secrets.token_hex(4)}", secrets.token_hex(10))
        async with stranger.connection(address) as connection:
            await stranger.ask(connection, guessed)

    async def come_back() -> None:
        async for _ in stranger.at_a_rate(1):
            again = await _signed_in(stranger, known)
            stranger.outcomes["browser let in" if again is not None else "browser refused"] += 1

    await asyncio.gather(stranger.without_waiting(15, guess), come_back())


async def _download_slowly(stranger: Stranger) -> None:
    """Download a public product 64 times, from 16 addresses, each at 400 bytes/s."""
    loop = asyncio.get_running_loop()
    request = get(stranger.target.download)

    async def over_one(number: int) -> None:
        with suppress(OSError, TimeoutError), quiet_socket(f"127.0.3.{number % 16 + 1}") as sock:
            async with asyncio.timeout(stranger.left):
                await loop.sock_connect(sock, stranger.target.server)
                await loop.sock_sendall(sock, request)
                stranger.outcomes[(await loop.sock_recv(sock, 12)).decode()] += 1
                while await loop.sock_recv(sock, 100):
                    await asyncio.sleep(0.25)
            stranger.outcomes["hung up on"] += 1

    places = range(_DOWNLOADS if stranger.target.download else 0)
    await asyncio.gather(*(over_one(number) for number in places))


def _offline_form() -> bytes:
    fields = {"request": "x" * random.choice([10, 20_000]), "license_key": secrets.token_hex(16)}
    return post("/offline", _FORM_KIND, urlencode(fields).encode())


def _edd_call() -> bytes:
    fields = {
        "license": secrets.token_hex(16),
        "item_id": "1",
        "url": f"https://{secrets.token_hex(4)}.example",
    }
    actions = ("activate_license", "check_license", "get_version", "deactivate_license")
    text = urlencode({"edd_action": random.choice(actions)} | fields)
    return random.choice([get(f"/edd?{text}"), get(f"/?{text}"), post("/edd", _FORM_KIND, text.encode())])


def _forged_address() -> bytes:
    forged = secrets.token_urlsafe(60)
    return get(random.choice([f"/d/{forged}/app.zip", f"/u/{forged}/1/latest.yml", "/u/open/1/latest.yml"]))


def _at_full_speed(request: Callable[[], bytes]) -> Callable[[Stranger], Coroutine[Any, Any, None]]:
    """Send requests over 16 connections, at full speed."""

    async def strike(stranger: Stranger) -> None:
        await stranger.all_the_time(16, request)

    return strike


ATTACKS = {
    "A15": Attack("forged requests for license files, full speed", _at_full_speed(_offline_form)),
    "A16": Attack("unknown keys over EDD's calls, full speed", _at_full_speed(_edd_call)),
    "A17": Attack("forged downloads and update tokens, full speed", _at_full_speed(_forged_address)),
    "A1": Attack("32 kB of backslashes in a cookie, 16 kB/s", _send_cookies),
    "A4": Attack("five bodies of 1 MiB a second", _send_large_bodies),
    "A5-unread": Attack("200 connections that ask and never read", _never_read),
    "A5-idle": Attack(f"{_IDLE:,} idle connections, or as many as are let in", _be_idle),
    "A6-keys": Attack("250 connections guess license keys", _guess_keys),
    "A6-credentials": Attack("250 connections guess API keys", _guess_credentials),
    "A7": Attack("unknown keys from the honest caller's address", _share_the_address, address=honest.ADDRESS),
    "A9": Attack(f"{_DOWNLOADS} downloads that are read at 400 bytes/s", _download_slowly),
    "A8": Attack("15 wrong passwords a second, addresses change", _guess_passwords),
}
