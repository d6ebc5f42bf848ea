"""Anything at all, sent to every page and every address that is not of v2 or v3: no answer is a fault of the
server.
"""

import random
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import httpx
import pytest

from keywright.http.admin.app import SECTIONS
from keywright.http.portal.app import PAGES
from keywright.identity.model import CreateUser, Role
from tests.http.admin_browser import PASSWORD, Visitor, asked, decide
from tests.makers import a_cheap_hash
from tests.portal import make_customer, make_license, make_product
from tests.proving import record, size
from tests.server import NO_LIMITS, RunningServer, running

pytestmark = pytest.mark.tier("rest")
#: What a malicious client sends as any value.
ODD = [
    "",
    "0",
    "-1",
    "1",
    "9" * 40,
    "\0",
    "%",
    "%00",
    "💥" * 99,
    "a" * 3000,
    "' OR 1=1 --",
    "../../etc/passwd",
]
ODD += [
    "<script>",
    "{}",
    "[]",
    "1e309",
    ":::",
    "[::1",
    "//",
    "\r\nX: y",
    "2026-02-30",
    "a@b.c",
    "on",
    "yes",
    "=1",
]
OTHERS = (
    "/",
    "/.well-known/jwks.json",
    "/d/{ticket}/{name}",
    "/edd",
    "/edd-sl/package_download/{ticket}",
    "/healthz",
    "/in/generic/{id}",
    "/in/paddle/{id}",
    "/in/stripe/{id}",
    "/in/woocommerce/{id}",
    "/mail/unsubscribe/{id}/{token}/{language}",
    "/metrics",
    "/offline",
    "/openapi/{version}",
    "/readyz",
    "/u/{token}/{product}/{name}",
)
_NAME, _PARAMETER = re.compile(r'\bname="([^"]+)"'), re.compile(r"\{[^}]*\}")
_numbers = count(1)


class Door(NamedTuple):
    """An address, and the methods that it has."""

    path: str
    methods: tuple[str, ...]


def list_doors() -> list[Door]:
    """All of them, but the one that starts a process for a backup."""
    pages = [
        Door(f"/admin{section.path.rstrip('/')}{one.path}", one.http_methods)
        for section in SECTIONS
        for one in section.pages.values()
        if one.path != "/backup"
    ]
    pages += [Door(f"/portal{one.path}", one.methods) for one in PAGES]
    return [*pages, *(Door(one, ("GET", "POST")) for one in OTHERS)]


class Caller:
    """An administrator who sends anything; one whose session is over is followed by another one."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._visitor = self._sign_in()
        #: Names of fields that were seen in forms.
        self._names = ["q", "license_key", "edd_action", "license", "request"]
        self.found = dict.fromkeys(("cases", "answers 5xx"), 0)
        self.faults: list[str] = []

    def call(self, door: Door) -> None:
        """Call it once, usually as a form of its page would."""
        path = _PARAMETER.sub(
            lambda _: quote(random.choice(["1", "1", "2", random.choice(ODD)]), safe=""), door.path
        )
        method = random.choice([*door.methods, *door.methods, "GET", "POST", "PUT", "HEAD"])
        fields = {random.choice(self._names): random.choice(ODD) for _ in range(random.randrange(5))}
        answer = self._ask(method, path, fields)
        self._names = list({*self._names, *_NAME.findall(answer.text)})
        self.found["cases"] += 1
        if answer.status_code >= 500:
            self.found["answers 5xx"] += 1
            self.faults.append(f"{method} {path} {fields}: {answer.status_code} {answer.text[:200]}")
        if answer.status_code == 303 and "/admin/sign-in" in answer.headers["location"]:
            self.close()
            self._visitor = self._sign_in()

    def close(self) -> None:
        """Hang up."""
        self._visitor.http.close()

    def _ask(self, method: str, path: str, fields: dict[str, str]) -> httpx.Response:
        form = {"csrf_token": self._visitor.form_token} | fields if method == "POST" else None
        headers = {"Origin": self._server.base_url, "Sec-Fetch-Site": "same-origin"}
        answer = self._visitor.http.request(
            method, path, params=None if form else fields, data=form, headers=headers
        )
        # A busy machine: it was not looked at.
        return self._ask(method, path, fields) if answer.headers.get("retry-after") == "1" else answer

    def _sign_in(self) -> Visitor:
        name = f"user-{next(_numbers)}"
        user = asked(name=name, role=Role.ADMINISTRATOR, password_hash=a_cheap_hash(PASSWORD))
        decide(self._server, CreateUser(**user))
        return Visitor(self._server).sign_in(name)


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[RunningServer]:
    """A server with something in it."""
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        fill(server)
        yield server


def fill(server: RunningServer) -> None:
    """A product, a customer and a license, of which each has the ID 1."""
    product, customer = make_product(server), make_customer(server, "ada@example.com")
    make_license(server, "DOOR-1", customer, product_id=product)


def call_all(server: RunningServer, cases: int) -> Caller:
    """So many calls, each address as often as another."""
    caller, doors = Caller(server), list_doors()
    try:
        for number in range(cases):
            caller.call(doors[number % len(doors)])
    finally:
        caller.close()
    return caller


def test_anything_at_all_is_answered_at_every_door(server: RunningServer, database: str) -> None:
    caller = call_all(server, max(len(list_doors()), size(0, 20_000)))
    record("R14", f"every other door, {database}", caller.found)
    assert caller.faults == []
