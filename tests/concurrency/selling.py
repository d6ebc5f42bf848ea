"""What tests with many programs have in common: plans for callers, and what must be true afterwards."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.concurrency.callers import Entry, calling
from tests.http.asking import V2, Client, core
from tests.server import RunningServer, wait_until


def assert_well(server: RunningServer) -> None:
    server.assert_consistent()
    assert '"level":"error"' not in server.log


def activate_path(key: str) -> str:
    return V2 + core("activate", key)


def tokens_in(server: RunningServer, product: int) -> set[str]:
    """The active places of a product's licenses, as the database has them."""
    query = """SELECT token FROM activations JOIN licenses ON licenses.id = license_id
               WHERE deactivated_at IS NULL AND product_id = ?"""
    return {token for (token,) in server.sql(query, product)}


def events_in(server: RunningServer, product: int) -> Counter[str]:
    """How often what happened to a product's licenses."""
    query = "SELECT name FROM events JOIN licenses ON licenses.id = license_id WHERE product_id = ?"
    return Counter(name for (name,) in server.sql(query, product))


def acknowledged(journal: list[Entry]) -> set[str]:
    return {entry.token for entry in journal if entry.status == 200 and entry.token is not None}


def shuffled(plan: list[str], *, processes: int) -> list[list[str]]:
    """A plan for each process, each in an order of its own."""
    return [random.Random(number).sample(plan, len(plan)) for number in range(processes)]


def wait_for_load(server: RunningServer) -> None:
    """Return when some hundred places were taken meanwhile."""
    before = server.count("activations")
    wait_until(lambda: server.count("activations") > before + 300, "some load")


def sell_out(servers: Sequence[RunningServer], vendor: Client, product: int) -> None:
    """Make 20,000 attempts on 1,000 places, from four processes at all the servers at once; exactly 1,000
    succeed, each place once, and whoever asked later read more.
    """
    keys = [vendor.license(times_activated_max=5, product_id=product) for _ in range(200)]
    plans = shuffled([activate_path(key) for key in keys] * 25, processes=4)
    with calling(servers, plans, connections=64) as callers:
        journal = callers.journal()
    assert len(journal) == 20_000
    assert Counter((entry.fate, entry.status) for entry in journal) == {
        ("answered", 200): 1_000,
        ("answered", 404): 19_000,
    }
    refusals = {entry.message for entry in journal if entry.status == 404}
    assert refusals == {f"License Key: {key} reached maximum activation count." for key in keys}
    successes = defaultdict(list)
    for entry in journal:
        if entry.status == 200:
            successes[entry.path].append(entry)
    for entries in successes.values():
        assert sorted(entry.times_activated or 0 for entry in entries) == [1, 2, 3, 4, 5]
        _assert_in_real_time_order(entries)
    assert tokens_in(servers[0], product) == acknowledged(journal)
    assert events_in(servers[0], product) == {"license.created": 200, "license.activated": 1_000}
    servers[0].assert_consistent()


def _assert_in_real_time_order(entries: list[Entry]) -> None:
    """Whoever asked after another had been answered reads a higher value."""
    for one in entries:
        for other in entries:
            if one.ended_at < other.started_at:
                assert (one.times_activated or 0) < (other.times_activated or 0)
