"""``keywright lease …`` and ``keywright usage …``"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from keywright.cli import output
from keywright.cli.events import parse_moment
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, Key, command, with_installation
from keywright.core.nouns import ItemPage
from keywright.licensing.leases.model import EndLease, Lease, ListLeases
from keywright.licensing.leases.rules import is_over
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.management import GetLicense, ManagedLicense
from keywright.licensing.usage.model import ListPeriods, MeterUsage, PeriodFilter
from keywright.licensing.usage.rules import begin, resets_at
from keywright.provisioning import exporters

app = typer.Typer(no_args_is_help=True)
usage_app = typer.Typer(no_args_is_help=True)

_From = Annotated[
    datetime | None,
    typer.Option(
        "--from",
        metavar="TIME",
        parser=parse_moment,
        help="Only periods that start at this time or later (UTC).",
    ),
]
_To = Annotated[
    datetime | None,
    typer.Option(
        "--to", metavar="TIME", parser=parse_moment, help="Only periods that start before this time (UTC)."
    ),
]
_MAX_LEASES = 10_000
_PAGE = 1_000

_LeaseId = Annotated[
    str, typer.Argument(metavar="LEASE", help="The lease's ID; `keywright lease list` shows it.")
]


@command(app, "keywright lease list KEY", name="list")
@with_installation
def list_leases(here: Installation, key: Key, *, as_json: AsJson = False) -> None:
    """List the leases of a license, newest first.

    The list includes the latest leases that ended without being released, and has at most 10,000 leases.
    """
    license = here.get_license(key).license
    page: ItemPage[Lease] = here.ask(ListLeases(license_id=license.id, limit=_MAX_LEASES))
    if as_json:
        output.print_json_array(output.lease_json(one, here.now) for one in page.items)
        return
    columns = ("lease", "holder", "taken at", "ends at", "state")
    output.print_table(columns, [_lease_row(one, here) for one in page.items])


@command(app, "keywright lease release KEY 0f1e2d3c4b5a69788796a5b4c3d2e1f0")
@with_installation
def release(here: Installation, key: Key, lease_id: _LeaseId) -> None:
    """End a lease, so that it is free at once.

    At its next validation, the program gets the answer that its lease is lost; at its next renewal, it takes
    a lease again if one is free. To stop a program for good, release its activation or disable the license.
    """
    here.change(EndLease(context=here.context, license=key, lease_id=lease_id))
    output.print_line("Lease released.")


@command(usage_app, "keywright usage show KEY")
@with_installation
def show(here: Installation, key: Key, *, as_json: AsJson = False) -> None:
    """Show how much of each meter a license has used in the current period."""
    license = here.get_license(key).license
    managed: ManagedLicense = here.ask(GetLicense(license_id=license.id, now=here.now))
    usage = {
        name: {"used": managed.usage[name]}
        | msgspec.to_builtins(meter)
        | {"resets_at": msgspec.to_builtins(resets_at(begin(license, name, meter.per, here.now)))}
        for name, meter in terms_of(license).meters.items()
    }
    if as_json:
        output.print_json(usage)
        return
    columns = ("meter", "used", "limit", "per", "more", "resets at")
    output.print_table(columns, [_usage_row(name, one) for name, one in usage.items()])


@command(usage_app, "keywright usage list --closed", "keywright usage list KEY --meter exports", name="list")
@with_installation
def list_usage(
    here: Installation,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The license. Default: all licenses.")
    ] = None,
    *,
    meter: Annotated[str | None, typer.Option(help="Only this meter.")] = None,
    since: _From = None,
    until: _To = None,
    closed: Annotated[
        bool, typer.Option("--closed", help="Only closed periods, which no longer change.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the usage of each meter by period, for billing; it includes deleted licenses."""
    where = PeriodFilter(
        license_id=None if key is None else here.get_license(key).license.id,
        meter=meter,
        since=since,
        until=until,
        is_closed=closed or None,
    )
    found = _list_periods(here, where)
    if as_json:
        shown = (dict(zip(exporters.USAGE, exporters.period_row(one), strict=True)) for one in found)
        output.print_json_array(map(msgspec.to_builtins, shown))
        return
    columns = ("license", "meter", "from", "to", "used", "limit", "over limit", "closed")
    output.print_table(columns, [_period_row(one) for one in found])


def _list_periods(here: Installation, where: PeriodFilter) -> Iterator[MeterUsage]:
    after = None
    while True:
        page: ItemPage[MeterUsage] = here.ask(ListPeriods(where=where, after=after, limit=_PAGE))
        yield from page.items
        if len(page.items) < _PAGE:
            return
        after = page.items[-1].place


def _period_row(one: MeterUsage) -> tuple[object, ...]:
    end = resets_at(one)
    times = output.format_time(one.period_start), None if end is None else output.format_time(end)
    closed = "yes" if one.closed_at else "no"
    return (one.license_id, one.meter, *times, one.used, one.meter_limit, one.overage, closed)


def _lease_row(one: Lease, here: Installation) -> tuple[object, ...]:
    state = "ended" if is_over(one, here.now) else "held"
    times = output.format_time(one.created_at), output.format_time(one.expires_at)
    return (one.lease_id, one.holder, *times, state)


def _usage_row(name: str, one: dict[str, Any]) -> tuple[object, ...]:
    more = "allowed" if one["overage"] == "allow" else "refused"
    return (name, one["used"], one["limit"], one["per"], more, one["resets_at"])
