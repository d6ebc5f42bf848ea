"""Bodies: what they say, how deep they may be, and how many may be in memory."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from keywright.core.errors import BodyTooLarge, MalformedJson, QueueFull
from keywright.http.middleware import body
from keywright.http.middleware.body import BodyReader
from keywright.http.v2.parameters import parse_body

MIB = 1024 * 1024


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.text(st.sampled_from('[]{}"\\ax')) | st.none(),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
            max_leaves=8,
        ),
        max_size=3,
    ),
    st.integers(0, 34),
)
def test_json_is_read_when_it_is_not_too_deep_whatever_stands_in_its_texts(
    value: dict[str, Any], levels: int
) -> None:
    for _ in range(levels):
        value = {"a": [value]} if levels % 2 else {"a": value}
    written = json.dumps(value).encode()
    if depth_of(value) <= 32:
        assert parse_body(b"application/json", written) == value
    else:
        with pytest.raises(MalformedJson):
            parse_body(b"application/json", written)


@pytest.mark.parametrize("body", [b"[" * MIB, b'{"a":' * 1000, b"]", b'{"a": [}]', b'{"a": "' + b'\\"' * MIB])
def test_json_that_does_not_fit_together_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        parse_body(b"application/json", body)


class Sender:
    """Sends a body of this size when it is told to go on, and one more byte before."""

    def __init__(self, size: int) -> None:
        self._pieces = [b"x", b"x" * (size - 1)]
        self.go_on = asyncio.Event()

    async def receive(self) -> Message:
        piece = self._pieces.pop(0)
        if not self._pieces:
            await self.go_on.wait()
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}


async def take(
    taker: BodyReader, sender: Sender, *, is_stranger: bool, parse: Callable[[bytes], int] = len
) -> int:
    return await taker.take({}, sender.receive, MIB, parse, is_stranger=is_stranger)


def test_bodies_are_bounded_in_bytes_and_strangers_first() -> None:
    async def bodies() -> None:
        taker, waiting = BodyReader(), []
        most = body.MOST_BYTES - body.SPARE_BYTES
        taker._bytes = most - 1
        stranger, shop = Sender(2), Sender(MIB)
        for sender, is_stranger in ((stranger, True), (shop, False)):
            waiting.append(asyncio.ensure_future(take(taker, sender, is_stranger=is_stranger)))
        await asyncio.sleep(0)
        stranger.go_on.set()
        with pytest.raises(QueueFull):
            await waiting[0]
        shop.go_on.set()
        assert await waiting[1] == MIB
        assert taker._bytes == most - 1
        taker._bytes = body.MOST_BYTES - 1
        shop = Sender(2)
        shop.go_on.set()
        with pytest.raises(QueueFull):
            await take(taker, shop, is_stranger=False)
        assert taker._bytes == body.MOST_BYTES - 1
        taker.close()

    asyncio.run(bodies())


def test_a_body_that_is_refused_holds_no_bytes() -> None:
    async def refused() -> int:
        taker, sender = BodyReader(), Sender(64 * 1024 + 1)
        sender.go_on.set()
        with pytest.raises(BodyTooLarge):
            await take(taker, sender, is_stranger=True)
        taker.close()
        return taker._bytes

    assert asyncio.run(refused()) == 0


def test_large_bodies_are_parsed_one_after_the_other_and_few_may_wait() -> None:
    under_way, most_at_once = 0, 0

    def parse(body: bytes) -> int:
        nonlocal under_way, most_at_once
        under_way += 1
        most_at_once = max(most_at_once, under_way)
        under_way -= 1
        return len(body)

    async def bodies() -> list[Any]:
        taker, senders = BodyReader(), [Sender(8 * 1024) for _ in range(100)]
        for sender in senders:
            sender.go_on.set()
        taking = [take(taker, sender, is_stranger=True, parse=parse) for sender in senders]
        found = await asyncio.gather(*taking, return_exceptions=True)
        taker.close()
        return found

    found = asyncio.run(bodies())
    assert most_at_once == 1
    refused = [one for one in found if isinstance(one, QueueFull)]
    assert found.count(8 * 1024) + len(refused) == 100
    assert found.count(8 * 1024) >= 32
    assert refused
