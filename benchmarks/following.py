"""How long after its commit an event is listed and delivered, beside activations, while ids of events are
given up. For PostgreSQL, where events are numbered before they are committed.
"""

import http.client
import json
import re
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from time import sleep, time
from urllib.parse import urlencode, urlsplit

import msgspec

from benchmarks import lag, servers, wrk
from benchmarks.installations import Filled, copied, key_of, opened
from benchmarks.webhooks import SETTINGS, receiving
from keywright.core.command import Command, Context, Origin
from keywright.db import Storage, run_read
from keywright.delivery.webhooks.commands import CreateEndpoint
from keywright.engine.executor import Executor
from keywright.events.commands import RecordEvent
from keywright.events.store import find_newest_id
from keywright.licensing.activations.commands import Activate
from keywright.registry import open_executor

#: Connections that activate, and that validate beside them about 300 times a second; and their mean pauses.
_ACTIVATING, _VALIDATING, _VALIDATING_PAUSE_MS = 128, 30, 100
#: The activations in a second, which are as many events, if their answers take so long, in milliseconds.
EVENTS, _USUAL_MS = 400, 40
#: The pause between two ids that are given up, and between two events that are delivered, in seconds. What a
#: delivery of each event costs is another question.
_BETWEEN = 0.1
_DELIVERED = "backup.made"
#: How long the last events may take, in seconds.
_LAST = 5.0
#: So many events are projected by idle servers, made so many at a time.
_BACKLOG, _AT_ONCE = 20_000, 100
_EVENT_ID = re.compile(rb'"event_id":(\d+)')
_COMMITTED = (
    "SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8, name FROM events WHERE id > {}"
)


class Following(msgspec.Struct, frozen=True):
    """The events of a second, and the ids that were missing; in seconds, the median and the 99th percentile
    of how long after their commit they were listed and delivered. Before that, the projector's rate, when
    nothing else was done.
    """

    events_per_second: float
    missing: int
    listed: tuple[float, float]
    delivered: tuple[float, float]
    validate_p99_ms: float
    projected_per_second: float


def measure(filled: Filled, seconds: int, say: Callable[[str], None]) -> Following:
    """Drive the servers for so many seconds."""
    say("events beside activations …")
    with (
        receiving() as receiver,
        copied(filled, "following") as copy,
        opened(copy.data_dir, copy.database) as storage,
    ):
        projected = _measure_projector(copy, storage)
        say(f"{projected:,.0f} events a second are projected")
        receiver.bodies = []
        _do(
            open_executor(storage),
            CreateEndpoint(context=_now(), url=receiver.urls()[0], events=(_DELIVERED,)),
        )
        first = run_read(storage, find_newest_id)
        with (
            servers.started(servers.keywright(), copy.data_dir, SETTINGS) as server,
            _writing(storage),
            _listing(server.url, copy) as listed,
        ):
            loads = _drive(server, copy, seconds)
            # The last ones are listed and delivered, too.
            sleep(_LAST)
        committed = _list_commits(storage, first)
    counted = {number: at for number, (at, _) in committed.items()}
    told = {number: at for number, (at, name) in committed.items() if name == _DELIVERED}
    return Following(
        loads[0].per_second,
        max(committed) - first - len(committed),
        _delays(counted, listed),
        _delays(told, _list_delivered(receiver.bodies)),
        loads[1].p99_ms,
        projected,
    )


def _measure_projector(filled: Filled, storage: Storage) -> float:
    """The events that idle servers project in a second."""
    with servers.started(servers.keywright(), filled.data_dir, SETTINGS):
        lag.wait_for_projector(storage)
    executor, keys = open_executor(storage), [key_of(number) for number in range(filled.licenses)]
    for start in range(0, _BACKLOG, _AT_ONCE):
        some = range(start, start + _AT_ONCE)
        _do(executor, *(Activate(context=_now(), license=keys[one % len(keys)]) for one in some))
    with servers.started(servers.keywright(), filled.data_dir, SETTINGS):
        return _BACKLOG / lag.wait_for_projector(storage)


def _drive(server: servers.Server, filled: Filled, seconds: int) -> tuple[wrk.Load, wrk.Load]:
    """Activate, and validate beside it."""
    activating, validating = ("activate", _ACTIVATING), ("validate", _VALIDATING)
    pauses = (1000 * _ACTIVATING // EVENTS - _USUAL_MS, _VALIDATING_PAUSE_MS)
    with ThreadPoolExecutor(2) as pool:
        loads = [
            pool.submit(wrk.drive, server, filled, *case, seconds, pause_ms=pause)
            for case, pause in zip((activating, validating), pauses, strict=True)
        ]
        return loads[0].result(), loads[1].result()


def _now() -> Context:
    return Context(datetime.now(UTC).replace(microsecond=0), Origin("benchmark", "", ""))


def _do(executor: Executor, *commands: Command) -> None:
    for outcome in executor.execute(commands):
        if isinstance(outcome, Exception):
            raise outcome


@contextmanager
def _beside(run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run this in a thread until the end of the block, when the event is set."""
    is_over = threading.Event()
    thread = threading.Thread(target=run, args=(is_over,))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def _writing(storage: Storage) -> Iterator[None]:
    """Take an ID of an event and give it up, and record an event that is delivered, again and again."""
    own = storage.clone()

    def run(is_over: threading.Event) -> None:
        with closing(open_executor(own)) as executor:
            while not is_over.wait(_BETWEEN):
                with own.write() as tx:
                    tx.connection.exec_driver_sql("SELECT nextval('events_id_seq')")
                _do(executor, RecordEvent(context=_now(), name=_DELIVERED))

    with _beside(run):
        yield


@contextmanager
def _listing(url: str, filled: Filled) -> Iterator[dict[int, float]]:
    """List events over HTTP as they come; when each was seen first, by its ID."""
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
    """When each of the events after this one was committed, in seconds since 1970, and its name."""
    with storage.read() as tx:
        rows = tx.connection.exec_driver_sql(_COMMITTED.format(after_id))
        return {number: (at, name) for number, at, name in rows}


def _list_delivered(bodies: list[tuple[bytes, float]]) -> dict[int, float]:
    """When each event was delivered first."""
    seen: dict[int, float] = {}
    for body, at in bodies:
        if found := _EVENT_ID.search(body):
            seen.setdefault(int(found[1]), at)
    return seen


def _delays(committed: Mapping[int, float], seen: Mapping[int, float]) -> tuple[float, float]:
    """The median and the 99th percentile; what was not seen has taken for ever."""
    waited = sorted(seen.get(number, float("inf")) - at for number, at in committed.items())
    return statistics.median(waited), waited[int(0.99 * (len(waited) - 1))]
