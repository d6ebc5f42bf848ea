"""What tests with many programs have in common: plans for callers, and what must be true afterwards."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tests.concurrency.callers import Entry, calling
from tests.histories.checker import is_in_order
from tests.histories.license import Done, Operation, Refused
from tests.http.asking import V2, Client, core
from tests.proving import record
from tests.server import RunningServer, wait_until

#: Of a license that is sold.
PLACES = 5
#: Attempts of one sale.
AT_ONCE = 20_000
#: Stands in the log when the database had to stop somebody (docs/decisions/003).
CHECK = "within_places"


def assert_well(server: RunningServer) -> None:
    server.assert_consistent()
    errors = [line for line in server.log.splitlines() if '"level":"error"' in line]
    # A database that is too busy may give up what runs beside.
    assert [line for line in errors if '"exception"' in line or "could not " not in line] == []


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


def acknowledgements_in(journal: list[Entry]) -> set[str]:
    return {entry.token for entry in journal if entry.status == 200 and entry.token is not None}


def shuffle_plan(plan: list[str], *, processes: int) -> list[list[str]]:
    """A plan for each process, each in an order of its own."""
    return [random.Random(number).sample(plan, len(plan)) for number in range(processes)]


def wait_for_load(server: RunningServer) -> None:
    """Return when some hundred places were taken meanwhile."""
    before = server.count("activations")
    wait_until(lambda: server.count("activations") > before + 300, "some load")


class Sold(NamedTuple):
    """What became of attempts to activate; right is a sale where all but the first two figures are 0."""

    attempts: int
    successes: int
    #: How many more and fewer succeeded than there were places, or attempts where these were fewer.
    successes_over_the_limit: int
    places_not_sold: int
    #: Licenses whose counters do not read 1, 2, 3 … in the order in time.
    disordered: int
    #: Answers that are neither a success nor the contract's refusal, nor ask to call again (503).
    other_answers: int
    #: Places that the database has and nobody was given, or the other way round.
    unlike_the_database: int
    #: How often the database's CHECK stopped somebody.
    check_fired: int


class Shop:
    """A product's licenses, sold at all the servers at once."""

    def __init__(
        self,
        servers: Sequence[RunningServer],
        vendor: Client,
        product: int,
        *,
        licenses: int = 200,
        connections: int = 64,
    ) -> None:
        self._servers = servers
        self._vendor = vendor
        self._product = product
        self._licenses = licenses
        self._connections = connections
        self._keys: list[str] = []
        #: By address, the places that are taken there.
        self._taken: dict[str, set[str]] = {}
        self.given_back = 0

    def sell(self, attempts: int) -> Sold:
        """Make that many attempts on five places of each license, from four processes. Half of the licenses
        are those of the last sale, whose places have all been given back; the others are new.
        """
        paths = [activate_path(key) for key in self._prepared()]
        plan = (paths * -(-attempts // len(paths)))[:attempts]
        parts = [plan[number::4] for number in range(4)]
        for part in parts:
            random.shuffle(part)
        fired_before = self._check_fired()
        with calling(self._servers, parts, connections=self._connections) as callers:
            journal = callers.journal()
        return self._judged(journal, Counter(plan), fired_before)

    def _prepared(self) -> list[str]:
        kept = self._keys[: self._licenses // 2]
        for key in kept:
            self.given_back += len(self._vendor.deactivate(key).data["activationData"])
            self._taken[activate_path(key)].clear()
        fields = {"times_activated_max": PLACES, "product_id": self._product}
        new = [self._vendor.license(**fields) for _ in range(self._licenses - len(kept))]
        self._keys = new + kept
        return self._keys

    def _check_fired(self) -> int:
        return sum(CHECK in line for server in self._servers for line in server.log.splitlines())

    def _judged(self, journal: list[Entry], attempts: Counter[str], fired_before: int) -> Sold:
        calls: dict[str, list[Entry]] = defaultdict(list)
        for entry in journal:
            calls[entry.path].append(entry)
        more = {
            path: sum(one.status == 200 for one in calls[path]) - min(PLACES, number)
            for path, number in attempts.items()
        }
        for entry in journal:
            if entry.status == 200 and entry.token is not None:
                self._taken.setdefault(entry.path, set()).add(entry.token)
        given = set().union(*self._taken.values())
        return Sold(
            attempts=len(journal),
            successes=sum(entry.status == 200 for entry in journal),
            successes_over_the_limit=sum(one for one in more.values() if one > 0),
            places_not_sold=-sum(one for one in more.values() if one < 0),
            disordered=sum(not is_in_order(_history(calls[path]), PLACES) for path in attempts),
            other_answers=sum(not _is_expected(entry) for entry in journal),
            unlike_the_database=len(given ^ tokens_in(self._servers[0], self._product)),
            check_fired=self._check_fired() - fired_before,
        )


def _is_expected(entry: Entry) -> bool:
    if entry.fate != "answered" or entry.status not in (200, 404):
        return entry.fate == "answered" and entry.status == 503
    key = entry.path.rpartition("/")[2]
    return entry.status == 200 or entry.message == f"License Key: {key} reached maximum activation count."


def _history(calls: list[Entry]) -> list[Operation]:
    """What was asked of one license. Refusals are as good as one: that which ended first."""
    refused = [one for one in calls if one.status == 404]
    done = [one for one in calls if one.status == 200]
    history = [
        Operation("activate", one.token, Done(one.times_activated or 0, PLACES), one.started_at, one.ended_at)
        for one in done
    ]
    if refused:
        first = min(refused, key=lambda one: one.ended_at)
        history.append(Operation("activate", "", Refused("full"), first.started_at, first.ended_at))
    return history


def sell_out(servers: Sequence[RunningServer], attempts: int = AT_ONCE) -> None:
    """Make 20,000 attempts on 1,000 places, again and again until there were so many: exactly 1,000 succeed
    each time, each place once, and whoever asked later read more.
    """
    with Client(servers[0], servers[0].api_key()) as vendor:
        shop = Shop(servers, vendor, product=1)
        sold = [shop.sell(AT_ONCE) for _ in range(-(-attempts // AT_ONCE))]
    total = Sold(*(sum(figures) for figures in zip(*sold, strict=True)))
    write_down(_place(servers), total)
    assert total == Sold(len(sold) * AT_ONCE, len(sold) * 1_000, 0, 0, 0, 0, 0, 0)
    assert shop.given_back == 500 * (len(sold) - 1)
    # A limit that was reached is told some seconds later.
    found = events_in(servers[0], 1)
    del found["license.limit_reached"]
    assert found == +Counter(
        {
            "license.created": 100 + 100 * len(sold),
            "license.activated": 1_000 * len(sold),
            "license.deactivated": shop.given_back,
        }
    )
    for server in servers:
        assert_well(server)


def write_down(part: str, sold: Sold) -> None:
    record("R1", part, {name.replace("_", " "): figure for name, figure in sold._asdict().items()})


def _place(servers: Sequence[RunningServer]) -> str:
    if servers[0].database_url.startswith("sqlite"):
        return "sqlite"
    workers = servers[0].settings.get("workers")
    return f"postgresql, {workers} workers" if workers else f"postgresql, {len(servers)} servers"
