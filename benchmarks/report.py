"""Report the figures as tables and as JSON."""

from pathlib import Path

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.attacks import Attacks
from benchmarks.beside import Beside
from benchmarks.capacity import ACTIVATIONS, VALIDATIONS, Capacity
from benchmarks.contention import Contention
from benchmarks.following import IMPORTED, Following
from benchmarks.lag import BACKLOG, Backlog, ProjectorLag
from benchmarks.leases import LEASES, Leases
from benchmarks.machine import Machine
from benchmarks.pages import Pages
from benchmarks.processes import Doctor, Listing, StartUp
from benchmarks.shops import Shops
from benchmarks.sizes import Sizes
from benchmarks.throughput import CONSTANT, Row, Throughput
from benchmarks.v3 import V3Ratio
from benchmarks.visits import Visits
from benchmarks.webhooks import DEAD, ENDPOINTS, Webhooks


class Report(msgspec.Struct):
    """The measurements; None if not requested."""

    machine: Machine
    database: str
    processes: int
    licenses: int
    seconds: int
    rounds: int
    #: The limits of most measured servers, see ``servers.limits``.
    limits: dict[str, int]
    throughput: Throughput | None = None
    start_up: StartUp | None = None
    listing: Listing | None = None
    doctor: Doctor | None = None
    beside: list[Beside] = []
    against: list[Beside] = []
    lag: ProjectorLag | None = None
    backlog: list[Backlog] = []
    following: Following | None = None
    pages: Pages | None = None
    visits: Visits | None = None
    portal: Visits | None = None
    sizes: Sizes | None = None
    contention: Contention | None = None
    leases: Leases | None = None
    shops: Shops | None = None
    webhooks: Webhooks | None = None
    capacity: Capacity | None = None
    attacks: Attacks | None = None
    v3: list[V3Ratio] = []
    #: The times of client operations, in milliseconds.
    clients: dict[str, float] = {}


def save(report: Report, file: Path) -> None:
    """Write the report as JSON."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def show(report: Report, console: Console) -> None:
    """Print the report as tables."""
    if report.throughput is not None:
        console.print(_throughput(report, report.throughput))
    if report.pages is not None:
        console.print(_pages(report, report.pages))
    if report.visits is not None:
        console.print(_visits(report, report.visits))
        console.print(_meanwhile(report.visits))
    if report.portal is not None:
        console.print(_visits(report, report.portal))
    console.print(_figures(report))
    if report.contention is not None:
        console.print(_contention(report.contention))
    if report.capacity is not None:
        console.print(_capacity(report.capacity))
    if report.attacks is not None:
        console.print(_attacks(report, report.attacks))
        console.print(_attackers(report.attacks))


def _throughput(report: Report, measured: Throughput) -> Table:
    processes = "one server process" if report.processes == 1 else f"{report.processes} server processes"
    title = (
        f"{report.database}, {processes}, {report.licenses:,} licenses, {report.seconds} s each; "
        "ratios are to the constant response"
    )
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("call")
    for name in ("connections", "requests/s", "p50 ms", "p99 ms", "non-2xx", "CPU µs", "ratio"):
        table.add_column(name, justify="right")
    case = ""
    for row in measured.rows:
        if case not in ("", row.case):
            table.add_section()
        table.add_row(*_cells(row, is_first=row.case != case))
        case = row.case
    return table


def _cells(row: Row, *, is_first: bool) -> list[str]:
    ratio = "" if row.case == CONSTANT else f"{row.ratio:.2f}"
    processor = "" if row.processor_us is None else f"{row.processor_us:.0f}"
    rate, latencies = f"{row.per_second:,.0f}", [f"{row.p50_ms:.2f}", f"{row.p99_ms:.2f}"]
    name = row.case if is_first else ""
    return [name, str(row.connections), rate, *latencies, f"{row.failed:,}", processor, ratio]


def _pages(report: Report, found: Pages) -> Table:
    title = (
        f"{report.database}, {found.licenses:,} licenses, {found.activations:,} activations; not full: the "
        "time budget ran out"
    )
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("page")
    for name in ("p50 ms", "p95 ms", "CPU ms", "not full"):
        table.add_column(name, justify="right")
    for about, rows in found.rows.items():
        table.add_row(about)
        for row in rows:
            times = [f"{figure:.1f}" for figure in (row.p50_ms, row.p95_ms, row.processor_ms)]
            table.add_row(f"  {row.page}", *times, f"{row.incomplete} of {row.times}")
        table.add_section()
    return table


def _visits(report: Report, found: Visits) -> Table:
    title = f"{report.database}, {found.licenses:,} licenses, {found.activations:,} activations; over HTTP"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("page")
    for name in ("p50 ms", "p95 ms", "worst ms"):
        table.add_column(name, justify="right")
    for row in found.pages:
        table.add_row(row.page, *(f"{figure:.1f}" for figure in (row.p50_ms, row.p95_ms, row.worst_ms)))
    table.add_section()
    table.add_row("server memory before the first page", "", "", _mebibytes(found.before_mib))
    table.add_row("server memory after all pages", "", "", _mebibytes(found.after_mib))
    return table


def _meanwhile(found: Visits) -> Table:
    title = "validate, 16 connections, under background load; “alone” was measured right before"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in ("p99 ms", "alone", "ratio", "requests/s", "alone"):
        table.add_column(name, justify="right")
    for row in found.meanwhile:
        rates = [f"{figure:,.0f}" for figure in (row.per_second, row.per_second_alone)]
        table.add_row(row.what, f"{row.p99_ms:.1f}", f"{row.p99_alone_ms:.1f}", f"{row.ratio:.2f}", *rates)
    return table


def _figures(report: Report) -> Table:
    table = Table(show_header=False)
    rows = [*_memory(report), *_times(report), *_doctor(report.doctor), *_sizes(report.sizes)]
    rows += [
        *_lag(report),
        *_backlog(report.backlog),
        *_following(report.following),
        *_leases(report.leases),
        *_shops(report.shops),
        *_webhooks(report.webhooks),
    ]
    for name, figure in [*rows, *_beside([*report.beside, *report.against])]:
        table.add_row(name, figure)
    for one in report.v3:
        rates = " and ".join(f"{rate:,.0f}/s" for rate in one.rates)
        table.add_row(one.name, f"{one.ratio:.2f} ({rates}, {one.failed:,} non-2xx)")
        table.add_row("ratio of processor times", _ratio(one.processor_ratio))
    for name, milliseconds in report.clients.items():
        table.add_row(name, f"{milliseconds:.2f} ms")
    table.add_section()
    machine = report.machine
    table.add_row("processor", f"{machine.processor}, {machine.cores} cores")
    table.add_row("system", machine.system)
    table.add_row("Python, SQLite, Keywright", f"{machine.python}, {machine.sqlite}, {machine.keywright}")
    table.add_row("limits of the measured servers", _limits(report.limits))
    table.add_row("time to sync a page to disk", f"{machine.sync_ms:.2f} ms")
    return table


def _memory(report: Report) -> list[tuple[str, str]]:
    rows = []
    if report.throughput is not None:
        rows.append(("server memory at rest", _mebibytes(report.throughput.at_rest_mib)))
        rows.append(("server memory, peak under load", _mebibytes(report.throughput.peak_mib)))
    if report.listing is not None:
        licenses, seconds = report.listing.licenses, report.listing.seconds
        rows.append((f"memory growth, listing {licenses:,}", _mebibytes(report.listing.growth_mib)))
        rows.append((f"time to list {licenses:,}", f"{seconds:.1f} s"))
    return rows


def _times(report: Report) -> list[tuple[str, str]]:
    if report.start_up is None:
        return []
    return [
        ("keywright serve to first response", f"{report.start_up.serve_seconds:.2f} s"),
        ("same with a new data directory", f"{report.start_up.serve_new_seconds:.2f} s"),
        ("keywright --help", f"{report.start_up.help_seconds:.2f} s"),
    ]


def _doctor(doctor: Doctor | None) -> list[tuple[str, str]]:
    if doctor is None:
        return []
    return [
        (f"keywright doctor, {doctor.licenses:,} licenses", f"{doctor.seconds:.1f} s"),
        (f"findings, including {doctor.activations:,} activations", f"{doctor.findings:,}"),
        ("peak memory", _mebibytes(doctor.peak_mib)),
    ]


def _lag(report: Report) -> list[tuple[str, str]]:
    if report.lag is None:
        return []
    rows = [
        (f"events not projected after {report.lag.seconds} s", f"{report.lag.behind:,}"),
        ("time to catch up", f"{report.lag.catch_up_seconds:.1f} s"),
    ]
    for name, side in (("with", report.lag.with_projector), ("without", report.lag.without)):
        rate = f"{side.events_per_second:.0f} activations/s, {side.validations_per_second:.0f} validations/s"
        rows += [
            (f"{name} a projector", f"{rate}, load {side.load:.2f}"),
            ("validate", f"p50 {side.p50_ms:.1f} ms, p99 {side.p99_ms:.1f} ms"),
            ("activate", f"p99 {side.activation_p99_ms:.1f} ms"),
        ]
    return rows


def _following(found: Following | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    rows = [("projection rate of idle servers", f"{found.projected_per_second:,.0f}/s")]
    for one in found.rates:
        rows += [
            ("event rate under activations", f"{one.events_per_second:.0f}/s, {one.missing:,} IDs missing"),
            ("concurrent validate", f"p99 {one.validate_p99_ms:.1f} ms"),
        ]
        for name, (p50, p99) in (("listed", one.listed), ("delivered", one.delivered)):
            rows.append((f"time from commit until {name}", f"p50 {p50:.2f} s, p99 {p99:.2f} s"))
    return [
        *rows,
        (f"import of {IMPORTED:,} licenses", f"{found.import_seconds:.0f} s"),
        ("concurrent delivery of other events", f"at most {found.longest_beside_import:.2f} s"),
    ]


def _backlog(found: list[Backlog]) -> list[tuple[str, str]]:
    rows = []
    for one in found:
        rates = " ÷ ".join(f"{rate:,.0f}/s" for rate in one.rates)
        times = " ÷ ".join(f"{p99:.1f} ms" for p99 in one.p99_ms)
        left = f"at most {one.behind:,} events, the oldest {one.age_seconds:.0f} s old"
        rows += [
            (
                f"{one.case} with a backlog of {BACKLOG:,} events ÷ without",
                f"{one.ratio:.3f}, median of {one.pairs} pairs ({rates})",
            ),
            ("p99", f"{one.p99_ratio:.2f} ({times})"),
            ("processor time", _ratio(one.processor_ratio)),
            ("not projected after the load", left),
            ("time to catch up", f"at most {one.catch_up_seconds:.1f} s"),
        ]
    return rows


def _beside(found: list[Beside]) -> list[tuple[str, str]]:
    rows = []
    for one in found:
        low, high = one.quarters
        both, rates = " ÷ ".join(one.names), " ÷ ".join(f"{rate:,.0f}/s" for rate in one.rates)
        ratio = f"{one.ratio:.3f}, half of {one.pairs} pairs {low:.3f} to {high:.3f}"
        rows.append((f"{one.case}, rate {both}", ratio))
        rows.append((f"{one.case}, medians", rates))
        if one.processor_ratio is not None:
            rows.append((f"{one.case}, processor time {both}", f"{one.processor_ratio:.3f}"))
    return rows


def _leases(found: Leases | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    paced = found.paced
    return [
        ("renew ÷ activate", f"{found.ratio:.2f}"),
        ("medians", f"{found.renewed_per_second:,.0f}/s ÷ {found.activated_per_second:,.0f}/s"),
        ("processor time, renew ÷ activate", _ratio(found.processor_ratio)),
        (f"{LEASES:,} leases, each renewed once a minute", f"{paced.per_second:,.0f}/s"),
        ("latency", f"p50 {paced.p50_ms:.1f} ms, p99 {paced.p99_ms:.1f} ms, {paced.failed:,} failed"),
    ]


def _shops(found: Shops | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    times = f"p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms, of {found.sales:,}"
    return [
        (f"sale to license, under {found.activated_per_second:,.0f} activations/s", times),
        ("activate with sales ÷ without", f"{found.ratio:.3f}"),
    ]


def _webhooks(found: Webhooks | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    each = "unknown" if found.processor_ms is None else f"{found.processor_ms:.2f} ms"
    rows = [
        (f"deliveries to {ENDPOINTS} endpoints, {DEAD} of them dead", f"{found.per_second:,.0f}/s"),
        ("processor time per delivery", each),
    ]
    for one in found.beside:
        rates = " ÷ ".join(f"{rate:,.0f}/s" for rate in one.rates)
        rows += [
            (f"{one.case} with deliveries ÷ without", f"{one.ratio:.3f}, median of {one.pairs} pairs"),
            ("medians", f"{rates}, {one.delivered_per_second:,.0f} deliveries/s"),
            ("processor time", _ratio(one.processor_ratio)),
        ]
    return rows


def _sizes(sizes: Sizes | None) -> list[tuple[str, str]]:
    if sizes is None:
        return []
    return [
        (f"validate, {sizes.large:,} licenses", f"{sizes.large_per_second:,.0f}/s"),
        (f"validate, {sizes.small:,} licenses", f"{sizes.small_per_second:,.0f}/s"),
        (f"validate, {sizes.large:,} ÷ {sizes.small:,} licenses", f"{sizes.ratio:.2f}"),
    ]


def _contention(found: Contention) -> Table:
    title = f"{found.attempts:,} attempts to take {found.places:,} places"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_row("successes", f"{found.successes:,}")
    table.add_row("keys whose counts are not 1, 2 … limit", ", ".join(found.odd_keys) or "none")
    table.add_row("5xx responses", f"{found.server_errors:,}")
    statuses = (f"{status}: {number:,}" for status, number in found.answers_by_status.items())
    table.add_row("responses by status", ", ".join(statuses))
    table.add_row("inconsistencies in the database", "\n".join(found.contradictions) or "none")
    return table


def _capacity(found: Capacity) -> Table:
    title = f"Requirements of {VALIDATIONS:,} validations and {ACTIVATIONS:,} activations per second"
    table = Table(title=title, title_justify="left", show_header=False)
    for name, cost in (("a validation", found.validate), ("an activation", found.activate)):
        table.add_row(f"{name}: processor time of Keywright", f"{cost.keywright_us:.0f} µs")
        table.add_row(f"{name}: processor time of PostgreSQL", f"{cost.postgres_us:.0f} µs")
    table.add_row("an activation: write-ahead log", f"{found.activate.log_bytes:,.0f} bytes")
    table.add_row("an activation: growth of the database", f"{found.growth_bytes:,.0f} bytes")
    table.add_section()
    table.add_row("cores for Keywright, several machines or one", f"{found.cores('keywright_us'):.1f}")
    table.add_row("cores for PostgreSQL", f"{found.cores('postgres_us'):.1f}")
    table.add_row("write-ahead log", f"{found.log_per_second / 1e6:.1f} MB/s")
    return table


def _attacks(report: Report, found: Attacks) -> Table:
    title = f"{report.database}, {report.seconds} s each, {found.server}\n{_limits(found.limits)}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("honest caller", no_wrap=True)
    for name in ("calls", "failed", "p50 ms", "p99 ms", "changes\nfailed", "memory\nMiB", "disk\nMiB"):
        table.add_column(name, justify="right")
    for row in found.rows:
        one = row.honest
        figures = [f"{one.calls:,}", f"{one.failed:,}", f"{one.p50_ms:.1f}", f"{one.p99_ms:.1f}"]
        memory = "?" if row.memory_mib is None else f"{row.memory_mib:.0f}"
        changes = f"{one.changes_failed} of {one.changes}"
        table.add_row(row.name, *figures, changes, memory, f"{row.growth_mib:.1f}")
    return table


def _attackers(found: Attacks) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("attack", no_wrap=True)
    table.add_column("description")
    table.add_column("responses to the attackers")
    for row in found.rows:
        answers = ", ".join(f"{what}: {number:,}" for what, number in sorted(row.outcomes.items()))
        table.add_row(row.name, row.title, answers)
    return table


def _limits(limits: dict[str, int]) -> str:
    return ", ".join(f"{name} {limit:,}" for name, limit in sorted(limits.items()))


def _ratio(figure: float | None) -> str:
    return "unknown" if figure is None else f"{figure:.2f}"


def _mebibytes(figure: float | None) -> str:
    return "unknown" if figure is None else f"{figure:.0f} MiB"
