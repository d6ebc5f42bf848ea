"""The client's address of a call, and calls through proxies that the settings do not name."""

import logging
from typing import Any

import pytest

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.config.values import Network
from keywright.http.middleware.call import Call
from keywright.http.middleware.client_address import ClientAddresses
from keywright.http.v2.interface import V2

NOTHING: Any = None
PEER = "192.0.2.1"


def call_three_times(headers: dict[bytes, bytes], *trusted: Network) -> tuple[Call, Counters]:
    """Return the last of three calls with these headers, and the counters."""
    counters = Counters()
    addresses = ClientAddresses(trusted, "full", counters)
    for _ in range(3):
        scope = {"method": "GET", "client": (PEER, 5), "headers": list(headers.items())}
        call = Call(V2(Settings(), NOTHING), scope, NOTHING, None)
        addresses.find(call)
    return call, counters


@pytest.mark.parametrize("name", [b"x-forwarded-for", b"forwarded", b"x-real-ip"])
def test_a_proxy_that_is_not_trusted_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture, name: bytes
) -> None:
    with caplog.at_level(logging.WARNING):
        call, counters = call_three_times({name: b"203.0.113.9"})
    assert (call.client_address, call.is_behind_unknown_proxy, counters.forwarded_blindly) == (PEER, True, 3)
    (warning,) = caplog.messages
    assert PEER in warning
    assert "trusted_proxies" in warning


def test_a_trusted_proxy_and_a_direct_call_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    trusted = Settings(trusted_proxies=f"{PEER}").trusted_proxies  # type: ignore[arg-type]
    for headers, address in (({b"x-forwarded-for": b"203.0.113.9"}, "203.0.113.9"), ({}, PEER)):
        call, counters = call_three_times(headers, *trusted)
        found = (call.client_address, call.is_behind_unknown_proxy, counters.forwarded_blindly)
        assert found == (address, False, 0)
    assert caplog.messages == []


@pytest.mark.parametrize(("keeps", "kept"), [("full", PEER), ("short", "192.0.2.0"), ("none", "")])
def test_the_setting_says_how_much_of_the_address_is_kept(keeps: Any, kept: str) -> None:
    call = Call(V2(Settings(), NOTHING), {"method": "GET", "client": (PEER, 5), "headers": []}, NOTHING, None)
    ClientAddresses((), keeps, Counters()).find(call)
    assert (call.client_address, call.kept_address) == (PEER, kept)
