"""Ask a server, byte for byte what the test says, and compare what it answers."""

import base64
import json
import re
import secrets
import selectors
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode

from tests.server import RunningServer
from tests.v2_document import require_documented

V2 = "/wp-json/lmfwc/v2/"
#: In every key that a test makes. No mask shows it, so it must never be in a log.
CANARY = "CANARY"

Json = Any


class Reply(NamedTuple):
    """What came back. Names of headers are in lower case."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)

    @property
    def data(self) -> Json:
        """The ``data`` of a success."""
        body = self.json
        assert (self.status, body["success"]) == (200, True), body
        return body["data"]

    @property
    def message(self) -> str:
        """The sentence of a failure."""
        return str(self.json["message"])

    def header(self, name: str) -> str | None:
        values = [value for one, value in self.headers if one == name]
        assert len(values) <= 1, f"{name} more than once: {values}"
        return values[0] if values else None


class Client:
    """One connection to a server; paths go out exactly as they are given."""

    def __init__(
        self, server: RunningServer, credentials: tuple[str, str] | None = None, *, root: str = V2
    ) -> None:
        self._server = server
        self._root = root
        self._connection: HTTPConnection | None = None
        self.credentials = credentials

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: str | Mapping[str, Any] = "",
        form: str | Mapping[str, Any] | None = None,
        json_body: Json = None,
        multipart: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """Paths without a leading slash are below v2. ``None`` is sent as JSON with ``body=b"null"``."""
        sent = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        if form is not None:
            body = (form if isinstance(form, str) else urlencode(form)).encode()
            sent.append(("Content-Type", "application/x-www-form-urlencoded"))
        elif json_body is not None:
            body = json.dumps(json_body).encode()
            sent.append(("Content-Type", "application/json"))
        elif multipart is not None:
            body = _multipart(multipart)
            sent.append(("Content-Type", "multipart/form-data; boundary=the-boundary"))
        if body is not None:
            sent.append(("Content-Length", str(len(body))))
        if self.credentials is not None and "Authorization" not in dict(sent):
            sent.append(("Authorization", basic(*self.credentials)))
        asked = query if isinstance(query, str) else urlencode(query)
        target = path if path.startswith("/") else self._root + path
        reply = self._send(method, f"{target}?{asked}" if asked else target, sent, body)
        # What a proxy answers by itself is no JSON.
        is_ours = "application/json" in (reply.header("content-type") or "")
        if is_ours and target == V2 + path and "_method" not in asked:
            require_documented(method, path, reply.status, reply.body)
        return reply

    def get(self, path: str, **given: Any) -> Reply:
        return self.ask("GET", path, **given)

    def post(self, path: str, **given: Any) -> Reply:
        return self.ask("POST", path, **given)

    def put(self, path: str, **given: Any) -> Reply:
        return self.ask("PUT", path, **given)

    def delete(self, path: str, **given: Any) -> Reply:
        return self.ask("DELETE", path, **given)

    # The calls that tests need all the time.

    def activate(self, key: str, token: str | None = None, **given: Any) -> Reply:
        return self.get(core("activate", key), **_with_token(token, given))

    def deactivate(self, key: str, token: str | None = None, **given: Any) -> Reply:
        return self.get(core("deactivate", key), **_with_token(token, given))

    def validate(self, key: str, token: str | None = None, **given: Any) -> Reply:
        return self.get(core("validate", key), **_with_token(token, given))

    def license(self, **fields: Any) -> str:
        """Make a license with these fields, and return its key."""
        created = self.post("licenses", json_body={"license_key": a_key(), **fields})
        return str(created.data["licenseKey"])

    def activated(self, key: str) -> str:
        """Take a place, and return its token."""
        return str(self.activate(key).data["activationData"]["token"])

    def counter(self, key: str) -> int:
        return int(self.validate(key).data["timesActivated"])

    def _send(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes | None) -> Reply:
        connection = self._opened()
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders(body)
        return read_reply(connection.getresponse())

    def _opened(self) -> HTTPConnection:
        connection = self._connection
        # Readable before anything was asked: the server has closed it.
        if connection is not None and connection.sock is not None:
            if connection.port == self._server.port and not _is_readable(connection.sock):
                return connection
            connection.close()
        self._connection = HTTPConnection("127.0.0.1", self._server.port, timeout=30)
        return self._connection


def _is_readable(sock: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _with_token(token: str | None, given: dict[str, Any]) -> dict[str, Any]:
    return given if token is None else {"query": {"token": token}, **given}


def read_reply(response: HTTPResponse) -> Reply:
    headers = [(name.lower(), value) for name, value in response.getheaders()]
    return Reply(response.status, headers, response.read())


def raw(server: RunningServer, request: bytes, method: str = "GET") -> Reply:
    """Send these bytes on a connection of their own."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request)
        response = HTTPResponse(connection, method=method)
        response.begin()
        return read_reply(response)


def _multipart(fields: Mapping[str, str]) -> bytes:
    parts = (
        f'--the-boundary\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    return ("".join(parts) + "--the-boundary--\r\n").encode()


def a_key(odd: str = "") -> str:
    """A license key that nobody has."""
    return f"{CANARY}{odd}-{secrets.token_hex(6).upper()}"


def core(call: str, key: str) -> str:
    """The address of a core call."""
    return f"licenses/{call}/{quote(key, safe='')}"


def license_path(key: str) -> str:
    return f"licenses/{quote(key, safe='')}"


def basic(consumer_key: str, consumer_secret: str) -> str:
    return "Basic " + base64.b64encode(f"{consumer_key}:{consumer_secret}".encode()).decode()


def in_query(credentials: tuple[str, str]) -> dict[str, str]:
    return dict(zip(("consumer_key", "consumer_secret"), credentials, strict=True))


# --- what to expect -------------------------------------------------------------------------------


class _Matching:
    """Equal to every text that the pattern matches whole."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and re.fullmatch(self._pattern, other) is not None

    def __repr__(self) -> str:
        return f"<like {self._pattern}>"


class _JustNow(_Matching):
    """Equal to every moment of the last minute, written as the contract says."""

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and abs(datetime.now(UTC) - moment(str(other))) < timedelta(minutes=1)

    __hash__ = None


class _WholeNumber:
    """Equal to every positive integer."""

    def __eq__(self, other: object) -> bool:
        return type(other) is int and other > 0

    def __repr__(self) -> str:
        return "<positive integer>"

    __hash__ = None  # type: ignore[assignment]


JUST_NOW: Any = _JustNow(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
A_TOKEN: Any = _Matching("[0-9a-f]{40}")
A_SENTENCE: Any = _Matching(r"[A-Z][^{}<>\"]{8,120}\.")
AN_ID: Any = _WholeNumber()
DIGITS: Any = _Matching("[1-9][0-9]*")


def moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)


def written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def in_order(value: Json) -> Json:
    """The same with objects as pairs, so that order counts, and true and 1.0 are not 1."""
    if isinstance(value, dict):
        return [(name, in_order(one)) for name, one in value.items()]
    if isinstance(value, list):
        return ["array", *(in_order(one) for one in value)]
    return (type(value).__name__, value) if isinstance(value, bool | float) else value


def assert_success(reply: Reply, data: Json) -> None:
    """The whole answer is this, in this order and with these types."""
    expected = {"success": True, "data": data}
    assert (reply.status, in_order(reply.json)) == (200, in_order(expected)), f"{reply}\n{expected}"


def assert_refused(
    reply: Reply,
    message: str,
    *,
    code: str = "lmfwc_rest_data_error",
    status: int = 404,
    params: Json = None,
) -> None:
    """The whole answer is this failure."""
    data: dict[str, Any] = {"status": status}
    if params is not None:
        data["params"] = params
    data |= {"errors": {code: [message]}, "error_data": {code: {"status": status}}}
    expected = {"success": False, "code": code, "message": message, "data": data}
    assert (reply.status, in_order(reply.json)) == (status, in_order(expected)), f"{reply}\n{expected}"
    assert_common_headers(reply)


def assert_invalid(reply: Reply, *names: str) -> None:
    """400, with these parameters named and a reason given for each."""
    assert reply.status == 400, reply.body
    reasons = reply.json["data"]["params"]
    assert list(reasons) == list(names), reasons
    assert all(isinstance(reason, str) and reason for reason in reasons.values())
    message = f"Invalid parameter(s): {', '.join(names)}"
    assert_refused(reply, message, code="rest_invalid_param", status=400, params=reasons)


def assert_common_headers(reply: Reply) -> None:
    """What every answer carries."""
    assert reply.header("content-type") == "application/json; charset=UTF-8"
    assert reply.header("cache-control") == "no-store"
    assert reply.header("x-content-type-options") == "nosniff"
