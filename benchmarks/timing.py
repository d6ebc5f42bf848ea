"""Whether a stranger can tell two secrets apart by how long their refusal takes.

    python -m benchmarks.timing

Each row compares two kinds of calls that get the same answer, one of them closer to something that exists:
a license key of which only the last character is wrong, or the e-mail address of a customer. Both kinds are
sent in random order over one connection, with changing client addresses, to a real server whose limits on
guesses are off. Welch's t of their times shows whether they differ; the slowest tenth of all is left out, and
the bound is 4.5, both as in "Dude, is my code constant time?" (Reparaz, Balasch and Verbauwhede, 2017). The
last row is the control: its answers differ.
"""

import http.client
import random
import re
import secrets
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from benchmarks import servers
from benchmarks.databases import Database
from benchmarks.installations import Filled, fill, key_of, opened
from benchmarks.programs import Vendor
from keywright.core.command import Context, Origin
from keywright.identity.model import CreateUser, Role
from keywright.identity.passwords import hash_password
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.registry import open_executor

#: Farther apart than this is no chance.
BOUND = 4.5
_SLOWEST = 0.1
_LICENSES, _PEOPLE = 10_000, 400
_OFTEN, _SELDOM = 10_000, 200
_PASSWORD_TIMEOUT = 60
_FORM_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')
_SETTINGS = {
    "KEYWRIGHT_UNKNOWN_KEY_LIMIT": "0",
    "KEYWRIGHT_BAD_CREDENTIALS_LIMIT": "0",
    "KEYWRIGHT_TRUSTED_PROXIES": "127.0.0.1",
    "KEYWRIGHT_SMTP_URL": "smtp://127.0.0.1:9",
    "KEYWRIGHT_MAIL_FROM": "keys@example.com",
}


class Call(NamedTuple):
    """A request to be timed."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: str | None = None


class Pair(NamedTuple):
    """Two kinds of calls: the number of the call, from 0, gives the call."""

    title: str
    status: int
    near: Callable[[int], Call]
    far: Callable[[int], Call]
    times: int = _OFTEN
    #: The status of the far one, where it is another.
    far_status: int | None = None


def welch(one: Sequence[float], other: Sequence[float]) -> float:
    """Welch's t of two samples of at least two values."""
    spread = statistics.variance(one) / len(one) + statistics.variance(other) / len(other)
    return (statistics.fmean(one) - statistics.fmean(other)) / sqrt(spread)


def compare(connection: http.client.HTTPConnection, pair: Pair) -> tuple[list[float], list[float]]:
    """The times of both kinds, in microseconds, without the slowest of all.

    Raises ``RuntimeError`` where an answer has another status.
    """
    order = [True, False] * pair.times
    random.shuffle(order)
    times: dict[bool, list[float]] = {True: [], False: []}
    for number, is_near in enumerate(order):
        call = (pair.near if is_near else pair.far)(number)
        address = {"X-Forwarded-For": f"2001:db8:{random.getrandbits(16):x}:{random.getrandbits(16):x}::1"}
        begin = perf_counter_ns()
        connection.request(call.method, call.path, call.body, {**address, **call.headers})
        answer = connection.getresponse()
        answer.read()
        times[is_near].append((perf_counter_ns() - begin) / 1000)
        expected = pair.status if is_near or pair.far_status is None else pair.far_status
        if answer.status != expected:
            raise RuntimeError(f"{pair.title}: {answer.status} instead of {expected}")
    bound = sorted(times[True] + times[False])[int(len(order) * (1 - _SLOWEST))]
    near, far = ([one for one in times[kind] if one < bound] for kind in (True, False))
    return near, far


def _wrong_at_the_end(text: str) -> str:
    return text[:-1] + ("a" if text[-1] != "a" else "b")


def _pairs(connection: http.client.HTTPConnection, filled: Filled) -> Iterator[Pair]:
    def validate(key: str, vendor: Vendor | None = None) -> Call:
        headers = {} if vendor is None else {"Authorization": vendor.credentials}
        return Call("GET", f"{servers.LICENSES}/validate/{key}", headers)

    def unlike(text: str) -> str:
        return "".join(random.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") if one != "-" else one for one in text)

    def find(consumer_key: str, consumer_secret: str) -> Call:
        credentials = Vendor(consumer_key, consumer_secret).credentials
        return Call("GET", servers.LICENSES, {"Authorization": credentials})

    yield Pair(
        "license keys: only the last character is wrong, all are",
        404,
        lambda number: validate(_wrong_at_the_end(key_of(number % _LICENSES))),
        lambda number: validate(unlike(key_of(number % _LICENSES))),
    )
    key, secret = filled.consumer_key, filled.consumer_secret
    yield Pair(
        "API keys: only the last character of the secret is wrong, all are",
        401,
        lambda _: find(key, _wrong_at_the_end(secret)),
        lambda _: find(key, secret[:3] + secrets.token_hex(20)),
    )
    yield Pair(
        "API keys: only the last character of the key is wrong, all are",
        401,
        lambda _: find(_wrong_at_the_end(key), secret),
        lambda _: find(key[:3] + secrets.token_hex(20), secret),
    )
    send = _open_form(connection, "/portal")
    yield Pair(
        "codes for the portal: the e-mail address of a customer, of none",
        200,
        lambda number: send("/portal/sign-in", email=f"customer-{number % _PEOPLE}@example.com"),
        lambda number: send("/portal/sign-in", email=f"nobody-00{number % _PEOPLE}@example.com"),
        _SELDOM,
    )
    send = _open_form(connection, "/admin/sign-in")
    yield Pair(
        "sign-in to the pages: the name of a user, of none",
        403,
        lambda number: send("/admin/sign-in", name=f"user-{number}", password="a wrong password"),
        lambda number: send("/admin/sign-in", name=f"nobody-{number}", password="a wrong password"),
        _SELDOM,
    )
    yield Pair(
        "control: a license key that exists, one that does not",
        200,
        lambda number: validate(key_of(number % _LICENSES)),
        lambda number: validate(unlike(key_of(number % _LICENSES))),
        far_status=404,
    )


def _open_form(connection: http.client.HTTPConnection, path: str) -> Callable[..., Call]:
    """What sends fields as the form on this page does."""
    connection.request("GET", path)
    answer = connection.getresponse()
    found = _FORM_TOKEN.search(answer.read().decode())
    cookie = (answer.getheader("Set-Cookie") or "").split(";")[0]
    if found is None:
        raise RuntimeError(f"{path} has no form")
    headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
    token = found[1]
    return lambda to, **fields: Call("POST", to, headers, urlencode({"csrf_token": token, **fields}))


def _add_people(filled: Filled) -> None:
    context = Context(datetime.now(UTC).replace(microsecond=0), Origin("cli:benchmark", "", ""))
    password = hash_password("a password for one run")
    emails = [f"customer-{number}@example.com" for number in range(_PEOPLE)]
    names = [f"user-{number}" for number in range(_PEOPLE)]
    customers = [CreateCustomer(context=context, fields=NewCustomer(email=email)) for email in emails]
    users = [
        CreateUser(context=context, name=name, role=Role.SUPPORT, password_hash=password) for name in names
    ]
    with opened(filled.data_dir, filled.database) as storage:
        open_executor(storage).execute([*customers, *users])


def main() -> int:
    """Print a row for each pair; 1 when one is told apart, or the control is not."""
    is_right = True
    with TemporaryDirectory() as folder:
        filled = fill(Path(folder), Database(), _LICENSES, lambda _: None)
        _add_people(filled)
        with servers.running(filled, servers.UNLIMITED | _SETTINGS) as server:
            parts = urlsplit(server.url)
            with closing(
                http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PASSWORD_TIMEOUT)
            ) as connection:
                for pair in _pairs(connection, filled):
                    near, far = compare(connection, pair)
                    t = welch(near, far)
                    is_right &= (abs(t) < BOUND) == (pair.far_status is None)
                    medians = f"{statistics.median(near):9,.0f} µs {statistics.median(far):9,.0f} µs"
                    print(f"{medians}  t {t:7.2f}  of {2 * pair.times:6,} calls  {pair.title}", flush=True)
    return not is_right


if __name__ == "__main__":
    sys.exit(main())
