"""Which client address is recorded: the peer's, or the one that trusted proxies report."""

import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.http.admin_browser import Visitor, make_users
from tests.http.asking import Client, core, read_reply
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.tables import each_row

PEER = "127.0.0.1"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server behind proxies on this machine and in two networks."""
    proxies = f"{PEER}, 10.0.0.0/8, fd00::/8"
    with running(tmp_path_factory.mktemp("behind") / "data", trusted_proxies=proxies, **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def key(behind: RunningServer) -> str:
    with Client(behind, behind.api_key()) as vendor:
        return vendor.license()


def address(server: RunningServer, key: str, *headers: tuple[str, str]) -> object:
    with Client(server) as program:
        activated = program.ask("GET", core("activate", key), headers=list(headers)).data
        return activated["activationData"]["ip_address"]


@each_row(
    ("header", "expected"),
    [
        (" 203.0.113.9 ", "203.0.113.9"),
        ("2001:0DB8:0:0::9", "2001:db8::9"),
        # With a port, brackets or quotes, as some proxies write it.
        ("203.0.113.9:5678", "203.0.113.9"),
        ("[2001:db8::9]", "2001:db8::9"),
        ("[2001:db8::9]:443", "2001:db8::9"),
        ('"203.0.113.9"', "203.0.113.9"),
        ('"[2001:db8::9]:443"', "2001:db8::9"),
        ("1.1.1.1:1, 203.0.113.9:2, 10.1.2.3:3", "203.0.113.9"),
        ("203.0.113.9:", PEER),
        ("203.0.113.9:http", PEER),
        ("203.0.113.9:123456", PEER),
        ("[2001:db8::9", PEER),
        ('"203.0.113.9', PEER),
        ("[]", PEER),
        # Only the right-most address that is not a proxy's can be trusted.
        ("1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("127.0.0.1, 203.0.113.9", "203.0.113.9"),
        # Proxies behind proxies.
        ("203.0.113.9, 10.1.2.3, 10.255.255.255", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9, 10.1.2.3, 127.0.0.1", "203.0.113.9"),
        ("2001:db8::9, fd12::1, 10.1.2.3", "2001:db8::9"),
        # Only proxies.
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.3, 10.4.5.6", "10.1.2.3"),
        # Anything but an address is ignored, along with everything before it.
        ("", PEER),
        ("unknown", PEER),
        ("203.0.113.9,", PEER),
        ("203.0.113.9, unknown", PEER),
        ("203.0.113.9, 999.1.1.1", PEER),
        ("203.0.113.9 10.1.2.3", PEER),
        ("unknown, 10.1.2.3", "10.1.2.3"),
        ("<script>, 203.0.113.9", "203.0.113.9"),
        ("\xff\xfe", PEER),
        ("x" * 3000, PEER),
    ],
)
def test_forwarded_for_is_read_from_the_right(
    behind: RunningServer, key: str, header: str, expected: str
) -> None:
    assert address(behind, key, ("X-Forwarded-For", header)) == expected


def test_without_the_header_it_is_the_peer(behind: RunningServer, key: str) -> None:
    assert address(behind, key) == PEER


def test_several_headers_are_one_list(behind: RunningServer, key: str) -> None:
    lines = [("X-Forwarded-For", "1.1.1.1, 203.0.113.9"), ("X-Forwarded-For", "10.1.2.3")]
    assert address(behind, key, *lines) == "203.0.113.9"
    assert address(behind, key, *reversed(lines)) == "203.0.113.9"


@each_row(
    "name", ["Forwarded", "X-Real-IP", "X-Client-IP", "CF-Connecting-IP", "True-Client-IP", "X-Forwarded"]
)
def test_other_headers_say_nothing(behind: RunningServer, key: str, name: str) -> None:
    assert address(behind, key, (name, "203.0.113.9")) == PEER
    assert address(behind, key, (name, "for=203.0.113.9")) == PEER


def test_a_peer_that_is_no_trusted_proxy_is_not_believed(tmp_path_factory: pytest.TempPathFactory) -> None:
    data_dir = tmp_path_factory.mktemp("beside") / "data"
    with running(data_dir, trusted_proxies="10.0.0.0/8", **NO_LIMITS) as server:
        with Client(server, server.api_key()) as vendor:
            key = vendor.license()
        assert address(server, key, ("X-Forwarded-For", "203.0.113.9")) == PEER
        assert address(server, key, ("X-Forwarded-For", "203.0.113.9, 10.1.2.3")) == PEER


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_ipv4_address_is_written_as_such_on_a_server_for_both(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data_dir = tmp_path_factory.mktemp("both") / "data"
    with running(data_dir, host="::", trusted_proxies=PEER, **NO_LIMITS) as server:
        with Client(server, server.api_key()) as vendor:
            key = vendor.license()
        assert address(server, key) == PEER
        assert address(server, key, ("X-Forwarded-For", "::ffff:203.0.113.9")) == "203.0.113.9"
        over_ipv6 = HTTPConnection("::1", server.port)
        over_ipv6.request("GET", f"/wp-json/lmfwc/v2/licenses/activate/{key}")
        assert read_reply(over_ipv6.getresponse()).data["activationData"]["ip_address"] == "::1"
        over_ipv6.close()


@pytest.mark.parametrize(
    ("kept", "activated", "of_events"),
    [("short", "203.0.113.0", {"203.0.113.0", "127.0.0.0"}), ("none", "", {""})],
)
def test_no_more_of_an_address_is_stored_than_the_setting_allows(
    tmp_path: Path, kept: str, activated: str, of_events: set[str]
) -> None:
    settings = {"trusted_proxies": PEER, "ip_addresses": kept} | NO_LIMITS
    with running(tmp_path / "data", **settings) as server:
        make_users(server)
        ((last,),) = server.sql("SELECT max(id) FROM events")
        with Client(server, server.api_key()) as vendor:
            key = vendor.license()
        assert address(server, key, ("X-Forwarded-For", "203.0.113.9")) == activated
        with Visitor(server) as ada:
            ada.sign_in("ada")
        found = server.sql("SELECT ip_address FROM events WHERE id > ? AND name NOT LIKE 'api_key.%'", last)
        assert {one for (one,) in found} == of_events
        (session,) = server.sql("SELECT ip_address FROM sessions")
        assert session[0] in of_events
        # The log contains the address.
        wait_until(lambda: "203.0.113.9" in server.log, "the address in the log")


def test_calls_through_a_proxy_that_is_not_trusted_are_told_by_the_log_and_the_doctor(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running(tmp_path_factory.mktemp("blind") / "data") as server, Client(server) as program:
        assert "trusted_proxies" not in server.cli("doctor")
        for _ in range(3):
            assert program.validate("none", headers={"X-Forwarded-For": "203.0.113.9"}).status == 404
        assert server.stop() == 0
        assert server.log.count("trusted_proxies does not name that address") == 1
        said = server.cli("doctor")
        assert "Warning: since yesterday, 3 calls claimed to come through a proxy" in said
        assert "no problems found" in said
