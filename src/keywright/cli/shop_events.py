"""``keywright connection events``, and the commands that process the events of shops again."""

from datetime import datetime, timedelta
from typing import Annotated

import typer

from keywright.cli import connections, output
from keywright.cli.connections import ConnectionId
from keywright.cli.events import parse_past_moment
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, WrongUsage, command, with_installation
from keywright.cli.tables import Limit, print_list
from keywright.core.parsing import parse_integer
from keywright.provisioning.shops import commands as shop_commands
from keywright.provisioning.shops import event_rules
from keywright.provisioning.shops.model import EventState, OpenedConnection, RemovedSales, StoredEvent
from keywright.provisioning.shops.reconciling import list_running, list_sold, mend

#: ``keywright connection``, to which this module adds commands.
app = connections.app

_LATER = "A running server processes it within seconds."
#: The most unreadable orders whose reason is shown.
_MAX_SHOWN = 20


@command(app, "keywright connection events 1 --state unmatched")
@with_installation
def events(
    here: Installation,
    connection_id: ConnectionId,
    *,
    state: Annotated[
        EventState | None, typer.Option(metavar="STATE", help="waiting, unmatched, done or ignored.")
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List the events that a shop sent, oldest first, with the outcome of each."""
    print_list(
        here,
        lambda paging: shop_commands.ListShopEvents(connection_id=connection_id, state=state, paging=paging),
        limit=limit,
        as_json=as_json,
        columns=("id", "received at", "name", "order", "state", "reason", "detail"),
        to_row=_event_row,
        to_json=output.shop_event_json,
    )


@command(app, "keywright connection retry 1 12", "keywright connection retry 1 12 --overwrite")
@with_installation
def retry(
    here: Installation,
    connection_id: ConnectionId,
    event_id: Annotated[int, typer.Argument(metavar="EVENT", parser=parse_integer, help="The event's ID.")],
    *,
    is_forced: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite manual changes that conflict with the shop.")
    ] = False,
) -> None:
    """Process an event again that waits for a decision or changed nothing.

    Correct what was missing first, such as the mapping.
    """
    command = shop_commands.TryAgain(
        context=here.context, connection_id=connection_id, event_id=event_id, overwrite=is_forced
    )
    here.change(command)
    output.print_line(f"Event {event_id} is queued again. {_LATER}")


@command(app, "keywright connection replay 1 --since 2026-11-01")
@with_installation
def replay(
    here: Installation,
    connection_id: ConnectionId,
    *,
    since: Annotated[
        datetime,
        typer.Option(
            metavar="TIME",
            parser=parse_past_moment,
            help="Events received since then: 2h, 7d, or a time (UTC).",
        ),
    ],
) -> None:
    """Process all events again that were received since a time.

    No license is made twice, and no change that was made by hand is overwritten.
    """
    last: int | None = 0
    while last is not None:
        command = shop_commands.ReplayEvents(
            context=here.context, connection_id=connection_id, since=since, after_id=last
        )
        last = here.change(command)
    output.print_line(f"The events of connection {connection_id} are queued again. {_LATER}")


@command(app, "keywright connection reconcile 1 --days 7", "keywright connection reconcile 1 --dry-run")
@with_installation
def reconcile(
    here: Installation,
    connection_id: ConnectionId,
    *,
    days: Annotated[
        int, typer.Option(metavar="DAYS", min=1, max=90, help="How many days back to ask the shop.")
    ] = 7,
    sells_again: Annotated[
        bool,
        typer.Option("--sell-again", help="Also make licenses for sales of a removed connection."),
    ] = False,
    is_dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show subscriptions whose licenses differ from what is paid; change nothing."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import recent sales that did not arrive, from the shop's API.

    The shop is asked for its sales of the last days and for its current subscriptions, whose licenses are
    corrected. The connection needs an API key. Sales that are already known are not imported again; those
    that cannot be read wait in the list of events. If a removed connection to the shop has sold licenses,
    the command fails without changing anything, unless you use --sell-again.
    """
    opened = here.ask(shop_commands.OpenConnection(connection_id=connection_id))
    if not (sells_again or is_dry_run):
        _require_nothing_removed(here, connection_id)
    total = missing = 0
    unreadable: list[str] = []
    sold = () if is_dry_run else list_sold(opened, here.now - timedelta(days=days), here.context)
    for one in sold:
        total += 1
        missing += here.change(one) is not None
        if one.event is None:
            unreadable.append(one.detail or "")
    different = _find_different(here, opened, is_dry_run=is_dry_run)
    if as_json:
        found = {"found": total, "missing": missing, "unreadable": unreadable}
        output.print_json(found | {"different": different})
        return
    for subscription, difference in different.items():
        output.print_line(f"Subscription {subscription}: {difference}.")
    if is_dry_run:
        output.print_line(f"Subscriptions whose licenses differ from what is paid: {len(different):,}.")
    else:
        _print_reconciled(total, missing, unreadable)


def _require_nothing_removed(here: Installation, connection_id: int) -> None:
    removed: list[RemovedSales] = here.ask(shop_commands.ListRemovedSales(connection_id=connection_id))
    if removed:
        first = removed[0]
        raise WrongUsage(
            f"Connection {first.connection_id}, which was removed, has sold {first.licenses:,} licenses. "
            f"Their orders would be sold again. Run `keywright connection take-over {connection_id} "
            f"{first.connection_id}` first, or add --sell-again if that was another shop."
        )


def _print_reconciled(total: int, missing: int, unreadable: list[str]) -> None:
    output.print_line(f"The shop reported {total:,} changes; {missing:,} of them were missing. {_LATER}")
    for reason in unreadable[:_MAX_SHOWN]:
        output.print_line(f"One change cannot be read, and waits in the list of events: {reason}")
    if len(unreadable) > _MAX_SHOWN:
        output.print_line(f"{len(unreadable):,} changes cannot be read.")


def _find_different(here: Installation, opened: OpenedConnection, *, is_dry_run: bool) -> dict[str, str]:
    """Return the subscriptions whose licenses differ from what is paid, each with the difference; correct
    them, unless it is a dry run.
    """
    different: dict[str, str] = {}
    for event in list_running(opened):
        difference = here.ask(shop_commands.FindDifference(connection_id=opened.connection.id, event=event))
        if difference is not None:
            different[event_rules.order_of(event.change) or ""] = difference
            if not is_dry_run:
                here.change(mend(opened, event, here.context, difference))
    return different


def _event_row(one: StoredEvent) -> tuple[object, ...]:
    reason = None if one.reason is None else one.reason.value
    received_at = output.format_time(one.received_at)
    return (one.id, received_at, one.name, one.order_ref, one.state.value, reason, one.detail)
