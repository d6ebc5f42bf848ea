"""Customers of a vendor: each has a license, knows how it stands, and finds every answer right or wrong.

A customer asks one thing at a time, so the counter in each answer can be foretold.
"""

import random
import secrets
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple
from urllib.parse import quote

from tests.http.asking import V2, Reply, basic, core, license_path

#: How many places a license has, and how many records, before its customer begins anew with another one.
PLACES = 3
MAX_RECORDS = 6
#: How many of a hundred changes are sent with an Idempotency-Key, and how many of those once more.
WITH_KEY, SENT_AGAIN = 20, 25
#: How often each kind of call is made.
_WEIGHTS = {"validate": 45, "activate": 10, "reactivate": 20, "deactivate": 20, "read": 5}
_KINDS, _OFTEN = list(_WEIGHTS), list(_WEIGHTS.values())
_numbers = count(1)


class Wish(NamedTuple):
    """What a customer wants to ask; ``hear`` says what is wrong with the answer, if anything is."""

    kind: str
    request: bytes
    hear: Callable[[Reply], str | None]


class Customer:
    """Somebody with a license; None between one and the next."""

    def __init__(self, key: str | None, credentials: tuple[str, str]) -> None:
        self._key = key
        self._credentials = credentials
        self._is_active: dict[str, bool] = {}
        self._again: Wish | None = None

    def wish(self) -> Wish:
        """What it asks next."""
        if self._again is not None:
            again, self._again = self._again, None
            return again
        if self._key is None:
            return self._begin_anew()
        kind = random.choices(_KINDS, _OFTEN)[0]
        if kind == "read":
            return self._look("read", self._request("GET", license_path(self._key), is_vendor=True))
        if kind == "validate":
            return self._look("validate", self._request("GET", core("validate", self._key)))
        tokens = [one for one, is_active in self._is_active.items() if is_active == (kind == "deactivate")]
        if kind == "activate" or not tokens:
            return self._give_back() if len(self._is_active) >= MAX_RECORDS else self._activate()
        token = random.choice(tokens)
        return self._deactivate(token) if kind == "deactivate" else self._reactivate(token)

    @property
    def _taken(self) -> int:
        return sum(self._is_active.values())

    def _activate(self) -> Wish:
        assert self._key is not None
        if self._taken == PLACES:
            return self._in_vain("activate", core("activate", self._key))

        def hear(reply: Reply) -> str | None:
            self._is_active[reply.data["activationData"]["token"]] = True
            return self._wrong_counter(reply)

        return self._change("activate", f"{core('activate', self._key)}?label={next(_numbers)}", hear)

    def _reactivate(self, token: str) -> Wish:
        assert self._key is not None
        path = f"{core('activate', self._key)}?token={token}"
        if self._taken == PLACES:
            return self._in_vain("reactivate", path)

        def hear(reply: Reply) -> str | None:
            self._is_active[token] = True
            return self._wrong_counter(reply)

        return self._change("reactivate", path, hear)

    def _deactivate(self, token: str) -> Wish:
        assert self._key is not None

        def hear(reply: Reply) -> str | None:
            self._is_active[token] = False
            return self._wrong_counter(reply)

        return self._change("deactivate", f"{core('deactivate', self._key)}?token={token}", hear)

    def _in_vain(self, kind: str, path: str) -> Wish:
        sentence = f"License Key: {self._key} reached maximum activation count."
        return Wish(
            f"{kind} in vain",
            self._request("GET", path),
            lambda reply: None if (reply.status, reply.message) == (404, sentence) else "not refused",
        )

    def _look(self, kind: str, request: bytes) -> Wish:
        def hear(reply: Reply) -> str | None:
            told = {one["token"]: one["deactivated_at"] is None for one in reply.data["activationData"]}
            return "other records" if told != self._is_active else self._wrong_counter(reply)

        return Wish(kind, request, _if_success(hear))

    def _give_back(self) -> Wish:
        assert self._key is not None

        def hear(_: Reply) -> None:
            self._key, self._is_active = None, {}

        request = self._request("DELETE", license_path(self._key), is_vendor=True)
        return Wish("delete", request, _if_success(hear))

    def _begin_anew(self) -> Wish:
        key = a_license_key()

        def hear(reply: Reply) -> str | None:
            self._key = key
            return self._wrong_counter(reply)

        body = f"license_key={key}&times_activated_max={PLACES}"
        return Wish("create", self._request("POST", "licenses", body=body, is_vendor=True), _if_success(hear))

    def _change(self, kind: str, path: str, hear: Callable[[Reply], str | None]) -> Wish:
        """Now and then with an Idempotency-Key, and now and then of these once more."""
        if random.randrange(100) >= WITH_KEY:
            return Wish(kind, self._request("GET", path), _if_success(hear))
        request = self._request("GET", path, f"Idempotency-Key: {secrets.token_hex(16)}")

        def hear_first(reply: Reply) -> str | None:
            if random.randrange(100) < SENT_AGAIN:
                self._again = Wish("once more", request, lambda again: _wrong_repetition(reply, again))
            return hear(reply)

        return Wish(f"{kind} with a key", request, _if_success(hear_first))

    def _request(
        self, method: str, path: str, *headers: str, body: str | None = None, is_vendor: bool = False
    ) -> bytes:
        lines = [f"{method} {V2}{path} HTTP/1.1", "Host: x", *headers]
        if is_vendor:
            lines.append(f"Authorization: {basic(*self._credentials)}")
        if body is not None:
            lines += [f"Content-Length: {len(body)}", "Content-Type: application/x-www-form-urlencoded"]
        return "\r\n".join([*lines, "", body or ""]).encode()

    def _wrong_counter(self, reply: Reply) -> str | None:
        told = reply.data["timesActivated"]
        return None if told == self._taken else f"{told} places are said to be taken, and it is {self._taken}"


def customers(keys: Sequence[str], credentials: tuple[str, str]) -> list[Customer]:
    """One for each of these licenses, which are new."""
    return [Customer(key, credentials) for key in keys]


def a_license_key() -> str:
    return quote(f"SOAK-{secrets.token_hex(8).upper()}")


def _if_success(hear: Callable[[Reply], str | None]) -> Callable[[Reply], str | None]:
    def hear_success(reply: Reply) -> str | None:
        return hear(reply) if reply.status == 200 else reply.body.decode()[:200]

    return hear_success


def _wrong_repetition(first: Reply, again: Reply) -> str | None:
    is_same = (again.status, again.body) == (first.status, first.body)
    is_known = again.header("idempotency-replayed") == "true"
    return None if is_same and is_known else "another answer than the first time"
