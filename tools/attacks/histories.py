"""Attacks by the holder of one license key, on the stored history of its license."""

import asyncio
import itertools
import random
import secrets
from contextlib import suppress

from tools.attacks.stranger import Attack, Stranger
from tools.attacks.wire import LICENSES, get, quiet_socket

#: The number of records in the prepared history; fewer if the server refuses more.
_GROWN = 8_000
_GROWN_OVER = 16
#: The size of a record's metadata in characters; 4 KiB are allowed.
_META = 4_000
_GROWING_TIME = 60.0


class _Turns:
    """Alternating requests that activate a license's single place, with as much metadata as possible, and
    deactivate it.
    """

    def __init__(self, stranger: Stranger) -> None:
        key = stranger.target.single_key
        self.activate = get(f"{LICENSES}/activate/{key}?meta[a]={'x' * _META}")
        self._requests = itertools.cycle([self.activate, get(f"{LICENSES}/deactivate/{key}")])

    def __call__(self) -> bytes:
        return next(self._requests)


async def change_in_turn(stranger: Stranger) -> None:
    """Repeatedly activate and deactivate the license's single place."""
    await stranger.all_the_time(_GROWN_OVER, _Turns(stranger))


async def grow(stranger: Stranger, records: int = _GROWN) -> None:
    """Give the license a long history: this many records, or as many as the server allows."""
    request = _Turns(stranger)
    taken, refusals = itertools.count(1), itertools.count(1)
    is_over = asyncio.Event()

    async def over_one() -> None:
        async with stranger.connection() as connection:
            while not is_over.is_set():
                asked = request()
                answer = await stranger.ask(connection, asked)
                if answer is None:
                    continue
                if answer.status == 200 and asked == request.activate and next(taken) >= records:
                    is_over.set()
                if answer.status == 429 and next(refusals) >= _GROWN_OVER:
                    is_over.set()

    with suppress(TimeoutError):
        async with asyncio.timeout(_GROWING_TIME):
            await asyncio.gather(*(over_one() for _ in range(_GROWN_OVER)))


async def _validate_grown(stranger: Stranger) -> None:
    """Validate 40 times at once, then five times per second: 400 bytes of requests per second."""
    request = get(f"{LICENSES}/validate/{stranger.target.single_key}")

    async def once() -> None:
        async with stranger.connection() as connection:
            await stranger.ask(connection, request)

    await asyncio.gather(*(once() for _ in range(40)))
    await stranger.without_waiting(5, lambda _: once())


async def _read_slowly(stranger: Stranger) -> None:
    """Read responses over four connections, 100 bytes every quarter of a second."""
    request = get(f"{LICENSES}/validate/{stranger.target.single_key}")
    loop = asyncio.get_running_loop()

    async def over_one() -> None:
        while stranger.left:
            with suppress(OSError, TimeoutError), quiet_socket(stranger.address) as sock:
                async with asyncio.timeout(stranger.left):
                    await loop.sock_connect(sock, stranger.target.server)
                    # Pipeline several: the server starts the next response once the last is buffered.
                    await loop.sock_sendall(sock, request * 4)
                    stranger.outcomes["connected"] += 1
                    while await loop.sock_recv(sock, 100):
                        await asyncio.sleep(0.25)
                stranger.outcomes["hung up on"] += 1
            await asyncio.sleep(min(stranger.left, 0.1))

    await asyncio.gather(*(over_one() for _ in range(4)))


async def _give_up_everything(stranger: Stranger) -> None:
    """Ten times per second, activate the place and deactivate all places."""
    request = _Turns(stranger)
    async with stranger.connection() as connection:
        async for _ in stranger.at_a_rate(20):
            await stranger.ask(connection, request())


async def _change_patiently(stranger: Stranger) -> None:
    """Make 120 changes per minute."""
    request = _Turns(stranger)
    async with stranger.connection() as connection:
        async for _ in stranger.at_a_rate(2):
            await stranger.ask(connection, request())


async def _be_refused(stranger: Stranger) -> None:
    """Activate a license without a free place, each time with a new Idempotency-Key."""
    path = f"{LICENSES}/activate/{stranger.target.full_key}"

    def request() -> bytes:
        return get(path, f"Idempotency-Key: {secrets.token_hex(16)}", f"User-Agent: {random.random()}")

    await stranger.all_the_time(16, request)


ATTACKS = {
    "A2-grow": Attack("one place taken and given up, full speed", change_in_turn),
    "A2-validate": Attack("a long history, validated 5 times a second", _validate_grown, grow),
    "A2-read-slowly": Attack("a long history, 4 readers at 400 bytes/s", _read_slowly, grow),
    "A2-give-up": Attack("a long history, all places given up 10 times a second", _give_up_everything, grow),
    "A3-events": Attack("120 changes a minute on one license", _change_patiently),
    "A3-refusals": Attack("refusals with new Idempotency-Keys, full speed", _be_refused),
}
