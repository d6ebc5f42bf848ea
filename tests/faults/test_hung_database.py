"""A database that does not answer, and does not hang up either."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.faults.installations import Database
from tests.faults.judge import assert_right
from tests.faults.load import RESTED, Call, Load, Programs, assert_answers_in_shape, longest_wait, run_load
from tests.faults.proxy import Proxy, run_proxy
from tests.faults.watch import watch_server
from tests.server import RunningServer, wait_until

#: How long a call may wait for its answer, in seconds.
LONGEST_WAIT = 30.0
#: Whoever asks whether the process is alive waits for no database: a broken one takes seven seconds.
AT_ONCE = 5.0


def freeze_statements(proxy: Proxy) -> None:
    """Connections are made, and no statement with values is answered, whether it was prepared or not."""
    proxy.freezing_at = b"PB"


def freeze_sessions(proxy: Proxy) -> None:
    """Whoever connects is let in, and nothing is answered."""
    proxy.freezing_at = b"Q"


TROUBLES: list[Callable[[Proxy], None]] = [
    Proxy.blackhole,
    Proxy.freeze,
    freeze_statements,
    freeze_sessions,
]


@contextmanager
def calling(server: RunningServer, store: Database, *, programs: int) -> Iterator[Load]:
    """Programs whose calls are answered in time and in shape, whatever the block does; in the end, they
    succeed.
    """
    manners = Programs(programs, programs)
    with (
        run_load(server, store.keys, manners, rest=RESTED) as load,
        watch_server(server) as watch,
    ):
        yield load
        recovery = load.wait_for_successes(1)
        load.wait_for_successes()
        journal = load.finish()
        print(f"{len(journal)} calls, the longest {longest_wait(journal):.1f} s; well after {recovery:.1f} s")
    assert set(watch.statuses("/healthz")) == {200}
    assert watch.longest("/healthz") < AT_ONCE
    assert set(watch.statuses("/readyz")) <= {200, 503}
    assert watch.longest("/readyz") < LONGEST_WAIT
    assert longest_wait(journal) < LONGEST_WAIT
    assert_answers_in_shape(journal)


def wait_for_effect(trouble: Callable[[Proxy], None], load: Load, since: float) -> None:
    """Return when a call has met the trouble: it is refused, unless there is a way around it."""
    if trouble is Proxy.freeze:
        # A transaction that was being given up is tried again over a new connection, and its call succeeds.
        wait_until(lambda: load.is_refused_since(since) or load.successes_since(since), "another connection")
    else:
        load.wait_for_refusal(since, trouble.__name__)


def test_a_database_that_stands_still_holds_nobody_up_for_long(
    keywright: RunningServer, store: Database
) -> None:
    with calling(keywright, store, programs=4) as load:
        began = time.monotonic()
        store.server.pause()
        try:
            load.wait_for_refusal(began)
        finally:
            store.server.resume()
    assert_right(load.journal, store)


def test_a_network_that_swallows_everything_holds_nobody_up_for_long(store: Database, tmp_path: Path) -> None:
    journal: list[Call] = []
    with ExitStack() as stack:
        proxies = [stack.enter_context(run_proxy(store.server.port)) for _ in TROUBLES]

        def start(proxy: Proxy) -> RunningServer:
            server = RunningServer(tmp_path / str(proxy.port), **store.settings(port=proxy.port))
            stack.callback(server.stop)
            return server

        with ThreadPoolExecutor() as pool:
            servers = list(pool.map(start, proxies))
        with ExitStack() as calls:
            loads = [calls.enter_context(calling(server, store, programs=2)) for server in servers]
            for trouble, proxy in zip(TROUBLES, proxies, strict=True):
                trouble(proxy)
            since = time.monotonic()
            for trouble, load in zip(TROUBLES, loads, strict=True):
                wait_for_effect(trouble, load, since)
            for proxy in proxies:
                # What is frozen stays so; who connects now has no trouble.
                proxy.thaw()
        for load in loads:
            journal += load.journal
    assert_right(journal, store)
