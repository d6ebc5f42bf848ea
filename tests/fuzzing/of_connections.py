"""The whole application: called with a request, or with the bytes of a connection."""

import asyncio
import re
from functools import cache
from http.client import HTTPResponse
from io import BytesIO
from typing import Any
from urllib.parse import quote_from_bytes, unquote

import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from keywright.http.server.protocol import Protocol
from keywright.http.v2.wire import write_error
from tests.fuzzing.in_process import in_process
from tests.fuzzing.of_requests import loop
from tests.fuzzing.pieces import BREAK, pieces
from tests.http.asking import V2, Reply, read_reply
from tests.http.shape import assert_in_shape, assert_in_shape_of_edd

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_METHOD = re.compile(r"[A-Z]{1,20}")
_OF_PLUGINS = re.compile(rb"/(edd|edd-sl-api)/?(\?|\Z)|/edd-sl/package_download/|/u/")
_PAGES = ("text/html; charset=utf-8", "application/json; charset=UTF-8")
#: How many turns of the event loop whoever waits for the rest of a body has to say that it need not come.
_TURNS = 60
_TIMEOUT = 20.0
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


def requests(data: bytes) -> None:
    """Whatever is asked, there is one answer, of the contract's shape, and no fault."""
    line, lines, how, body = pieces(in_process().filled(data), 4)
    scope = _scope(line, lines)
    replies = in_process().run(_answered(scope, how, body), data)
    if how.startswith(b"gone") and not replies:
        return
    assert len(replies) == 1
    _check(scope["method"], scope["raw_path"] + b"?" + scope["query_string"], replies[0])


def _scope(line: bytes, lines: bytes) -> dict[str, Any]:
    """A request as a server hands it on: its parts are well-formed HTTP, whatever they say."""
    method, _, target = line.decode("latin-1").partition(" ")
    path, _, query = target.partition("?")
    where = path if path.startswith("/") else V2 + path
    raw_path = quote_from_bytes(where.encode("latin-1"), safe="/%!$&'()*+,;=:@[]{}|^`\\\"<>~").encode()
    found = [one.partition(b":")[::2] for one in lines.split(b"\n")]
    headers = [
        (name.lower(), re.sub(rb"[\0-\x08\x0a-\x1f\x7f]", b"", value).strip())
        for name, value in found
        if _TOKEN.fullmatch(name)
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method if _METHOD.fullmatch(method) else "GET",
        "scheme": "http",
        "path": unquote(raw_path.decode()),
        "raw_path": raw_path,
        "query_string": re.sub(rb"[\0-\x20\x7f-\xff#]", b"%", query.encode("latin-1")),
        "root_path": "",
        "headers": headers,
        "client": ("10.1.2.3", 4567),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }


async def _answered(scope: Scope, how: bytes, body: bytes) -> list[Reply]:
    """The answers; the body comes in one piece, or in two, or the client goes away in the middle."""
    half = len(body) // 2 if how else len(body)
    parts: list[Message] = [{"type": "http.request", "body": body[:half], "more_body": bool(how)}]
    if how.startswith(b"gone"):
        parts.append({"type": "http.disconnect"})
    elif how:
        parts.append({"type": "http.request", "body": body[half:], "more_body": False})
    said: list[Message] = []

    async def receive() -> Message:
        if not parts:
            await asyncio.Event().wait()
        return parts.pop(0)

    async def send(message: Message) -> None:
        said.append(message)

    await asyncio.wait_for(in_process().app(scope, receive, send), _TIMEOUT)
    starts = [one for one in said if one["type"] == "http.response.start"]
    pieces_of_body = [one["body"] for one in said if one["type"] == "http.response.body"]
    assert said[0] is starts[0]
    assert not said[-1].get("more_body", False)
    if how.startswith(b"gone") and not any(pieces_of_body):
        # A list that was not sent, because the client has gone.
        return []
    text = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in starts[0]["headers"]]
    return [Reply(one["status"], text, b"".join(pieces_of_body)) for one in starts]


def _check(method: str, target: bytes, reply: Reply) -> None:
    """The answer to one request. ``target`` tells the pages from the interface."""
    _check_head(reply)
    is_page = re.match(rb"/(healthz|readyz|openapi/v[23](\.json)?)?\?", target)
    if reply.status == 200 and is_page:
        assert reply.header("content-type") in _PAGES
    elif method != "HEAD" and not (reply.status == 200 and "namespaces" in reply.json):
        # The index alone has no envelope.
        assert_in_shape(reply)


def _check_head(reply: Reply) -> None:
    """The status and the headers of any answer."""
    assert reply.status < 500, reply
    for name, value in reply.headers:
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert re.search(r"[\0-\x08\x0a-\x1f\x7f]", value) is None


# --- plugins of WordPress, and update frameworks ----------------------------------------------------


def plugin_calls(data: bytes) -> None:
    """A call of EDD, or an address of an update framework, gets one answer, in its shape."""
    line, lines, body = pieces(in_process().filled(data), 3)
    method, _, target = line.partition(b" ")
    if _OF_PLUGINS.match(target) is None:
        target = b"/edd?" + target
    scope = _scope(method + b" " + target, lines)
    [reply] = in_process().run(_answered(scope, b"", body), data)
    _check_head(reply)
    is_of_edd = _OF_PLUGINS.match(scope["raw_path"]) and not scope["raw_path"].startswith(b"/u/")
    if scope["method"] in ("GET", "POST") and is_of_edd:
        assert_in_shape_of_edd(reply.status, reply.body)


# --- connections ------------------------------------------------------------------------------------


class _Pipe(asyncio.Transport):
    """The other end of a connection: keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.1.2.3", 4567), "sockname": ("127.0.0.1", 8000)})
        self.written = b""
        self._is_closing = False

    def write(self, data: Any) -> None:
        # As everywhere, what is written after the end is lost.
        if not self._is_closing:
            self.written += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@cache
def _config() -> uvicorn.Config:
    http: Any = Protocol
    return uvicorn.Config(
        _recording, http=http, ws="none", interface="asgi3", lifespan="off", access_log=False, log_config=None
    )


_asked: list[tuple[str, bytes]] = []


async def _recording(scope: Scope, receive: Receive, send: Send) -> None:
    _asked.append((scope["method"], scope["raw_path"] + b"?" + scope["query_string"]))
    await in_process().app(scope, receive, send)


def connections(data: bytes) -> None:
    """Whatever comes over a connection, in however many parts: every answer is one, and no fault; and
    there is one for every request, and at most one for what is none. Where something malformed follows, the
    answer that closes the connection may come earlier or later (RFC 9112 §9.6).
    """
    parts = [one for one in in_process().filled(data).split(BREAK) if one]
    answers = [in_process().run(_exchanged(sent), data) for sent in (parts, [b"".join(parts)])]
    fewer, more = sorted(answers, key=len)
    assert [one.status for one in fewer] == [one.status for one in more[: len(fewer)]]
    assert len(fewer) == len(more) or fewer[-1].header("connection") == "close"


async def _exchanged(parts: list[bytes]) -> list[Reply]:
    """The answers."""
    _asked.clear()
    pipe, state = _Pipe(), ServerState()
    protocol = Protocol(_config(), state, {}, loop(), write_error=write_error)
    protocol.connection_made(pipe)
    for part in parts:
        if not pipe.is_closing():
            protocol.data_received(part)
    turns = 0
    end = loop().time() + _TIMEOUT
    while state.tasks and (_is_at_work(protocol) or turns < _TURNS):
        assert loop().time() < end, "no answer"
        turns += not _is_at_work(protocol)
        await asyncio.sleep(0)
    protocol.connection_lost(None)
    while state.tasks:
        await asyncio.wait(state.tasks, timeout=_TIMEOUT)
    replies = _replies(pipe.written)
    assert len(replies) <= len(_asked) + 1
    for (method, target), reply in zip([*_asked, ("GET", b"*")], replies, strict=False):
        _check(method, target, reply)
    return replies


def _is_at_work(protocol: Protocol) -> bool:
    """Whether a request that came whole still waits for its answer."""
    running: RequestResponseCycle | None = protocol._running
    return running is not None and protocol._is_answering()


def _replies(written: bytes) -> list[Reply]:
    """The answers one after the other, as a client reads them that asked for their methods."""
    received = _Received(written)
    replies: list[Reply] = []
    while (at := received.tell()) < len(written):
        if written.startswith(_GO_ON, at):
            received.seek(at + len(_GO_ON))
            continue
        method = _asked[len(replies)][0] if len(replies) < len(_asked) else "GET"
        response = HTTPResponse(_Socket(received), method=method)  # type: ignore[arg-type]
        response.begin()
        replies.append(read_reply(response))
    return replies


class _Received(BytesIO):
    def close(self) -> None:
        """There may be another answer."""


class _Socket:
    def __init__(self, received: _Received) -> None:
        self._received = received

    def makefile(self, *_: object) -> _Received:
        return self._received
