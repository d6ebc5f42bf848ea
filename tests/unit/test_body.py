"""Request bodies: the maximum depth of JSON, and the maximum of bytes in memory."""

import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from keywright.core.errors import BodyTooLarge, MalformedJson, QueueFull
from keywright.http.middleware.body import (
    LARGE,
    MAX_BYTES,
    MAX_BYTES_OF_ADDRESS,
    RESERVED_BYTES,
    BodyReader,
    read_body,
    take_small_body,
)
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
def test_json_is_read_up_to_32_levels_whatever_its_strings_hold(value: dict[str, Any], levels: int) -> None:
    for _ in range(levels):
        value = {"a": [value]} if levels % 2 else {"a": value}
    written = json.dumps(value).encode()
    if depth_of(value) <= 32:
        assert parse_body(b"application/json", written) == value
    else:
        with pytest.raises(MalformedJson):
            parse_body(b"application/json", written)


@pytest.mark.parametrize("body", [b"[" * MIB, b'{"a":' * 1000, b"]", b'{"a": [}]', b'{"a": "' + b'\\"' * MIB])
def test_json_with_brackets_that_do_not_match_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        parse_body(b"application/json", body)


class Sender:
    """Sends the first byte of a body of this size, and the rest after ``go_on``."""

    def __init__(self, size: int) -> None:
        self._pieces = [b"x", b"x" * (size - 1)]
        self.go_on = asyncio.Event()

    async def receive(self) -> Message:
        piece = self._pieces.pop(0)
        if not self._pieces:
            await self.go_on.wait()
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}


async def read(
    reader: BodyReader,
    sender: Sender,
    *,
    is_trusted: bool,
    address: str = "192.0.2.1",
    parse: Callable[[bytes], int] = len,
) -> int:
    return await reader.read({}, sender.receive, MIB, parse, address=address, is_trusted=is_trusted)


def test_bodies_are_bounded_in_bytes_and_some_are_reserved_for_trusted_callers() -> None:
    async def bodies() -> None:
        reader, waiting = BodyReader(), []
        most = MAX_BYTES - RESERVED_BYTES
        reader._bytes = most - 1
        untrusted, shop = Sender(2), Sender(MIB)
        for sender, is_trusted in ((untrusted, False), (shop, True)):
            waiting.append(asyncio.ensure_future(read(reader, sender, is_trusted=is_trusted)))
        await asyncio.sleep(0)
        untrusted.go_on.set()
        with pytest.raises(QueueFull):
            await waiting[0]
        shop.go_on.set()
        assert await waiting[1] == MIB
        assert reader._bytes == most - 1
        reader._bytes = MAX_BYTES - 1
        shop = Sender(2)
        shop.go_on.set()
        with pytest.raises(QueueFull):
            await read(reader, shop, is_trusted=True)
        assert reader._bytes == MAX_BYTES - 1
        # A refused body occupies no memory.
        reader._bytes, large = 0, Sender(64 * 1024 + 1)
        large.go_on.set()
        with pytest.raises(BodyTooLarge):
            await read(reader, large, is_trusted=False)
        assert reader._bytes == 0
        reader.close()

    asyncio.run(bodies())


@pytest.mark.parametrize(
    ("address", "is_trusted", "is_read"),
    [("2001:db8::2", False, False), ("2001:db8::2", True, True), ("2001:db8:0:1::", False, True)],
)
def test_bodies_from_one_address_leave_room_for_those_of_others(
    address: str, *, is_trusted: bool, is_read: bool
) -> None:
    async def body() -> None:
        reader, sender = BodyReader(), Sender(2)
        reader._bytes = reader._bytes_of["2001:db8::/64"] = MAX_BYTES_OF_ADDRESS - 1
        before = dict(reader._bytes_of)
        sender.go_on.set()
        with nullcontext() if is_read else pytest.raises(QueueFull):
            await read(reader, sender, is_trusted=is_trusted, address=address)
        assert (reader._bytes, reader._bytes_of) == (MAX_BYTES_OF_ADDRESS - 1, before)
        reader.close()

    asyncio.run(body())


def test_large_bodies_are_parsed_one_at_a_time_and_few_may_wait() -> None:
    running, most_at_once = 0, 0

    def parse(body: bytes) -> int:
        nonlocal running, most_at_once
        running += 1
        most_at_once = max(most_at_once, running)
        running -= 1
        return len(body)

    async def bodies() -> list[Any]:
        reader, senders = BodyReader(), [Sender(8 * 1024) for _ in range(100)]
        for sender in senders:
            sender.go_on.set()
        reading = [read(reader, sender, is_trusted=False, parse=parse) for sender in senders]
        found = await asyncio.gather(*reading, return_exceptions=True)
        reader.close()
        return found

    found = asyncio.run(bodies())
    assert most_at_once == 1
    refused = [one for one in found if isinstance(one, QueueFull)]
    assert found.count(8 * 1024) + len(refused) == 100
    assert found.count(8 * 1024) >= 32
    assert refused


@pytest.mark.parametrize(
    ("pieces", "is_taken"), [([b"whole"], True), ([b"in ", b"two"], False), ([None, b"late"], False)]
)
def test_a_small_body_that_has_come_is_taken_at_once_and_another_loses_nothing(
    pieces: list[bytes | None], is_taken: bool
) -> None:
    expected = b"".join(filter(None, pieces))

    async def receive() -> Message:
        if pieces[0] is None:
            pieces.pop(0)
            await asyncio.sleep(0)
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def scenario() -> None:
        headers = {b"content-length": b"%d" % len(expected)}
        body, going_on = take_small_body(headers, receive, MIB)
        assert (body is not None) is is_taken
        assert (body or await read_body(headers, going_on, MIB, lambda _: None)) == expected

    asyncio.run(scenario())


def test_only_a_small_body_is_taken_at_once() -> None:
    async def receive() -> Message:
        raise AssertionError

    large = {b"content-length": b"%d" % (LARGE + 1)}
    for headers in (large, {}, {b"content-length": b"5", b"content-encoding": b"gzip"}):
        assert take_small_body(headers, receive, MIB) == (None, receive)
    assert take_small_body({b"content-length": b"11"}, receive, 10) == (None, receive)
