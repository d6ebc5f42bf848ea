"""What comes with a request: its path, query, body and headers, and who sends it."""

import asyncio
import ipaddress
import re
from contextlib import suppress
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.types import Message

from keywright.config import Settings
from keywright.core.command import Context, Origin
from keywright.core.errors import InvalidParameters, KeywrightError
from keywright.http.middleware import authentication
from keywright.http.middleware import body as body_module
from keywright.http.middleware import client_address as addresses
from keywright.http.middleware.call import Call
from keywright.http.middleware.idempotency import add_idempotency_key
from keywright.http.server import sockets
from keywright.http.v2 import licenses, parameters, routes
from keywright.http.v2.interface import V2
from keywright.licensing.activations.model import DeactivateAll
from tests.fuzzing.pieces import pieces, text
from tests.makers import NOW

BODY_LIMIT = 2000
_MAX_NAMES = 1000
_TRUSTED = tuple(map(ipaddress.ip_network, ("127.0.0.1", "10.0.0.0/8", "fd00::/8")))


@cache
def loop() -> asyncio.AbstractEventLoop:
    """The one event loop of all harnesses; ``close_loop`` closes it."""
    return asyncio.new_event_loop()


def close_loop() -> None:
    loop().close()
    loop.cache_clear()


def paths(data: bytes) -> None:
    """Every word of a path has one meaning, which can be written; so does a route in the query."""
    words = routes.decode_words([word for word in data.split(b"/") if word])
    for word in words:
        assert routes.to_text(word).encode().decode() == routes.to_text(word)
        assert routes.decode_words([quote(word, safe="", errors="surrogateescape").encode()]) == [word]
    _, key = _interface()._find_address(words)
    assert key == "" or key in words
    below = routes.join_key(routes.parse_rest_route(data))
    assert below[:1] != ["licenses"] or len(below) <= 3


def queries(data: bytes) -> None:
    """A query has texts and one object of texts; what is read of it is read, or refused."""
    try:
        asked = parameters.parse_query(data)
    except KeywrightError:
        return
    assert len(asked) <= _MAX_NAMES
    for name, value in asked.items():
        assert isinstance(value, str | list) or (
            name == "meta" and all(isinstance(one, str) for one in value.values())
        )
    for read in (licenses._filter, _page, lambda asked: authentication.read_credentials(asked, [])):
        with suppress(KeywrightError):
            read(asked)
    call = _call({"query_string": data, "raw_path": b"//wp-json/lmfwc/v2/licenses"})
    link = licenses._address_of_page(call, 7)
    assert re.fullmatch(r"/[^/<>\s][!-;=?-~]*", link)
    names = [name for name, _ in parse_qsl(link.partition("?")[2], keep_blank_values=True)]
    assert names.count("page") == 1
    assert not {"consumer_key", "consumer_secret"} & set(names)


def credentials(data: bytes) -> None:
    """A pair of credentials is two texts, and means the same wherever it stands."""
    query, *headers = pieces(data, 3)
    try:
        found = authentication.read_credentials(
            parameters.parse_query(query), [one for one in headers if one]
        )
    except KeywrightError:
        return
    if found is not None:
        key, secret = found
        assert key
        assert secret
        in_query = {"consumer_key": key, "consumer_secret": secret}
        assert authentication.read_credentials(in_query, []) == found


def client_addresses(data: bytes) -> None:
    """Whoever is no trusted proxy is whom the connection is from; others are an address or that."""
    peer, *lines = pieces(data, 3)
    said = [line for line in lines if line]
    address = addresses.client_address(text(peer), said, _TRUSTED)
    direct = addresses.client_address(text(peer), [], _TRUSTED)
    assert addresses.client_address(text(peer), said, ()) == direct
    sockets.source_of(address)
    if address != direct:
        assert str(ipaddress.ip_address(address)) == address
        assert "%" not in address
        assert re.sub(r"\s", "", address) == address


def idempotency_keys(data: bytes) -> None:
    """An idempotency key is visible ASCII, and belongs to its license."""
    is_one = re.fullmatch(rb"[!-~]{1,255}", data) is not None
    command = DeactivateAll(context=Context(NOW, Origin("program", "", "")), license="KEY-1")
    try:
        retry = add_idempotency_key(command, data, None, "KEY-1", _kept).idempotency
    except InvalidParameters:
        assert not is_one
        return
    assert is_one
    other = add_idempotency_key(command, data, None, "KEY-2", _kept).idempotency
    assert retry is not None
    assert other is not None
    assert len(retry.scope) == len(retry.request_digest) == 32
    assert other.scope != retry.scope


def _kept(_outcome: Any) -> tuple[int, bytes]:
    return 200, b""


def bodies(data: bytes) -> None:
    """A body means the same in however many parts it comes, and is within its limit."""
    kind, encoding, part, body = pieces(data, 4)
    headers = {b"content-type": kind} if kind else {}
    if encoding:
        headers[b"content-encoding"] = encoding
    size = int(part) if re.fullmatch(rb"[1-9][0-9]{0,3}", part) else 7
    whole, in_parts = _read(headers, body, len(body) or 1), _read(headers, body, size)
    assert whole == in_parts
    assert not isinstance(whole, dict) or len(body) <= BODY_LIMIT


def _read(headers: dict[bytes, bytes], body: bytes, size: int) -> Any:
    """What is read of the body, or the class of the refusal."""
    parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]

    async def receive() -> Message:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    try:
        body = loop().run_until_complete(body_module.read_body(headers, receive, BODY_LIMIT, _hold))
        return parameters.parse_body(headers.get(b"content-type", b""), body)
    except KeywrightError as refusal:
        return type(refusal)


def _hold(size: int) -> None:
    assert size >= 0


def _page(asked: parameters.Parameters) -> None:
    numbers = parameters.read(asked, {"page": licenses._page_number, "per_page": licenses._page_size})
    assert all(number >= 1 for number in numbers.values())


def _call(scope: dict[str, Any]) -> Call:
    receive: Any = None
    return Call(_interface(), {"method": "GET", "headers": [], **scope}, receive, None)


@cache
def _interface() -> V2:
    desk: Any = None
    return V2(Settings(), desk)
