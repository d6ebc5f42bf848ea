"""Two instances on one PostgreSQL database are restarted in turn, and no program and no shop notices.

The second one has several workers. Programs come directly and through every proxy of deploy/ that is on this
machine, all at once.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from typing import Any, NamedTuple

import pytest

from keywright.background.loops import read_clock
from keywright.registry import open_executor
from tests.connections import connect, do
from tests.databases import a_postgres_url
from tests.deploy.plain import Direct, Journal, Plain, Through, Way, plain_programs
from tests.deploy.programs import program
from tests.deploy.proxies import KINDS, Certificate, running_proxy
from tests.faults.judge import INNOCENT, judge_calls
from tests.http.asking import Client, a_key
from tests.makers import create_endpoint, create_policy
from tests.proving import record, size
from tests.receiver import Receiver, receiving
from tests.server import NO_LIMITS, RunningServer, running, wait_until

RESTARTS = size(2, 10)
#: As the documents advise: longer than the proxies' checks take to notice, also on a busy machine.
DRAIN_SECONDS = 10
SOLD = "license.created"
#: How many programs of each way hardly rest.
BUSY = 4
SETTINGS: dict[str, Any] = {
    "drain_seconds": DRAIN_SECONDS,
    "trusted_proxies": "127.0.0.1",
    "webhook_networks": "127.0.0.0/8",
    **NO_LIMITS,
}


class Instances(NamedTuple):
    """Two servers on one database, the ways to them, and two licenses: one without a limit, one full."""

    servers: tuple[RunningServer, RunningServer]
    ways: list[Way]
    key: str
    full_key: str
    #: Is told of the licenses that shops have sold.
    receiver: Receiver

    def programs(self, *, sells: bool = False) -> AbstractContextManager[Plain]:
        return plain_programs(self.ways, self.key, self.full_key, busy=BUSY, sells=sells)

    def restart(self, server: RunningServer, end: Callable[[RunningServer], object]) -> None:
        """End it, start it again on the same port, and wait until every proxy sends programs to it."""
        end(server)
        log = server.data_dir.with_name(f"{server.data_dir.name}.log")
        assert '"level":"error"' not in log.read_text()
        log.write_bytes(b"")
        server.start(server.port)
        # Who comes directly stays where he is.
        missing = {way.address for way in self.ways if isinstance(way, Through)}
        with log.open("rb") as lines:

            def is_used() -> bool:
                came = lines.read()
                missing.difference_update([one for one in missing if f'"{one}"'.encode() in came])
                return not missing

            wait_until(is_used, "calls that come to the instance through every proxy")


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[Instances]:
    folder = tmp_path_factory.mktemp("instances")
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving())
        settings = SETTINGS | {"database_url": stack.enter_context(a_postgres_url(empty=True))}
        one = stack.enter_context(running(folder / "one", **settings))
        settings["secret"] = (one.data_dir / "secret").read_text().strip()
        two = stack.enter_context(running(folder / "two", workers=2, **settings))
        ways: list[Way] = [Direct("direct", "127.0.0.2", (one, two))]
        for number, kind in enumerate(KINDS, 3):
            with suppress(pytest.skip.Exception):
                program(kind)
                (folder / kind).mkdir()
                proxy = running_proxy(kind, folder / kind, certificate, one.port, two.port)
                ways.append(Through(kind, f"127.0.0.{number}", stack.enter_context(proxy)))
        with Client(one, one.api_key()) as vendor:
            key, full_key = a_key(), vendor.license(times_activated_max=1)
            vendor.license(license_key=key)
            vendor.activated(full_key)
        with one.storage() as storage, closing(open_executor(storage)) as executor:
            do(executor, create_policy())
            connect(executor)
            do(executor, create_endpoint(receiver.url, SOLD, now=read_clock()))
        yield Instances((one, two), ways, key, full_key, receiver)
        one.assert_consistent()
        for server in (one, two):
            # Nobody needs to be drained any more.
            server.signal(signal.SIGINT)


def labels(instances: Instances) -> Counter[str]:
    """How many activations have which label; that which filled a license has none."""
    found = instances.servers[0].sql("SELECT label FROM activations WHERE label IS NOT NULL")
    return Counter(label for (label,) in found)


def write_down_sales(instances: Instances, journals: dict[str, Journal]) -> dict[str, int]:
    """Wait until what shops told of is done, and webhooks told of that; return what is wrong."""
    server = instances.servers[0]
    waiting = "SELECT count(*) FROM shop_events WHERE state = 'waiting'"
    wait_until(lambda: server.sql(waiting) == [(0,)], "the last sales")
    query = (
        "SELECT id FROM events WHERE name = ? AND id > (SELECT id FROM events WHERE name = 'webhook.created')"
    )
    happened = {id for (id,) in server.sql(query, SOLD)}
    # What is left out after a minute is counted.
    with suppress(AssertionError):
        wait_until(lambda: happened.issubset(instances.receiver.event_ids), "the last webhooks")
    found = dict(server.sql("SELECT order_ref, count(DISTINCT license_id) FROM sold_licenses GROUP BY 1"))
    sales = [order for journal in journals.values() for order in journal.sales]
    wrong = {
        "sales lost": len(set(sales) - found.keys()),
        "sales doubled": sum(number > 1 for number in found.values()),
        "events left out": len(happened.difference(instances.receiver.event_ids)),
    }
    record("R15", "shops and webhooks", {"sales": len(sales), "events": len(happened)} | wrong)
    assert sales
    return wrong


def write_down(part: str, restarts: int, journal: Journal, found: Counter[str], slowest: float) -> None:
    record(
        "R15",
        part,
        counted={
            "restarts": restarts,
            "requests": len(journal.answers),
            "failed requests": len(journal.failed),
            "doubled": sum(found[call.label] > 1 for call in journal.activations),
        },
        worst={"seconds a request took": journal.longest, "seconds a restart took": slowest},
    )


def test_a_rolling_restart_fails_no_request_and_doubles_none(instances: Instances) -> None:
    slowest, before = 0.0, labels(instances)
    with instances.programs(sells=True) as programs:
        for number in range(RESTARTS):
            began = time.monotonic()
            instances.restart(instances.servers[number % 2], lambda server: server.stop())
            slowest = max(slowest, time.monotonic() - began)
            programs.wait_for_answers()
        journals = programs.finish()
    found = labels(instances) - before
    for name, journal in journals.items():
        write_down(name, RESTARTS, journal, found, slowest)
    assert [(name, *one) for name, journal in journals.items() for one in journal.failed] == []
    calls = [call for journal in journals.values() for call in journal.activations]
    assert judge_calls(calls, found) == INNOCENT
    assert all(call.is_acknowledged for call in calls)
    assert set(write_down_sales(instances, journals).values()) == {0}


def test_control_a_killed_instance_leaves_requests_without_an_answer(instances: Instances) -> None:
    before = labels(instances)
    with instances.programs() as programs:

        def kill(server: RunningServer) -> None:
            with server.holding_changes():
                # All that are busy ask for something that has to wait: some of them this instance.
                wait_until(lambda: programs.waiting >= BUSY * len(instances.ways), "requests under way")
                server.kill()

        began = time.monotonic()
        instances.restart(instances.servers[0], kill)
        slowest = time.monotonic() - began
        programs.wait_for_answers()
        journals = programs.finish()
    found = labels(instances) - before
    for name, journal in journals.items():
        write_down(f"control: SIGKILL, {name}", 1, journal, found, slowest)
    # Of those who come directly, every other one was there.
    assert 0 in {answer.status for _, answer in journals["direct"].failed}
    # Nobody was told that it is done, and nobody's request went to the other instance as well.
    verdict = judge_calls([call for journal in journals.values() for call in journal.activations], found)
    assert (verdict.missing, verdict.doubled, verdict.strange) == ([], [], [])
