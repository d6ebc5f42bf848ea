"""Benchmark Keywright on this machine, with the real server in a separate process."""

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal, NoReturn

import typer
from rich.console import Console

from benchmarks import (
    attacks,
    beside,
    capacity,
    clients,
    contention,
    following,
    lag,
    leases,
    machine,
    pages,
    servers,
    shops,
    sizes,
    throughput,
    v3,
    visits,
    webhooks,
    wrk,
)
from benchmarks import processes as process
from benchmarks.databases import Database, Postgres, a_server
from benchmarks.installations import Filled, fill
from benchmarks.report import Report, save, show

_SMALL, _LARGE = 10_000, 1_000_000
_ALWAYS = (*throughput.CASES, "startup", "listing")
_PARTS = (
    *_ALWAYS,
    "doctor",
    "beside",
    "lag",
    "backlog",
    "following",
    "leases",
    "shops",
    "webhooks",
    "pages",
    "visits",
    "portal",
    "sizes",
    "contention",
    "capacity",
    "attacks",
    "against",
    "v3",
    "clients",
)
_LONGEST = 3600
_HELP = (
    "Measure how fast Keywright is on this machine.\n\n"
    "wrk sends requests for random keys to a server with default settings, on a temporary "
    "database of licenses with three activations each. Each rate is compared with that of a constant "
    "response of the same size from the same server."
)

_progress = Console(stderr=True, highlight=False)


def _parts(text: str | None) -> frozenset[str]:
    parts = frozenset(text.replace(" ", "").split(",")) if text else frozenset(_ALWAYS)
    unknown = sorted(parts.difference(_PARTS))
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; choose from {', '.join(_PARTS)}")
    return parts


def _say(message: str) -> None:
    _progress.print(message, style="dim")


class _Bench:
    """Runs the measurements; creates installations on demand."""

    def __init__(self, folder: Path, database: Database, other: Path | None) -> None:
        self.folder = folder
        self.database = database
        self.other = other
        self._filled: dict[int, Filled] = {}

    def filled(self, licenses: int) -> Filled:
        if licenses not in self._filled:
            self._filled[licenses] = fill(self.folder, self.database, licenses, _say)
        return self._filled[licenses]

    def measure(self, report: Report, parts: frozenset[str]) -> None:
        cases = parts.intersection(throughput.CASES)
        if cases:
            report.throughput = throughput.measure(
                self.filled(report.licenses), sorted(cases), report.seconds, report.rounds, _say
            )
        if "startup" in parts:
            report.start_up = process.measure_start_up(self.filled(report.licenses), self.folder, _say)
        if "listing" in parts:
            enough = max(report.licenses, process.LISTED)
            report.listing = process.measure_listing(self.filled(enough), _say)
        if "doctor" in parts:
            report.doctor = process.measure_doctor(self.filled(report.licenses), _say)
        self._measure_v3(report, parts)
        self._measure_without_pages(report, parts)
        self._measure_large(report, parts)
        self._measure_program(report, parts)
        if "capacity" in parts and isinstance(self.database, Postgres):
            report.capacity = capacity.measure(
                self.filled(report.licenses), self.database, report.seconds, _say
            )
        if "contention" in parts:
            report.contention = contention.measure(self.folder, self.database, _say)

    def _measure_v3(self, report: Report, parts: frozenset[str]) -> None:
        """Measure calls of v3."""
        if "v3" in parts:
            report.v3 = v3.measure(self.filled(report.licenses), report.seconds, report.rounds, _say)
        if "clients" in parts:
            report.clients = clients.measure(self.folder, _say)
        if "shops" in parts:
            report.shops = shops.measure(self.filled(report.licenses), report.seconds, report.rounds, _say)
        if "webhooks" in parts:
            report.webhooks = webhooks.measure(
                self.filled(report.licenses), report.seconds, report.rounds, _say
            )
        if "leases" in parts:
            report.leases = leases.measure(self.filled(report.licenses), report.seconds, report.rounds, _say)

    def _measure_without_pages(self, report: Report, parts: frozenset[str]) -> None:
        """Compare with a server without administration pages and their background work."""
        if "beside" in parts:
            report.beside = beside.compare_pages(
                self.filled(report.licenses), report.seconds, report.rounds, _say
            )
        if "lag" in parts:
            report.lag = lag.measure(self.filled(report.licenses), report.seconds, _say)
        if "backlog" in parts:
            report.backlog = lag.measure_backlog(
                self.filled(report.licenses), report.seconds, report.rounds, _say
            )
        if "following" in parts and isinstance(self.database, Postgres):
            report.following = following.measure(self.filled(report.licenses), report.seconds, _say)

    def _measure_program(self, report: Report, parts: frozenset[str]) -> None:
        """Measure what also works with another installed version."""
        if "against" in parts and self.other is not None:
            report.against = beside.compare_programs(
                self.folder / "against",
                self.database,
                report.licenses,
                [str(self.other)],
                seconds=report.seconds,
                rounds=report.rounds,
                say=_say,
            )
        if "attacks" in parts:
            program = servers.keywright() if self.other is None else [str(self.other)]
            report.attacks = attacks.measure(self.folder, self.database, program, report.seconds, _say)

    def _measure_large(self, report: Report, parts: frozenset[str]) -> None:
        """Measure what is only interesting with very many licenses."""
        large = report.licenses if report.licenses > _SMALL else _LARGE
        if "pages" in parts:
            report.pages = pages.measure(self.folder, self.database, large, _say)
        if "visits" in parts:
            report.visits = visits.measure(self.folder, self.database, large, report.rounds, _say)
        if "portal" in parts:
            report.portal = visits.measure_portal(self.folder, self.database, large, _say)
        if "sizes" in parts:
            both = self.filled(large), self.filled(_SMALL)
            report.sizes = sizes.compare(*both, report.seconds, _say)


@contextmanager
def _running(database: str, workers: int) -> Iterator[Database]:
    if database == "sqlite":
        yield Database()
        return
    server = a_server()
    try:
        server.start()
        yield Postgres(server, workers)
    finally:
        server.remove()


def bench(
    *,
    licenses: Annotated[
        int, typer.Option(metavar="N", min=1_000, max=10_000_000, help="The number of licenses.")
    ] = _SMALL,
    seconds: Annotated[
        int, typer.Option(metavar="S", min=1, max=_LONGEST, help="The duration of each measurement.")
    ] = 5,
    rounds: Annotated[
        int, typer.Option(metavar="R", min=1, max=100, help="The number of rounds; medians are shown.")
    ] = 1,
    database: Annotated[
        Literal["sqlite", "postgresql"], typer.Option(help="The database to use.")
    ] = "sqlite",
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="The number of server processes (PostgreSQL).")
    ] = 1,
    only: Annotated[
        str | None,
        typer.Option(metavar="PART,…", help=f"Measure only some of: {', '.join(_PARTS)}."),
    ] = None,
    with_sizes: Annotated[
        bool,
        typer.Option("--compare-sizes", help=f"Compare with {_SMALL:,} licenses; by default, {_LARGE:,}."),
    ] = False,
    with_contention: Annotated[
        bool, typer.Option("--contention", help="Let many clients compete for a few places.")
    ] = False,
    other: Annotated[
        Path | None,
        typer.Option(
            "--server",
            metavar="FILE",
            exists=True,
            resolve_path=True,
            help="Another installed keywright: compare with it (against), or attack it (attacks).",
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures to this file.")
    ] = None,
) -> None:
    """Measure and print the figures; exit with status 1 if a place was given out twice or not at all."""
    added = {"sizes": with_sizes, "contention": with_contention}
    parts = _parts(only) | {part for part, is_added in added.items() if is_added}
    if parts - {"startup", "listing", "doctor", "pages", "portal", "contention", "attacks"}:
        wrk.require()
    if "against" in parts and other is None:
        raise typer.BadParameter("“against” needs --server with another keywright", param_hint="--only")
    if (about := sorted(parts & {"capacity", "following"})) and database == "sqlite":
        raise typer.BadParameter(f"{about[0]} needs PostgreSQL", param_hint="--only")
    if processes > 1 and database == "sqlite":
        raise typer.BadParameter("SQLite supports one server process", param_hint="--processes")
    with tempfile.TemporaryDirectory(prefix="keywright-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with _running(database, processes) as chosen:
            report = Report(
                machine.look_around(folder),
                chosen.name,
                processes,
                licenses,
                seconds,
                rounds,
                servers.limits(),
            )
            _Bench(folder, chosen, other).measure(report, parts)
    show(report, Console())
    if json_file is not None:
        save(report, json_file)
    if report.contention is not None and not report.contention.is_right:
        raise typer.Exit(1)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run the benchmark; Ctrl-C and SIGTERM stop it and everything it started."""
    signal.signal(signal.SIGTERM, _stop)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=_HELP)(bench)
    try:
        app(prog_name="python -m benchmarks", standalone_mode=True)
    except (wrk.Missing, RuntimeError) as problem:
        sys.exit(f"Error: {problem}")


if __name__ == "__main__":
    main()
