"""Measure what grows with an installation: the work of each query and each background step, the size of each
table, and the time of commands that process everything.

    python -m benchmarks.grown 10000 100000 python -m benchmarks.grown --database postgresql 10000 100000
    1000000

``work`` does not depend on the machine's load: it counts units of 20 steps of SQLite's virtual machine, or
the blocks that PostgreSQL reads. A line is marked if the work grows by more than a third of the
installation's growth. Table sizes are also calculated from the two previous installations, for comparison.
Whole pages are measured by ``make bench ARGS="--only pages,visits,portal"``.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, event, text
from sqlalchemy.engine import Engine

from benchmarks.browsed import PRODUCTS, RESELLER, Browsed, fill
from benchmarks.databases import Database, Postgres, a_server
from benchmarks.installations import key_of, opened
from keywright.core.command import Command, Context, Origin, Query
from keywright.core.nouns import Paging
from keywright.core.parsing import format_size
from keywright.db import Storage
from keywright.db.postgres import PostgresStorage
from keywright.delivery.mail.model import PurgeMails
from keywright.delivery.webhooks.commands import PurgeDeliveries
from keywright.engine.executor import Executor
from keywright.engine.idempotency import PurgeIdempotencyRecords
from keywright.events.model import SettleEvents
from keywright.licensing.activations.model import Activate, ActivateDevice, Device
from keywright.licensing.licenses.model import LicenseFilter
from keywright.licensing.moments import PassMoments, Place
from keywright.licensing.usage.model import PeriodFilter
from keywright.maintenance.tasks import PurgeDeletedLicenses, PurgeEvents, PurgeUsage
from keywright.registry import QUERY_HANDLERS, open_executor
from keywright.search.filters import Search
from keywright.search.statistics import CountDevices, ProjectEvents, PurgeRefusals
from tools.postgres import binaries

#: How often each query is run, for different licenses each time.
_TIMES = 40
_LIMIT = 50
#: The steps of SQLite's virtual machine per unit of work.
_STEPS = 20
_ORIGIN = Origin("benchmark", "", "")
_PROGRAM = Path(sys.executable).with_name("keywright")
#: The purges of expired data.
_PURGES: tuple[Any, ...] = (
    *(PurgeDeletedLicenses, PurgeDeliveries, PurgeEvents),
    *(PurgeIdempotencyRecords, PurgeRefusals, PurgeUsage),
)
#: Queries for things of which an installation has few, regardless of its licenses; grouped by reason.
FEW = {
    "of a shop's connection or its events": (
        "ListConnections GetConnection ListRemovedSales OpenConnection ListShopEvents OpenShopEvent "
        "FindDifference FindSoldLicenses FindShopEventsNaming"
    ),
    "of releases and notices": (
        "ExplainRelease FindDownload GetRelease ListReleases GetFile ListFiles ListUses GetNotice "
        "ListNotices PreviewNotice ListRecipients"
    ),
    "of webhooks": "GetEndpoint ListEndpoints GetSecrets GetDelivery ListDeliveries",
    "of policies, jobs and settings": (
        "GetPolicy ListPolicies FindPolicies PreviewTerms GetJob FindBrand ListSettings CountClaims"
    ),
    "of the server's own": "FindApiKey LoadKeys BuildKeySets LookForWork CheckSite",
}


class Cost(NamedTuple):
    """The cost of an operation: 95th percentile in milliseconds, medians of statements and work."""

    p95: float
    statements: float
    work: float


class Grown(NamedTuple):
    """An installation with this many licenses: costs by name, bytes and rows by table, seconds by command."""

    licenses: int
    costs: Mapping[str, Cost]
    sizes: Mapping[str, tuple[int, int]]
    seconds: Mapping[str, float]


class _Meter:
    """Counts the statements of all connections, and their work."""

    def __init__(self) -> None:
        self.statements = 0
        self.steps = 0
        self.run: list[tuple[str, Any]] = []

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count until the end of the block."""
        event.listen(Engine, "before_cursor_execute", self._begin)
        try:
            yield
        finally:
            event.remove(Engine, "before_cursor_execute", self._begin)

    def reset(self) -> None:
        """Reset the counts."""
        self.statements, self.steps, self.run = 0, 0, []

    def _begin(self, connection: Connection, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        self.statements += 1
        if connection.dialect.name == "sqlite":
            dbapi: Any = connection.connection.dbapi_connection
            dbapi.set_progress_handler(self._step, _STEPS)
        elif statement.lstrip().startswith("SELECT"):
            self.run.append((statement, values))

    def _step(self) -> int:
        self.steps += 1
        return 0

    def work(self, storage: Storage) -> int:
        """The work since ``reset``; on PostgreSQL, the queries are run again with EXPLAIN."""
        if not isinstance(storage, PostgresStorage):
            return self.steps
        run, blocks = self.run, 0
        with storage.write() as tx:
            for statement, values in run:
                asked = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
                (found,) = tx.connection.exec_driver_sql(asked, values).one()
                plan = (found if isinstance(found, list) else json.loads(found))[0]["Plan"]
                blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return blocks


class Asked:
    """Queries for random rows of an installation, and background steps."""

    def __init__(self, filled: Browsed, chance: random.Random) -> None:
        self._filled, self._chance = filled, chance
        self.now = datetime.now(UTC).replace(microsecond=0)

    def _values(self) -> dict[str, Any]:
        """Default values for the fields of queries."""
        number = self._chance.randrange(self._filled.licenses)
        return {
            "key": key_of(number),
            "license_id": number + 1,
            "activation_id": self._chance.randrange(self._filled.activations) + 1,
            "customer_id": self._chance.randrange(1, self._filled.licenses // 3),
            "product_id": self._chance.randrange(1, PRODUCTS),
            "product": self._chance.randrange(1, PRODUCTS),
            "id": self._chance.randrange(1, PRODUCTS),
            "fingerprint": f"device-{number}",
            "now": self.now,
            "limit": _LIMIT,
            "after_id": 0,
            "page": 1,
            "per_page": _LIMIT,
            "paging": Paging(limit=_LIMIT),
            "days": (7, 1),
        }

    def build(self, kind: type[Query], **values: Any) -> Query:
        """Build a query of this kind; the given values replace defaults."""
        needed = {one.name for one in msgspec.structs.fields(kind) if one.required}
        usual = {name: value for name, value in self._values().items() if name in needed}
        return kind(**usual | values)

    def questions(self) -> dict[str, Callable[[], Query]]:
        """All queries whose cost could depend on the number of licenses."""
        few = {name for names in FEW.values() for name in names.split()}
        asked = (one for one in QUERY_HANDLERS if one.__name__ not in few)
        found: dict[str, Callable[[], Query]] = {one.__name__: partial(self.build, one) for one in asked}
        of = self._values
        more: dict[str, Callable[[], dict[str, Any]]] = {
            "FindLicenses": lambda: {"where": LicenseFilter()},
            "ListLicenses": lambda: {"where": LicenseFilter()},
            "ListLicenses, the last page": lambda: {
                "where": LicenseFilter(),
                "page": self._filled.licenses // _LIMIT,
            },
            "ListManaged": lambda: {"search": Search()},
            "ListManaged, of a product": lambda: {"search": Search(product_id=2)},
            "ListManaged, of a reseller": lambda: {"search": Search(customer_id=RESELLER)},
            "ListManaged, counted": lambda: {"search": Search(), "is_counted": True},
            "ListPeriods": lambda: {"where": PeriodFilter()},
            "CheckForUpdate": lambda: {"key": of()["key"]},
            "SearchManaged": lambda: {"key": of()["key"]},
            "SearchManaged, text": lambda: {"text": "render farm"},
            "SearchManaged, token": lambda: {"token": self._chance.choice(self._filled.some_tokens)},
            "ListActivations, of the busiest": lambda: {"license_id": self._filled.busy_id},
            "ListFeed, the newest": lambda: {"since": self.now - timedelta(days=1)},
            "ListFeed, of a type": lambda: {"name": "license.created"},
            "LookAtFeed": lambda: {"after_id": 1},
            "GetCustomer": lambda: {"id": of()["customer_id"]},
        }
        kinds = {one.__name__: one for one in QUERY_HANDLERS}

        def build(kind: type[Query], values: Callable[[], dict[str, Any]]) -> Query:
            return self.build(kind, **values())

        for name, values in more.items():
            found[name] = partial(build, kinds[name.partition(",")[0]], values)
        return found

    def commands(self) -> dict[str, Callable[[], Command]]:
        """Calls that change something, and one step of each background loop."""
        context, before = Context(self.now, _ORIGIN), self.now - timedelta(days=400)

        def device() -> Command:
            number = self._chance.randrange(1 << 40)
            return ActivateDevice(
                context=context, license=self._values()["key"], device=Device(fingerprint=f"new-{number}")
            )

        return {
            "Activate": lambda: Activate(context=context, license=self._values()["key"]),
            "ActivateDevice": device,
            "PassMoments": lambda: PassMoments(context=context, days=(7, 1)),
            "PassMoments, again": lambda: PassMoments(context=context, days=(7, 1), after=Place(0, 0)),
            "ProjectEvents": lambda: ProjectEvents(context=context, limit=500),
            "SettleEvents": lambda: SettleEvents(context=context),
            "CountDevices": lambda: CountDevices(context=context),
            "PurgeMails": lambda: PurgeMails(context=context, keep_days=30),
            **{one.__name__: partial(one, context=context, before=before) for one in _PURGES},
        }


def measure(folder: Path, database: Database, licenses: int) -> Grown:
    """Create an installation, and measure it."""
    filled = fill(folder, database, licenses, partial(print, file=sys.stderr))
    asked, costs = Asked(filled, random.Random(licenses)), dict[str, Cost]()
    with opened(filled.data_dir, database) as storage:
        executor, meter = open_executor(storage), _Meter()
        with meter.counting():
            for name, question in asked.questions().items():
                costs[name] = _cost(storage, meter, partial(_ask, executor, question))
            for name, command in asked.commands().items():
                costs[f"{name} (step)"] = _cost(storage, meter, partial(_do, executor, command))
        sizes = _list_sizes(storage)
    return Grown(licenses, costs, sizes, _time_commands(folder, filled.data_dir))


def _ask(executor: Executor, question: Callable[[], Query]) -> None:
    executor.query([question()])


def _do(executor: Executor, command: Callable[[], Command]) -> None:
    executor.execute([command()])


def _cost(storage: Storage, meter: _Meter, look: Callable[[], None]) -> Cost:
    seconds, statements, work = [], [], []
    look()
    for _ in range(_TIMES):
        meter.reset()
        began = time.perf_counter()
        look()
        seconds.append(time.perf_counter() - began)
        statements.append(meter.statements)
        work.append(meter.work(storage))
    middle = _TIMES // 2
    return Cost(sorted(seconds)[_TIMES * 95 // 100] * 1000, sorted(statements)[middle], sorted(work)[middle])


def _list_sizes(storage: Storage) -> dict[str, tuple[int, int]]:
    """The size of each table with its indexes, in bytes, and its row count."""
    bytes_of = (
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' "
        "AND relnamespace = 'public'::regnamespace"
        if isinstance(storage, PostgresStorage)
        else "SELECT tbl_name, sum(pgsize) FROM sqlite_schema JOIN dbstat USING (name) GROUP BY tbl_name"
    )
    with storage.read() as tx:
        found = {str(name): int(size) for name, size in tx.connection.execute(text(bytes_of))}
        counts = {
            name: tx.connection.exec_driver_sql(f'SELECT count(*) FROM "{name}"').scalar_one()  # noqa: S608
            for name in found
        }
    return {name: (size, counts[name]) for name, size in found.items() if counts[name]}


def _time_commands(folder: Path, data_dir: Path) -> dict[str, float]:
    """Time the commands that process everything, in seconds."""
    backup, seconds = folder / "backup.tar", dict[str, float]()
    # Put pg_dump and pg_restore of the server's version on PATH.
    variables = {**os.environ, "PATH": f"{binaries()}:{os.environ['PATH']}"}
    for words in (["backup", str(backup)], ["doctor"], ["restore", str(backup), "--overwrite"]):
        began = time.monotonic()
        command = [str(_PROGRAM), *words, "--data-dir", str(data_dir)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=data_dir, env=variables)
        seconds[words[0]] = time.monotonic() - began
    backup.unlink()
    return seconds


# --- output ---------------------------------------------------------------------------------------


def show(found: list[Grown]) -> Iterator[str]:
    """Yield Markdown tables: costs and times by installation, and measured and calculated sizes."""
    heads = [f"{one.licenses:,}" for one in found]
    yield f"| p95 ms, statements, work | {' | '.join(heads)} | |"
    yield f"|---|{'---|' * (len(heads) + 1)}"
    for name in found[0].costs:
        costs = [one.costs[name] for one in found]
        cells = [f"{one.p95:.1f}, {one.statements:.0f}, {one.work:,.0f}" for one in costs]
        yield f"| {name} | {' | '.join(cells)} | {'grows' if grows(found, name) else ''} |"
    for name in found[0].seconds:
        yield f"| {name}, seconds | {' | '.join(f'{one.seconds[name]:.1f}' for one in found)} | |"
    yield ""
    yield from _show_sizes(found)


def grows(found: list[Grown], name: str) -> bool:
    """Whether the work grows by more than a third of the installations' growth, and more than doubles."""
    first, last = found[0], found[-1]
    before, after = (max(one.costs[name].work, 1) for one in (first, last))
    return len(found) > 1 and after / before > max(last.licenses / first.licenses / 3, 2)


def bytes_per_row(small: tuple[int, int], large: tuple[int, int]) -> float:
    """The size of one more row, from two sizes of a table, each in bytes and rows."""
    rows = large[1] - small[1]
    return (large[0] - small[0]) / rows if rows else 0.0


def _show_sizes(found: list[Grown]) -> Iterator[str]:
    if len(found) < 2:
        return
    yield "| bytes per row, including indexes | measured | calculated |"
    yield "|---|---|---|"
    small, large = found[-2], found[-1]
    rows = {name: bytes_per_row(small.sizes[name], large.sizes[name]) for name in small.sizes}
    total = sum(size for size, _ in large.sizes.values())
    for name, of_row in sorted(rows.items(), key=lambda pair: -large.sizes[pair[0]][0]):
        if large.sizes[name][0] < total / 200:
            continue
        calculated = ""
        if len(found) > 2:
            earlier = bytes_per_row(found[-3].sizes[name], small.sizes[name])
            size = small.sizes[name][0] + earlier * (large.sizes[name][1] - small.sizes[name][1])
            calculated = f"{format_size(int(size))} for {format_size(large.sizes[name][0])}"
        yield f"| {name} | {of_row:,.0f} | {calculated} |"
    yield ""
    yield from _show_year(rows)


def _show_year(bytes_of: Mapping[str, float]) -> Iterator[str]:
    """Yield the size after a year with 100 activations per second, each of a new device with name and
    address.
    """
    activations = 100 * 365 * 86_400
    terms = 3 * bytes_of.get("search_terms", 0.0)
    parts = {
        "activations": activations * bytes_of["activations"],
        "events": activations * bytes_of["events"],
        "search_terms": activations * terms,
    }
    yield f"A year with 100 activations per second: {activations:,} rows of each;"
    yield ", ".join(f"{name} {format_size(int(size))}" for name, size in parts.items())


@contextmanager
def _databases(name: str) -> Iterator[Database]:
    if name == "sqlite":
        yield Database()
        return
    server = a_server()
    try:
        server.start()
        yield Postgres(server, 1)
    finally:
        server.remove()


def main() -> None:
    """Measure installations of the given sizes."""
    found: list[Grown] = []
    with _databases("postgresql" if "postgresql" in sys.argv else "sqlite") as database:
        for licenses in (int(one) for one in sys.argv[1:] if one.isdecimal()):
            with TemporaryDirectory(prefix="keywright-grown-") as folder:
                found.append(measure(Path(folder), database, licenses))
    print("\n".join(show(found)))


if __name__ == "__main__":
    main()
