"""Metrics for Prometheus, served at a separate address. Names: https://prometheus.io/docs/practices/naming/.

Each server process serves its own metrics: one at the configured port, further workers at the ports after it.
"""

import logging
import platform
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import accumulate
from math import nan
from wsgiref.simple_server import WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from keywright import __version__
from keywright.config import Settings
from keywright.core.errors import Unavailable, UnknownLicense
from keywright.db import ReadTransaction, Storage, run_read
from keywright.delivery.mail.model import Fate
from keywright.delivery.mail.store import count_mails
from keywright.engine.desk import Desk
from keywright.events.model import MailState
from keywright.jobs.store import count_unfinished_jobs
from keywright.maintenance.clock import measure_difference
from keywright.maintenance.watched import GAUGES, watch
from keywright.search.projector import lag

log = logging.getLogger(__name__)

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: The count of waiting mails stops here.
_MAX_MAILS = 10_000
#: The gauges that are read from the database, by name without ``keywright_``: the name of the label, and the
#: help.
_GAUGES = GAUGES | {
    "unfinished_jobs": ("", "Jobs that are waiting or running."),
    "waiting_mails": ("", "Mails waiting to be sent; at most 10,000 are counted."),
    "search_events_behind": ("", "Events that are not in the search index yet."),
    "clock_difference_seconds": (
        "",
        "How far PostgreSQL's clock is ahead of this server's clock, in seconds.",
    ),
}
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class _Times:
    """A histogram of the durations of an operation's calls; the last bucket counts longer calls."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_SECONDS) + 1)
        self.total = 0.0


class _Calls(Collector):
    """The calls of all interfaces. Only the event loop counts them, so they need no locks: the library's own
    counters would add 7 % to the cost of a call instead of 2 %.
    """

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, str], int] = {}
        self._times: defaultdict[str, _Times] = defaultdict(_Times)

    def count(self, operation: str, outcome: str, seconds: float) -> None:
        """Count an answered call."""
        self._outcomes[operation, outcome] = self._outcomes.get((operation, outcome), 0) + 1
        times = self._times[operation]
        times.buckets[bisect_left(_SECONDS, seconds)] += 1
        times.total += seconds

    def collect(self) -> Iterator[Metric]:
        """The current counts."""
        text = "API calls, by operation and outcome: ok, or the error's code."
        requests = CounterMetricFamily("keywright_requests", text, labels=("operation", "outcome"))
        outcomes = list(self._outcomes.items())
        for labels, number in outcomes:
            requests.add_metric(labels, number)
        yield requests
        text = "Calls with unknown license keys; with a relay, with keys that are unknown there, too."
        unknown = sum(number for (_, outcome), number in outcomes if outcome == UnknownLicense.code)
        yield CounterMetricFamily("keywright_unknown_keys", text, value=unknown)
        text = "The time from a call's arrival until its answer is sent."
        seconds = HistogramMetricFamily("keywright_request_seconds", text, labels=("operation",))
        for operation, times in list(self._times.items()):
            bounds = (*map(str, _SECONDS), "+Inf")
            seconds.add_metric(
                (operation,), list(zip(bounds, accumulate(times.buckets), strict=True)), times.total
            )
        yield seconds


class Metrics:
    """All metrics of this process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        info = Info("keywright_build", "The version of Keywright.", registry=self.registry)
        info.info({"version": __version__, "python": platform.python_version()})
        calls = _Calls()
        self.registry.register(calls)
        #: Called for each answered call, with its operation, its outcome, and its duration in seconds.
        self.count_call = calls.count
        self._sizes = Histogram(
            "keywright_batch_calls",
            "Calls decided by one transaction.",
            ("lane",),
            buckets=_SIZES,
            registry=self.registry,
        )
        self._batch_seconds = Histogram(
            "keywright_batch_seconds",
            "The time of one transaction, including its commit.",
            ("lane",),
            buckets=_SECONDS,
            registry=self.registry,
        )

        self._commit_seconds = Histogram(
            "keywright_commit_seconds",
            "The time of one commit, until a change is on the disk and on the synchronous standby.",
            buckets=_SECONDS,
            registry=self.registry,
        )

    def count_batch(self, lane: str, calls: int, seconds: float) -> None:
        """Count a finished transaction. Thread-safe."""
        self._sizes.labels(lane).observe(calls)
        self._batch_seconds.labels(lane).observe(seconds)

    def watch(self, desk: Desk, storage: Storage) -> None:
        """Export the number of calls that wait at the desk, and the duration of commits."""
        storage.watch.observe_commit = self._commit_seconds.observe
        waiting = Gauge(
            "keywright_waiting_calls", "Calls waiting to be decided, without lists.", registry=self.registry
        )
        waiting.set_function(lambda: desk.waiting)

    def watch_clock(self, is_right: Callable[[], bool]) -> None:
        """Export whether the clock of this server looks wrong."""
        text = "Whether the clock looks wrong; while it does, nothing is deleted or sent."
        in_doubt = Gauge("keywright_clock_in_doubt", text, registry=self.registry)
        in_doubt.set_function(lambda: not is_right())

    def watch_mails(self, counts: Counter[Fate]) -> None:
        """Export the outcomes of mails."""
        self.registry.register(_MailCounts(counts))


class _MailCounts(Collector):
    """The attempts of this process to send mails, by outcome."""

    def __init__(self, counts: Counter[Fate]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """The current counts."""
        text = "Attempts to send a mail, by outcome."
        family = CounterMetricFamily("keywright_mail_attempts", text, labels=("outcome",))
        for fate in Fate:
            family.add_metric((fate.name.lower(),), self._counts[fate])
        yield family


class _DatabaseFigures(Collector):
    """Gauges that are read from the database at each scrape."""

    def __init__(
        self, of_calls: Storage, storage: Storage, settings: Settings, thread: ThreadPoolExecutor
    ) -> None:
        """``of_calls`` is the storage that answers calls; the gauges are read from its clone ``storage``."""
        self._of_calls, self._storage = of_calls, storage
        self._settings = settings
        self._thread = thread

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the gauges, in the one thread that the storage belongs to."""
        connections = self._storage.watch.count_connections()
        up = GaugeMetricFamily("keywright_database_up", "Whether the database answers.")
        try:
            figures = self._thread.submit(run_read, self._storage, self._read).result()
        except Unavailable:
            up.add_metric((), 0)
            yield up
            return
        up.add_metric((), 1)
        yield up
        families: dict[str, GaugeMetricFamily] = {}
        for gauge, label, value in figures:
            name, text = _GAUGES[gauge]
            labels = (name,) if name else ()
            family = families.setdefault(gauge, GaugeMetricFamily(f"keywright_{gauge}", text, labels=labels))
            family.add_metric((label,) if name else (), value)
        yield from families.values()
        if not self._storage.is_local:
            yield from self._collect_servers(connections)

    def _read(self, tx: ReadTransaction) -> list[tuple[str, str, float]]:
        """The gauges: each with its name, the value of its label, and its own value."""
        now, is_writable = datetime.now(UTC), not self._storage.watch.writing.is_on
        figures: list[tuple[str, str, float]] = [
            ("unfinished_jobs", "", count_unfinished_jobs(tx)),
            ("waiting_mails", "", count_mails(tx, MailState.WAITING, most=_MAX_MAILS)),
            ("search_events_behind", "", lag(tx).behind),
        ]
        if (difference := measure_difference(tx)) is not None:
            figures.append(("clock_difference_seconds", "", difference.total_seconds()))
        watched = watch(tx, self._settings, now, is_writable=is_writable)
        return figures + [(one.gauge, one.label, one.value) for one in watched]

    def _collect_servers(self, connections: dict[str, int]) -> Iterator[GaugeMetricFamily]:
        text = "Connections of this process to PostgreSQL, busy with a transaction or idle."
        family = GaugeMetricFamily("keywright_database_connections", text, labels=("state",))
        for state, number in connections.items():
            family.add_metric((state,), number)
        yield family
        of_calls, own = self._of_calls.replica_state, self._storage.replica_state
        if of_calls is not None:
            text = "Whether the primary answers because the replica is behind or unavailable."
            yield GaugeMetricFamily("keywright_replica_aside", text, value=of_calls.is_aside)
        if own is not None:
            text = "How far the replica was behind at the last check: 0 if it had everything, NaN if unknown."
            seconds = nan if own.lag_seconds is None else own.lag_seconds
            yield GaugeMetricFamily("keywright_replica_lag_seconds", text, value=seconds)


@contextmanager
def serving(
    metrics: Metrics, storage: Storage, settings: Settings, host: str, ports: Sequence[int]
) -> Iterator[None]:
    """Serve the metrics during the block, at the first free one of these ports."""
    own_storage = storage.clone()
    with ThreadPoolExecutor(1, thread_name_prefix="metrics") as thread:
        metrics.registry.register(_DatabaseFigures(storage, own_storage, settings, thread))
        server = _start(metrics.registry, host, ports)
        log.info("metrics are at %s:%d/metrics", host, server.server_port)
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.submit(own_storage.close).result()


def _start(registry: CollectorRegistry, host: str, ports: Sequence[int]) -> WSGIServer:
    for port in ports[:-1]:
        # Another worker may be using this port.
        with suppress(OSError):
            return start_http_server(port, host, registry)[0]
    return start_http_server(ports[-1], host, registry)[0]
