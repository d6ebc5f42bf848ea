"""Who else asks a server while it runs on: holders of leases, a shop, visitors of the portal and of the
administration pages.
"""

import json
import secrets
from collections.abc import Sequence
from contextlib import closing
from itertools import cycle
from typing import Protocol

from keywright.background.loops import read_clock
from keywright.registry import open_executor
from tests.connections import connect, do
from tests.deploy.plain import sale_of
from tests.http.admin_browser import Visitor, make_users
from tests.http.asking import Reply
from tests.makers import create, create_endpoint, create_policy, set_terms
from tests.server import RunningServer
from tests.soak.customers import Wish

#: The event of which the receiver of webhooks is told: shops and customers make licenses.
TOLD = "license.created"


class Asking(Protocol):
    """Has a wish after the other."""

    def wish(self) -> Wish:
        """What it asks next."""


class Holder:
    """A program that takes the only lease of its license, renews it some times, and gives it back."""

    def __init__(self, key: str) -> None:
        self._key, self._lease = key, ""
        self._turns = cycle(["", "/renew", "/renew", "/renew", "/release"])

    def wish(self) -> Wish:
        """A lease, or something about the one that it has."""
        turn = next(self._turns)
        body = {"license_key": self._key} | ({"lease_id": self._lease} if turn else {"holder": "anna"})

        def hear(reply: Reply) -> str | None:
            if reply.status != (200 if turn else 201):
                return reply.body.decode()[:200]
            self._lease = self._lease if turn else str(reply.json["lease"]["id"])
            return None

        return Wish(f"lease{turn}", _post_json(f"/v3/leases{turn}", body), hear)


class Shop:
    """Tells of one sale after the other."""

    def wish(self) -> Wish:
        """A sale."""
        return Wish("sale", sale_of(f"soak-{secrets.token_hex(8)}"), _is_ok)


class Reader:
    """Looks at pages, with the cookies of its browser."""

    def __init__(self, kind: str, paths: Sequence[str], cookies: str = "") -> None:
        self._kind, self._paths, self._cookies = kind, cycle(paths), cookies

    def wish(self) -> Wish:
        """The next page."""
        lines = [f"GET {next(self._paths)} HTTP/1.1", "Host: x", *filter(None, [self._cookies])]
        return Wish(self._kind, "\r\n".join([*lines, "", ""]).encode(), _is_ok)


def open_doors(server: RunningServer, url: str, amount: int) -> list[Asking]:
    """So many of each; a webhook at ``url`` is told of every new license."""
    keys = [f"LEASE-{secrets.token_hex(8)}" for _ in range(amount)]
    with server.storage() as storage, closing(open_executor(storage)) as executor:
        for command in (
            *(create(key) for key in keys),
            *(set_terms({"max_leases": 1}, key) for key in keys),
            create_policy(),
            create_endpoint(url, TOLD, now=read_clock()),
        ):
            do(executor, command)
        connect(executor)
    make_users(server, "ada")
    with Visitor(server) as ada:
        ada.sign_in("ada")
        cookies = "Cookie: " + "; ".join(f"{one.name}={one.value}" for one in ada.http.cookies.jar)
    pages = ("/admin/overview", "/admin/licenses", "/admin/events", "/admin/customers")
    return [
        *map(Holder, keys),
        *(Shop() for _ in range(amount)),
        *(Reader("portal", ("/portal",)) for _ in range(amount)),
        *(Reader("pages", pages, cookies) for _ in range(amount)),
    ]


def _post_json(path: str, body: object) -> bytes:
    content = json.dumps(body)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
    return f"{head}\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode()


def _is_ok(reply: Reply) -> str | None:
    return None if reply.status == 200 else f"{reply.status} {reply.body.decode()[:200]}"
