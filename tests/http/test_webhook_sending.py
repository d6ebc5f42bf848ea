"""Requests to receivers that hang, redirect, send too much or have misleading addresses."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from keywright.delivery.webhooks import sending
from keywright.delivery.webhooks.sending import Answer, Sender, SendingFailed
from tests.clients.certificates import Authority
from tests.receiver import Reply, receiving
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
HERE = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def send(url: str, *, allowed: Any = HERE, times: int = 1, **fields: Any) -> list[Answer]:
    async def run() -> list[Answer]:
        sender = Sender(url, allowed, **fields)
        try:
            return [await sender.send({"webhook-id": "msg_1"}, b"{}") for _ in range(times)]
        finally:
            sender.close()

    return asyncio.run(run())


def test_a_request_arrives_whole_and_its_answer_comes_back() -> None:
    with receiving(lambda _: Reply(201, b"thanks", (("Retry-After", "7"),))) as receiver:
        (answer,) = send(f"{receiver.url}?token=1")
    assert answer == (201, "thanks", "7")
    (request,) = receiver.received
    assert request.path == "/hooks?token=1"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.headers["webhook-id"] == "msg_1"
    assert request.body == b"{}"


def test_connections_are_kept_and_made_again_when_they_were_closed() -> None:
    with receiving() as receiver:
        assert len(send(receiver.url, times=3)) == 3
        assert receiver.connections == 1
        receiver.answer = lambda _: Reply(headers=(("Connection", "close"),))
        assert len(send(receiver.url, times=2)) == 2
        assert receiver.connections == 3


def test_redirects_are_answers_and_are_not_followed() -> None:
    with receiving() as inner, receiving(lambda _: Reply(302, b"", (("Location", inner.url),))) as receiver:
        (answer,) = send(receiver.url)
    assert answer.status == 302
    assert inner.received == []


def test_only_the_beginning_of_a_long_answer_is_read() -> None:
    with receiving(lambda _: Reply(200, b"x" * 10_000_000)) as receiver:
        (answer,) = send(receiver.url)
    assert answer.status == 200
    assert len(answer.text) <= sending.MAX_ANSWER


@each_row(
    "raw",
    [
        *(b"", b"220 mail.example.com ESMTP\r\n", b"HTTP/1.1 2", b"\0" * 100),
        *(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000),
    ],
)
def test_what_is_no_answer_and_a_header_without_an_end_is_a_failure(raw: bytes) -> None:
    with receiving(lambda _: Reply(raw=raw)) as receiver, pytest.raises(SendingFailed):
        send(receiver.url)


def test_an_informational_answer_comes_before_the_answer() -> None:
    raw = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok"
    with receiving(lambda _: Reply(raw=raw)) as receiver:
        (answer,) = send(receiver.url)
    assert (answer.status, answer.text) == (202, "ok")


def test_a_receiver_that_hangs_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "TIMEOUT", 0.3)
    failing = pytest.raises(SendingFailed, match="no answer within 0 seconds")
    with receiving(lambda _: Reply(hangs=True)) as receiver, failing:
        send(receiver.url)


def test_a_receiver_that_is_not_there_is_a_failure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SendingFailed):
        send(f"http://127.0.0.1:{port}/")
    with pytest.raises(SendingFailed, match="unknown"):
        send("https://no-such-host.invalid/")


# --- addresses that are refused -------------------------------------------------------------------


@each_row(
    "host",
    [
        *("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "017700000001", "0177.0.0.1"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0", "[::]"),
    ],
)
def test_forms_of_this_machine_are_refused(host: str) -> None:
    with receiving() as receiver:
        with pytest.raises(SendingFailed, match=r"not a public address|unknown"):
            send(f"http://{host}:{receiver.port}/", allowed=())
        assert receiver.connections == 0


def test_names_that_lead_to_private_addresses_are_refused() -> None:
    for found in (["169.254.169.254"], ["8.8.8.8", "127.0.0.1"]):
        with pytest.raises(SendingFailed, match="not a public address"):
            send("https://rebound.example/", allowed=(), resolve=resolver(found))


def test_the_connection_goes_to_the_very_address_that_was_checked() -> None:
    """Resolving the name again for the connection could yield another address."""
    asked: list[str] = []

    async def resolve(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with receiving() as receiver:
        send(f"http://elsewhere.example:{receiver.port}/", resolve=resolve)
    assert asked == ["elsewhere.example"]
    assert receiver.received[0].headers["host"] == f"elsewhere.example:{receiver.port}"


@pytest.mark.tier("rest")
def test_a_name_server_that_answers_each_time_something_else_leads_nowhere(tmp_path: Path) -> None:
    """DNS rebinding with a real name server, in a separate network without a route out; this machine's own
    addresses are refused whenever the name resolves to them.
    """
    words = ["unshare", "--map-root-user", "--mount", "--net", sys.executable, "-m", "tests.http.rebinding"]
    if any(shutil.which(one) is None for one in ("unshare", "ip", "mount")):
        pytest.skip("needs unshare, ip and mount")
    done = subprocess.run([*words, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT)
    if "unshare" in done.stderr:
        pytest.skip(f"no namespaces: {done.stderr[:100]}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["connections"] == 0
    assert "sent" not in found["problems"]
    # Sometimes, the name resolves to this machine.
    assert any("is not a public address" in one for one in found["problems"]), found


def resolver(found: list[str]) -> sending.Resolve:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return found

    return resolve


# --- TLS ------------------------------------------------------------------------------------------


def test_tls_verifies_the_host_name_and_not_the_address(tmp_path: Path) -> None:
    authority, here = Authority("An authority"), resolver(["127.0.0.1"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.certify(tmp_path, names=[x509.DNSName("hooks.example")]))
    client = ssl.create_default_context(cafile=str(authority.write(tmp_path / "authority.pem")))
    with receiving(tls=server) as receiver:
        (answer,) = send(f"https://hooks.example:{receiver.port}/", resolve=here, tls=client)
        assert answer.status == 200
        for url in (f"https://other.example:{receiver.port}/", f"https://127.0.0.1:{receiver.port}/"):
            with pytest.raises(SendingFailed, match="TLS"):
                send(url, resolve=here, tls=client)
        with pytest.raises(SendingFailed, match="TLS"):
            send(f"https://hooks.example:{receiver.port}/", resolve=here)
        assert len(receiver.received) == 1
