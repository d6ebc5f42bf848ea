"""Whatever comes in: no answer is a fault of ours, every answer is JSON in the contract's shape."""

import json
import socket
from http.client import HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.asking import (
    V2,
    Client,
    a_key,
    assert_refused,
    core,
    license_path,
    read_reply,
)
from tests.http.shape import Answers, assert_in_shape
from tests.proving import size
from tests.server import RunningServer
from tests.tables import each_row

DATABASES = ("sqlite",)

JSON = {"Content-Type": "application/json"}


HUGE = ["9" * 5000, "1e400", "-1e400", "1e-400", str(2**64), str(-(2**63) - 1), "0." + "1" * 1000]
FIELDS = [
    "license_key",
    "order_id",
    "product_id",
    "user_id",
    "status",
    "expires_at",
    "valid_for",
    "times_activated_max",
    "name",
    "charset",
    "chunks",
    "chunk_length",
    "separator",
    "expires_in",
    "amount",
    "label",
    "meta",
    "token",
]


@each_row("number", HUGE, ids=lambda number: number[:9])
def test_huge_numbers_are_answered(vendor: Client, program: Client, number: str) -> None:
    key = vendor.license()
    path = f"generators/{vendor.post('generators', json_body=GENERATOR).data['id']}"
    for field in FIELDS:
        body = b'{"%b": %b}' % (field.encode(), number.encode())
        for client, address in (
            (program, core("activate", key)),
            (program, core("deactivate", key)),
            (program, core("validate", key)),
            (vendor, "licenses"),
            (vendor, license_path(key)),
            (vendor, "generators"),
            (vendor, path),
            (vendor, f"{path}/generate"),
        ):
            assert_in_shape(client.post(address, body=body, headers=JSON))
    assert_in_shape(vendor.get(f"generators/{number}"))
    assert_in_shape(vendor.get(f"licenses?page={number}&per_page={number}&order_id={number}"))


GENERATOR = {"name": "g", "charset": "ABCDEFGH01234567", "chunks": 4, "chunk_length": 8, "prefix": "CANARY"}
ODD_TEXTS = [
    b'"\\u0000"',
    b'"a\\u0000b"',
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\xff\xfe"',
    b'"\xc3\x28"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xef\xbb\xbf"',
    b'"\\u202e"',
    b'"' + b"x" * 70_000 + b'"',
    b'"' + b"\\n" * 300 + b'"',
    b'"{e.key}"',
    b'"%s%n"',
    b"[]",
    b"{}",
    b"[[[]]]",
    b"null",
    b"true",
    b"-0",
    b"0.0",
    b'{"a":{"a":{"a":{}}}}',
]


@each_row("value", ODD_TEXTS, ids=lambda value: repr(value[:12]))
def test_odd_values_of_every_parameter_are_answered(vendor: Client, program: Client, value: bytes) -> None:
    key = vendor.license()
    number = vendor.post("generators", json_body=GENERATOR).data["id"]
    for field in FIELDS:
        body = b'{"%b": %b}' % (field.encode(), value)
        for client, address in (
            (program, core("activate", key)),
            (program, core("validate", key)),
            (vendor, "licenses"),
            (vendor, license_path(key)),
            (vendor, f"generators/{number}"),
            (vendor, f"generators/{number}/generate"),
        ):
            assert_in_shape(client.post(address, body=body, headers=JSON))


def test_names_of_parameters_may_be_anything(vendor: Client, program: Client) -> None:
    key = vendor.license()
    for name in (
        "",
        "\0",
        "__proto__",
        "constructor",
        "meta[",
        "meta]",
        "meta[][]",
        "meta[a][b]",
        "x" * 5000,
        "🔑",
    ):
        assert_in_shape(program.post(core("activate", key), json_body={name: "x"}))
        assert_in_shape(program.post(core("activate", key), form={name: "x"}))
        assert_in_shape(program.get(core("validate", key), query={name: "x"}))
        reply = vendor.put(license_path(key), json_body={name: "x"})
        assert_refused(reply, "The license key could not be updated.")


@each_row(
    "query",
    [
        "%",
        "%zz",
        "%00",
        "=",
        "&",
        "&&&",
        "a",
        "a=%ff",
        "meta[a]=b&meta=x",
        "meta=x&meta[a]=b",
        "meta[a]=b&meta[a]=c",
        "label=a&label=b",
        "label[]=a",
        "token=%00",
        "token=%ff",
        ";",
        "?",
        "???",
    ],
)
def test_odd_queries_are_answered(vendor: Client, program: Client, query: str) -> None:
    key = vendor.license()
    for call in ("activate", "validate", "deactivate"):
        assert_in_shape(program.get(core(call, key), query=query))
        assert_in_shape(program.post(core(call, key), form=query))
    assert_in_shape(vendor.get("licenses", query=f"{query}&per_page=1"))


@each_row(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=", b"x"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"--b"),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\n"),
        ("multipart/form-data; boundary=b", b"--c\r\n\r\nx\r\n--c--\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="label"\r\n\r\n\xff\r\n--b--\r\n',
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="label"; filename="x"\r\n\r\nx\r\n--b--\r\n',
        ),
        (
            "multipart/form-data; boundary=b; charset=nonsense",
            b'--b\r\nContent-Disposition: form-data; name="label"\r\n\r\nx\r\n--b--\r\n',
        ),
        ("multipart/form-data; boundary=" + "b" * 3000, b"x"),
        ("application/x-www-form-urlencoded", b"label=%ff&\xff=\xfe"),
        ("application/x-www-form-urlencoded; charset=utf-16", b"l\0a\0b\0e\0l\0"),
        ("application/json; charset=utf-16", '{"label": "x"}'.encode("utf-16")),
        ("application/json", b"\xef\xbb\xbf{}"),
        (
            "text/xml",
            b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]><x>&y;</x>",
        ),
        ("application/octet-stream", bytes(range(256))),
        ("\xff", b"\xff"),
        (";", b"x"),
        ("application/json", b'{"a":1,"a":2}'),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_odd_bodies_are_answered(vendor: Client, program: Client, kind: str, body: bytes) -> None:
    key = vendor.license()
    for client, path in ((program, core("activate", key)), (vendor, "licenses"), (vendor, license_path(key))):
        assert_in_shape(client.post(path, body=body, headers={"Content-Type": kind}))


@pytest.mark.smoke
def test_texts_come_back_as_they_went_in(vendor: Client, program: Client) -> None:
    key = vendor.license()
    for text in (
        "<script>alert(1)</script>",
        "=1+1",
        "'; DROP TABLE licenses; --",
        '"\\',
        "\r\nX: y",
        "\u2028",
        "{e.key}",
    ):
        activation = program.post(core("activate", key), json_body={"label": text, "meta": {text: text}})
        assert activation.data["activationData"]["label"] == text
        assert activation.data["activationData"]["meta_data"] == {text: text}
    assert not any("\r\nX: y" in f"{name}: {value}" for name, value in program.validate(key).headers)


# Whatever msgspec, json and SQLite think of as text, and some that they do not.
TEXTS = st.text(st.characters(), max_size=40)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ADDRESSES = [
    "licenses",
    "licenses/activate/{key}",
    "licenses/deactivate/{key}",
    "licenses/validate/{key}",
    "licenses/{key}",
    "generators",
    "generators/1",
    "generators/1/generate",
]


def test_anything_at_all_is_answered(database: str, vendor: Client) -> None:
    answers = Answers()

    # A few at a time: hypothesis remembers them.
    @settings(max_examples=200, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]),
        address=st.sampled_from(ADDRESSES),
        query=st.dictionaries(st.sampled_from([*FIELDS, "page", "per_page"]) | TEXTS, TEXTS, max_size=3),
        body=st.dictionaries(st.sampled_from(FIELDS) | TEXTS, VALUES, max_size=4)
        | VALUES
        | st.binary(max_size=60),
        key=TEXTS | st.just(a_key()),
    )
    def ask(method: str, address: str, query: dict[str, str], body: Any, key: str) -> None:
        reply = vendor.ask(
            method,
            address.format(key=quote(key, safe="", errors="surrogatepass")),
            query=urlencode(query, errors="surrogatepass"),
            body=body if isinstance(body, bytes) else json.dumps(body).encode(),
            headers=JSON,
        )
        problem = answers.problem_of(reply, has_body=method != "HEAD")
        assert problem is None, problem

    try:
        while answers.found["cases"] < size(200, 20_000):
            ask()
    finally:
        answers.record(f"{database}, anything at all")


CHUNKED = "Host: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def asked_with_a_malformed_body(
    server: RunningServer, method: str, path: str, headers: str = ""
) -> tuple[int, bytes]:
    """The status and the body of what comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(f"{method} {V2}{path} HTTP/1.1\r\n{headers}{CHUNKED}nonsense\r\n".encode())
        with connection.makefile("rb") as received:
            head, _, body = received.read().partition(b"\r\n\r\n")
    assert head.count(b"HTTP/1.1") == 1
    return int(head.split()[1]), body


def test_a_request_that_is_refused_as_malformed_changes_nothing(
    server: RunningServer, vendor: Client
) -> None:
    # The body of a GET without a Content-Type is not read.
    kind = "Content-Type: application/json\r\n"
    for method, said, status, taken in (("GET", "", 200, 1), ("GET", kind, 400, 0), ("POST", "", 400, 0)):
        key = vendor.license()
        assert asked_with_a_malformed_body(server, method, core("activate", key), said)[0] == status
        assert vendor.counter(key) == taken


def test_an_answer_to_head_has_no_body_whatever_is_wrong(server: RunningServer) -> None:
    assert asked_with_a_malformed_body(server, "HEAD", "licenses") == (401, b"")


def test_a_request_is_answered_once_even_if_the_rest_of_its_body_is_malformed(server: RunningServer) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection,
        connection.makefile("rb") as received,
    ):
        connection.sendall(f"POST {V2}licenses HTTP/1.1\r\n{CHUNKED}".encode())
        response = HTTPResponse(connection, method="POST")
        response.begin()
        assert read_reply(response).status == 401
        connection.sendall(b"nonsense\r\n")
        # Another would be taken for the answer to the next request.
        assert received.read() == b""


def test_the_server_is_still_well(server: RunningServer, program: Client) -> None:
    assert program.get("/readyz").status == 200
    server.assert_consistent()
