"""Measure the latency of the administration pages of a large installation over HTTP, the server's memory, and
the latency of calls while visitors use the pages or a job runs.
"""

import re
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple

import httpx
import msgspec

from benchmarks import portal, servers, wrk
from benchmarks.browsed import FREQUENT_LABEL, LAST_NAMES, OFFICE, RESELLER, Browsed, fill
from benchmarks.databases import Database
from benchmarks.installations import Filled, key_of, opened
from benchmarks.servers import Server
from keywright.core.command import Command, Context, Origin
from keywright.db import Storage, run_read
from keywright.identity import passwords
from keywright.identity.model import CreateUser, Role
from keywright.jobs import orders
from keywright.jobs.orders import Change, Export, Generate, Order, What
from keywright.jobs.store import count_unfinished_jobs
from keywright.provisioning.policies.model import CreatePolicy
from keywright.registry import open_executor
from keywright.search.filters import Search

_TIMES = 40
_NAME, _PASSWORD = "benchmark", "a password for one run"
_FORM_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')
#: The connections that validate during background load, and the duration of each measurement, in seconds.
_CONNECTIONS, _SECONDS = 16, 5
_WORK_AT_ONCE = 200_000


class Page(msgspec.Struct, frozen=True):
    """The latency of a page: median, 95th percentile and maximum."""

    page: str
    p50_ms: float
    p95_ms: float
    worst_ms: float
    times: int


class Meanwhile(msgspec.Struct, frozen=True):
    """The latency of validations under background load, and just before."""

    what: str
    p99_ms: float
    p99_alone_ms: float
    ratio: float
    per_second: float
    per_second_alone: float


class Visits(msgspec.Struct, frozen=True):
    """The pages, the calls under background load, and the server's memory before and after all pages."""

    licenses: int
    activations: int
    pages: list[Page]
    meanwhile: list[Meanwhile]
    before_mib: float | None
    after_mib: float | None


def measure(
    folder: Path, database: Database, licenses: int, rounds: int, say: Callable[[str], None]
) -> Visits:
    """Create an installation, visit its pages, validate under background load, and remove it."""
    filled = fill(folder, database, licenses, say)
    with opened(filled.data_dir, database) as storage:
        _prepare(storage)
        portal.make_links(storage)
    with servers.started(servers.keywright(), filled.data_dir) as server:
        servers.get(server.url, f"{servers.LICENSES}/validate/{key_of(1)}")
        before = server.memory("VmRSS")
        with _visitor(server) as visitor:
            site = _Site(server, filled, visitor)
            say("visiting pages …")
            pages = [_page(visitor, name, paths) for name, paths in _paths(filled).items()]
            pages += _visit_portal(server, filled)
            after = server.memory("VmRSS")
            meanwhile = [_meanwhile(site, name, rounds, say) for name in ("visitors", *_WORK)]
    database.remove(filled.data_dir)
    return Visits(filled.licenses, filled.activations, pages, meanwhile, before, after)


def measure_portal(folder: Path, database: Database, licenses: int, say: Callable[[str], None]) -> Visits:
    """Measure only the portal, without the administration pages."""
    filled = fill(folder, database, licenses, say)
    with opened(filled.data_dir, database) as storage:
        portal.make_links(storage)
    with servers.started(servers.keywright(), filled.data_dir) as server:
        servers.get(server.url, f"{servers.LICENSES}/validate/{key_of(1)}")
        before = server.memory("VmRSS")
        say("visiting pages …")
        pages = _visit_portal(server, filled)
        after = server.memory("VmRSS")
    database.remove(filled.data_dir)
    return Visits(filled.licenses, filled.activations, pages, [], before, after)


# --- pages ----------------------------------------------------------------------------------------


class _Visitor:
    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.token = ""

    def get(self, path: str) -> httpx.Response:
        answer = self.http.get(f"/admin{path}")
        if found := _FORM_TOKEN.search(answer.text):
            self.token = found[1]
        return answer

    def post(self, path: str, **fields: str) -> httpx.Response:
        return self.http.post(f"/admin{path}", data=fields | {"csrf_token": self.token})


@contextmanager
def _visitor(server: Server) -> Iterator[_Visitor]:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        visitor = _Visitor(http)
        visitor.get("/sign-in")
        visitor.post("/sign-in", name=_NAME, password=_PASSWORD)
        if visitor.get("/account").status_code != httpx.codes.OK:
            raise RuntimeError("signing in failed")
        yield visitor


def _prepare(storage: Storage) -> None:
    asked: dict[str, Any] = _asked()
    password_hash = passwords.hash_password(_PASSWORD)
    _decide(
        storage,
        CreateUser(**asked, name=_NAME, role=Role.ADMINISTRATOR, password_hash=password_hash),
        CreatePolicy(
            **asked,
            name="benchmark",
            charset="ABCDEFGHJKLMNPQRSTUVWXYZ23456789",
            chunks=4,
            chunk_length=5,
            separator="-",
        ),
    )


def _paths(filled: Browsed) -> dict[str, Callable[[int], tuple[str, str]]]:
    """Functions that return the path to get, or the text to search for, in the n-th visit."""

    def fixed(path: str) -> Callable[[int], tuple[str, str]]:
        return lambda _: (path, "")

    return {
        "overview": fixed("/overview"),
        "licenses": fixed("/licenses"),
        "licenses that expire soonest": fixed("/licenses?sort=expires"),
        "licenses, four conditions": fixed(
            f"/licenses?status=active&product=2&customer={RESELLER}&places=full"
        ),
        "a product's disabled licenses": fixed("/licenses?product=2&status=disabled"),
        "licenses of a status": fixed("/licenses?status=active"),
        "licenses of a product": fixed("/licenses?product=2"),
        "licenses of a reseller": fixed(f"/licenses?customer={RESELLER}"),
        "licenses not seen for 90 days": fixed("/licenses?seen=90"),
        "licenses without a free place": fixed("/licenses?places=full"),
        "licenses expiring in 30 days": fixed("/licenses?expiring=30&sort=expires"),
        "a license": lambda n: (f"/licenses/{filled.some_ids[n % 20]}", ""),
        "the license in most places": fixed(f"/licenses/{filled.busy_id}"),
        "its history": fixed(f"/licenses/{filled.busy_id}/history"),
        "a customer": lambda n: (f"/customers/{n + 1}", ""),
        "a customer's yesterday": lambda n: (f"/customers/{n + 1}?period=yesterday", ""),
        "a reseller": fixed(f"/customers/{RESELLER}"),
        "the best-selling product": fixed("/products/1"),
        "events of a reseller": fixed(f"/events?customer={RESELLER}"),
        "events of the best-selling product": fixed("/events?product=1"),
        "search: a license key": lambda n: ("", key_of(n * filled.licenses // 100)),
        "search: a token": lambda n: ("", filled.some_tokens[n % 20]),
        "search: an address": lambda n: ("", filled.some_addresses[n % 20]),
        "search: an office's address": lambda _: ("", OFFICE),
        "search: an order": lambda n: ("", f"#{70_000 + n}"),
        "search: words of a name": lambda n: ("", LAST_NAMES[n % len(LAST_NAMES)]),
        "search: a part of an address": lambda n: ("", f"{LAST_NAMES[n % len(LAST_NAMES)][2:]}{n}"),
        "search: the last characters of a key": lambda n: ("", filled.some_keys[n % 20][-5:]),
        "search: a label's beginning": lambda _: ("", FREQUENT_LABEL),
        "search: nothing there is": lambda n: ("", f"nothing {n}"),
        "policies": fixed("/policies"),
        "API keys": fixed("/api-keys"),
        "customers": fixed("/customers"),
        "products": fixed("/products"),
        "jobs": fixed("/jobs"),
        "events": fixed("/events"),
        "users": fixed("/users"),
        "system": fixed("/system"),
        "account": fixed("/account"),
    }


def _visit_portal(server: Server, filled: Browsed) -> list[Page]:
    found = portal.time_pages(server, _TIMES, middle_id=filled.busy_id + filled.licenses // 2)
    return [_summarize(name, took) for name, took in found]


def _page(visitor: _Visitor, name: str, path_of: Callable[[int], tuple[str, str]]) -> Page:
    took = []
    for number in range(_TIMES + 1):
        path, text = path_of(number)
        began = perf_counter()
        answer = visitor.post("/find", text=text) if text else visitor.get(path)
        took.append((perf_counter() - began) * 1000)
        if answer.status_code not in (httpx.codes.OK, httpx.codes.SEE_OTHER):
            raise RuntimeError(f"{name} was answered {answer.status_code}")
    # Ignore the first visit, which compiles templates and statements.
    return _summarize(name, took[1:])


def _summarize(name: str, took: list[float]) -> Page:
    p95 = statistics.quantiles(took, n=20)[-1]
    return Page(name, statistics.median(took), p95, max(took), len(took))


# --- calls under background load ------------------------------------------------------------------


def _generate() -> Order:
    return Generate(policy_id=1, amount=_WORK_AT_ONCE, status=3)


def _extend() -> Order:
    return Change(what=What.RAISE_LIMIT, amount=1, search=Search())


def _export() -> Order:
    return Export(search=Search())


_WORK: dict[str, Callable[[], Order]] = {
    "generating licenses": _generate,
    "changing licenses": _extend,
    "exporting licenses": _export,
}


class _Site(NamedTuple):
    server: Server
    filled: Browsed
    visitor: _Visitor


def _meanwhile(site: _Site, what: str, rounds: int, say: Callable[[str], None]) -> Meanwhile:
    alone, during = [], []
    for _ in range(max(3, rounds)):
        alone.append(_validate(site))
        with _visiting(site.server) if what == "visitors" else _working(site, _WORK[what]()):
            during.append(_validate(site))
        say(f"{what}: p99 {during[-1].p99_ms:.1f} ms, alone {alone[-1].p99_ms:.1f} ms")
        sleep(1)
    p99, p99_alone = (statistics.median(one.p99_ms for one in loads) for loads in (during, alone))
    rate, rate_alone = (statistics.median(one.per_second for one in loads) for loads in (during, alone))
    # Compare adjacent runs, which had the same machine load.
    ratio = statistics.median(one.p99_ms / two.p99_ms for one, two in zip(during, alone, strict=True))
    name = "two visitors without a pause" if what == "visitors" else what
    return Meanwhile(name, p99, p99_alone, ratio, rate, rate_alone)


def _validate(site: _Site) -> wrk.Load:
    filled = site.filled
    about = Filled(filled.data_dir, filled.database, filled.licenses, "", "", Path(), 0, "", Path())
    return wrk.drive(site.server, about, "validate", _CONNECTIONS, _SECONDS)


@contextmanager
def _visiting(server: Server) -> Iterator[None]:
    is_over = threading.Event()

    def visit() -> None:
        with _visitor(server) as visitor:
            while not is_over.is_set():
                for path in ("/overview", "/licenses", "/licenses?places=full&sort=expires", "/events"):
                    visitor.get(path)

    threads = [threading.Thread(target=visit) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@contextmanager
def _working(site: _Site, order: Order) -> Iterator[None]:
    """Let the server run this job during the block; cancel the rest afterwards."""
    with opened(site.filled.data_dir, site.filled.database) as storage:
        (job,) = _decide(storage, orders.start_command(order, **_asked()))
        sleep(1.5)
        yield
        if not run_read(storage, count_unfinished_jobs):
            raise RuntimeError("the job ended during the measurement: increase its size")
        site.visitor.post(f"/jobs/{job.id}/cancel")
        while run_read(storage, count_unfinished_jobs):
            sleep(0.1)


def _decide(storage: Storage, *commands: Command) -> list[Any]:
    outcomes = open_executor(storage).execute(commands)
    for one in outcomes:
        if isinstance(one, Exception):
            raise one
    return outcomes


def _asked() -> dict[str, Any]:
    return {"context": Context(datetime.now(UTC).replace(microsecond=0), Origin("cli:benchmark", "", ""))}
