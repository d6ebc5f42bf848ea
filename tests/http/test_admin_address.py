"""The pages are served at all addresses, at a separate address, or not at all."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.asking import Client, assert_refused, raw
from tests.server import RunningServer, running

NO_ROUTE = "No route was found matching the URL and request method."
PAGES = ("/admin", "/admin/", "/admin/sign-in", "/admin/setup?token=x", "/admin/statics/x.css", "//admin/")


class AdminSide(RunningServer):
    """The same server at the address of its pages."""

    def __init__(self, server: RunningServer) -> None:
        self.port = pages_port(server)


def pages_port(server: RunningServer) -> int:
    """The port that the server announces for its pages."""
    return int(re.findall(r'"pages":"http://127\.0\.0\.1:(\d+)/admin"', server.log)[-1])


def assert_nowhere(client: Client) -> None:
    for path in PAGES:
        assert_refused(client.get(path), NO_ROUTE, code="rest_no_route")
        assert client.post(path).status in (404, 405)
    assert b"/admin" not in client.get("/").body.replace(b'"admin"', b"/admin")


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose pages have a separate address."""
    with running(tmp_path_factory.mktemp("split") / "data", admin_address="127.0.0.1:0") as server:
        yield server


DATABASES = ("sqlite",)


def test_the_pages_are_served_at_their_own_address_alone(split: RunningServer) -> None:
    with Client(split) as public, Client(AdminSide(split)) as private:
        assert_nowhere(public)
        assert private.get("/admin").status == 303
        assert private.get("/admin/setup?token=x").header("content-type") == "text/html; charset=utf-8"
        assert b'"admin"' in private.get("/").body
        # Everything else is the same.
        for client in (public, private):
            assert client.get("/readyz").status == 200
            assert client.validate("K").status == 404
            assert client.get("licenses").status == 401


def test_a_host_header_does_not_lead_to_the_pages(split: RunningServer) -> None:
    host = f"127.0.0.1:{pages_port(split)}"
    request = f"GET /admin/ HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: {host}\r\n\r\n"
    assert_refused(raw(split, request.encode()), NO_ROUTE, code="rest_no_route")


def test_the_link_for_the_first_administrator_leads_to_the_address_of_the_pages(split: RunningServer) -> None:
    assert f"http://127.0.0.1:{pages_port(split)}/admin/setup?token=" in split.log
    assert f"http://127.0.0.1:{split.port}/admin" not in split.log


def test_switched_off_pages_are_nowhere_and_no_link_leads_there(tmp_path: Path) -> None:
    settings = {"admin": "false", "admin_address": "127.0.0.1:0"}
    with running(tmp_path / "data", **settings) as server, Client(server) as client:
        assert '"pages":"none (admin = false)"' in server.log
        assert "/admin" not in server.log
        assert_nowhere(client)
        assert client.get("/readyz").status == 200


def test_both_addresses_end_with_the_server(tmp_path: Path) -> None:
    with running(tmp_path / "data", admin_address="127.0.0.1:0") as server:
        ports = (server.port, pages_port(server))
        with Client(server) as client:
            client.get("/healthz")
        assert server.stop() == 0
        for port in ports:
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AssertionError, match=f"Cannot listen on {address}.*another admin_address"):
            running(tmp_path / "data", admin_address=address).__enter__()


@pytest.mark.databases("postgresql")
def test_every_worker_serves_the_pages_at_their_address_alone(tmp_path: Path, database: str) -> None:
    with running(tmp_path / "data", database, workers=2, admin_address="127.0.0.1:0") as server:
        for _ in range(8):
            with Client(server) as public, Client(AdminSide(server)) as private:
                assert public.get("/admin/").status == 404
                assert private.get("/admin").status == 303
        assert server.stop() == 0
