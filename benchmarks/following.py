"""Measure the time from an event's commit until it is listed and delivered: during activations while event
IDs are skipped, and during an import. For PostgreSQL, which assigns event IDs before the commit.
"""

import http.client
import json
import re
import statistics
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import islice
from time import monotonic, sleep, time
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from benchmarks import lag, servers, wrk
from benchmarks.installations import Filled, copied, opened
from benchmarks.webhooks import SETTINGS, Receiver, receiving
from keywright.core.command import Command, Context, Origin
from keywright.db import Storage, run_read
from keywright.delivery.webhooks.commands import CreateEndpoint
from keywright.delivery.webhooks.fields import NewWebhook
from keywright.engine.executor import Executor
from keywright.events.model import RecordEvent
from keywright.events.store import find_newest_id
from keywright.licensing.activations.model import Activate
from keywright.licensing.licenses.model import Status
from keywright.provisioning.licenses import IssueLicenses
from keywright.provisioning.products import CreateProduct, NewProduct
from keywright.registry import open_executor

#: The connections that activate, and those that validate about 300 times per second, with their mean pause.
_ACTIVATING, _VALIDATING, _VALIDATING_PAUSE_MS = 128, 30, 100
#: The activations (and so events) per second, the target rate first, if responses take ``_USUAL_MS``. Rates
#: increase until the p99 of validations exceeds ``_LONGEST_MS``.
_RATES, _USUAL_MS, _LONGEST_MS = (400, 600, 900, 1_350), 40, 50
#: The pause between two skipped IDs, and between two delivered events, in seconds. Other events are not
#: delivered: the cost of deliveries is measured elsewhere.
_BETWEEN = 0.1
_DELIVERED = "backup.made"
#: The timeout for the last events, in seconds.
_LAST = 5.0
#: The number of imported licenses; for another product, the event to deliver, and the number of licenses.
IMPORTED, _OTHERS, _OF_OTHER = 100_000, "license.activated", 2_000
_EVENT_ID = re.compile(rb'"event_id":(\d+)')
_COMMITTED = (
    "SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8, name FROM events WHERE id > {}"
)


class Followed(msgspec.Struct, frozen=True):
    """The events per second, and the number of missing IDs; in seconds, the median and the 99th percentile of
    the times from commit until events were listed and delivered.
    """

    events_per_second: float
    missing: int
    listed: tuple[float, float]
    delivered: tuple[float, float]
    validate_p99_ms: float


class Following(msgspec.Struct, frozen=True):
    """The figures at each rate; the projector's rate on idle servers; the duration of an import in seconds,
    and the longest time until another event was delivered during it.
    """

    rates: list[Followed]
    projected_per_second: float
    import_seconds: float
    longest_beside_import: float


def measure(filled: Filled, seconds: int, say: Callable[[str], None]) -> Following:
    """Load the servers for this many seconds at each rate."""
    say("events during activations …")
    with (
        receiving() as receiver,
        copied(filled, "following") as copy,
        opened(copy.data_dir, copy.database) as storage,
        closing(open_executor(storage)) as executor,
    ):
        projected = _measure_projector(copy, storage)
        say(f"{projected:,.0f} events projected per second")
        _do(
            executor,
            CreateEndpoint(context=_now(), fields=NewWebhook(url=receiver.urls()[0], events=[_DELIVERED])),
        )
        rates = list[Followed]()
        for rate in _RATES:
            rates.append(_follow(copy, storage, receiver, rate, seconds))
            say(f"{rates[-1]}")
            if rates[-1].validate_p99_ms > _LONGEST_MS:
                break
        return Following(rates, projected, *_import(copy, storage, executor, receiver))


def _follow(copy: Filled, storage: Storage, receiver: Receiver, rate: int, seconds: int) -> Followed:
    receiver.bodies, first = [], run_read(storage, find_newest_id)
    with (
        servers.started(servers.keywright(), copy.data_dir, SETTINGS) as server,
        _listing(server.url, copy) as listed,
    ):
        with _writing(storage):
            loads = _drive(server, copy, rate, seconds)
        # Wait until the last events are listed and delivered.
        sleep(_LAST)
    committed = _list_commits(storage, first)
    return Followed(
        loads[0].per_second,
        max(committed) - first - len(committed),
        _delays(committed, listed),
        _delays(_of(committed, _DELIVERED), _list_delivered(receiver.bodies)),
        loads[1].p99_ms,
    )


def _import(copy: Filled, storage: Storage, executor: Executor, receiver: Receiver) -> tuple[float, float]:
    """Import licenses while licenses of another product are activated. There are three endpoints: for
    imports, for the other product, and for other events.
    """
    product: int = _do(executor, CreateProduct(context=_now(), fields=NewProduct(name="Other")))[0].id
    keys = [f"OTHER-{number}" for number in range(_OF_OTHER)]
    about: dict[str, Any] = {"status": Status.ACTIVE, "product_id": product}
    for one in keys:
        _do(executor, IssueLicenses(context=_now(), key=one, **about))
    _, of_product, of_imports, *_ = receiver.urls()
    _do(
        executor,
        CreateEndpoint(context=_now(), fields=NewWebhook(url=of_product, events=["*"], product_id=product)),
        CreateEndpoint(context=_now(), fields=NewWebhook(url=of_imports, events=["license.imported"])),
    )
    file = copy.data_dir / "licenses.csv"
    lines = (f"IMPORTED-{number:08d}\n" for number in range(IMPORTED))
    file.write_text(f"license_key\n{''.join(lines)}")
    receiver.bodies, first = [], run_read(storage, find_newest_id)
    # Activate each license once, because the events of one license are delivered sequentially.
    others = (Activate(context=_now(), license=one) for one in keys)
    command = servers.keywright("import", "csv", str(file), "--data-dir", str(copy.data_dir))
    where: dict[str, Any] = {"env": servers.environment(), "cwd": copy.data_dir}
    with servers.started(servers.keywright(), copy.data_dir, SETTINGS):
        with _writing(storage, others):
            began = monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **where)
            seconds = monotonic() - began
        sleep(_LAST)
    committed = _of(_list_commits(storage, first), _DELIVERED, _OTHERS)
    seen = _list_delivered(receiver.bodies)
    return seconds, max(seen.get(number, float("inf")) - at for number, (at, _) in committed.items())


def _measure_projector(filled: Filled, storage: Storage) -> float:
    """The number of events that idle servers project per second."""
    with servers.started(servers.keywright(), filled.data_dir, SETTINGS):
        lag.wait_for_projector(storage)
    lag.make_backlog(storage, filled)
    with servers.started(servers.keywright(), filled.data_dir, SETTINGS):
        return lag.BACKLOG / lag.wait_for_projector(storage)


def _drive(server: servers.Server, filled: Filled, rate: int, seconds: int) -> tuple[wrk.Load, wrk.Load]:
    """Activate and validate concurrently."""
    activating, validating = ("activate", _ACTIVATING), ("validate", _VALIDATING)
    pauses = (1000 * _ACTIVATING // rate - _USUAL_MS, _VALIDATING_PAUSE_MS)
    with ThreadPoolExecutor(2) as pool:
        loads = [
            pool.submit(wrk.drive, server, filled, *case, seconds, pause_ms=pause)
            for case, pause in zip((activating, validating), pauses, strict=True)
        ]
        return loads[0].result(), loads[1].result()


def _now() -> Context:
    return Context(datetime.now(UTC).replace(microsecond=0), Origin("benchmark", "", ""))


def _do(executor: Executor, *commands: Command) -> list[Any]:
    outcomes = executor.execute(commands)
    for one in outcomes:
        if isinstance(one, Exception):
            raise one
    return [*outcomes]


@contextmanager
def _beside(run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``run`` in a thread during the block; set its event at the end."""
    is_over = threading.Event()
    thread = threading.Thread(target=run, args=(is_over,))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def _writing(storage: Storage, others: Iterable[Command] = ()) -> Iterator[None]:
    """Repeatedly skip an event ID, record an event to deliver, and run one of the ``others``."""
    own, more = storage.clone(), iter(others)

    def run(is_over: threading.Event) -> None:
        with closing(open_executor(own)) as executor:
            while not is_over.wait(_BETWEEN):
                with own.write() as tx:
                    tx.connection.exec_driver_sql("SELECT nextval('events_id_seq')")
                _do(executor, RecordEvent(context=_now(), name=_DELIVERED), *islice(more, 1))

    with _beside(run):
        yield


@contextmanager
def _listing(url: str, filled: Filled) -> Iterator[dict[int, float]]:
    """List events over HTTP during the block; yield when each was first seen, by ID."""
    token = f"kw_{filled.consumer_key[3:]}{filled.consumer_secret[3:]}"
    seen: dict[int, float] = {}

    def run(is_over: threading.Event) -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc)
        since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        query = {"limit": "200", "since": since}
        while not is_over.is_set():
            path = f"/v3/events?{urlencode(query | {'wait_seconds': '1'})}"
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = json.loads(connection.getresponse().read())
            for one in answer["items"]:
                seen.setdefault(one["id"], time())
            query["cursor"] = answer["next_cursor"]
        connection.close()

    with _beside(run):
        yield seen


def _list_commits(storage: Storage, after_id: int) -> dict[int, tuple[float, str]]:
    """The commit time, in seconds since 1970, and name of each event after this one."""
    with storage.read() as tx:
        rows = tx.connection.exec_driver_sql(_COMMITTED.format(after_id))
        return {number: (at, name) for number, at, name in rows}


def _of(committed: Mapping[int, tuple[float, str]], *names: str) -> dict[int, tuple[float, str]]:
    """The events with these names."""
    return {number: one for number, one in committed.items() if one[1] in names}


def _list_delivered(bodies: list[tuple[bytes, float]]) -> dict[int, float]:
    """When each event was first delivered."""
    seen: dict[int, float] = {}
    for body, at in bodies:
        if found := _EVENT_ID.search(body):
            seen.setdefault(int(found[1]), at)
    return seen


def _delays(committed: Mapping[int, tuple[float, str]], seen: Mapping[int, float]) -> tuple[float, float]:
    """The median and the 99th percentile of the delays; that of an event never seen is infinite."""
    waited = sorted(seen.get(number, float("inf")) - at for number, (at, _) in committed.items())
    return statistics.median(waited), waited[int(0.99 * (len(waited) - 1))]
