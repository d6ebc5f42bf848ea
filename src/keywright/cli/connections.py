"""``keywright connection …``"""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from keywright.cli import output
from keywright.cli.crud import with_fields
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, IsSure, command, with_installation, with_installation_made
from keywright.core.errors import NothingToChange
from keywright.core.parsing import format_count, parse_integer
from keywright.provisioning.shops.commands import (
    GetConnection,
    ListConnections,
    RemoveConnection,
    TakeOverSales,
)
from keywright.provisioning.shops.fields import (
    ConnectionFields,
    NewConnection,
    format_mapped,
    to_add,
    to_update,
)
from keywright.provisioning.shops.model import MAKE_SECRETS, Connection, OpenedConnection, Shop

app = typer.Typer(no_args_is_help=True)


ConnectionId = Annotated[int, typer.Argument(metavar="ID", parser=parse_integer, help="The connection's ID.")]


def _read_secrets(given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each secret that is a dash with a line of the standard input."""
    secrets = [name for name in ("secret", "api_key") if given.get(name) == "-"]
    return {**given, **{name: sys.stdin.readline().strip() for name in secrets}}


@command(
    app,
    "keywright connection add stripe --name Stripe --map price_1Pro=3 --secret - < secret.txt",
    "keywright connection add woocommerce --name Shop --url https://shop.example.com --map 17=3",
    "keywright connection add generic --name 'Our shop' --map '*=3'",
)
@with_installation_made
@with_fields(ConnectionFields, is_new=True)
def add(
    here: Installation,
    shop: Annotated[Shop, typer.Argument(metavar="SHOP", help=", ".join(Shop) + ".")],
    *,
    fields: Mapping[str, Any],
    as_json: AsJson = False,
) -> None:
    """Add a connection to a shop, and print the path to which the shop must send its events.

    --map maps a product of the shop (a price, variation, product or SKU) to the policy of its licenses.
    PRODUCT=3+4 makes a license with each policy; PRODUCT=3:devices makes a single license, with more places
    for a larger quantity; PRODUCT=3:renew and PRODUCT=3:upgrade change an existing license; PRODUCT=none
    makes no license. A * stands for any other product.

    The secret is printed once and never shown again. Without --secret, Keywright makes one; Stripe and
    Paddle make their own, which you set later with `keywright connection edit`. A dash as the value of
    --secret or --api-key reads a line of the standard input.
    """
    new = NewConnection(**{"shop": shop, "name": shop.value, **_read_secrets(fields)})
    opened: OpenedConnection = here.change(to_add(here.context, new))
    if as_json:
        output.print_json(output.connection_json(opened.connection) | {"secret": opened.secret})
        return
    output.print_heading(f"Connection {opened.connection.id} created")
    is_made_there = shop in MAKE_SECRETS and "secret" not in fields
    secrets = [] if is_made_there else [("secret", opened.secret)]
    output.print_fields([*_fields(opened.connection), *secrets])
    output.print_line("\nIn the shop, set the webhook's address to your server's address with this path.")
    if is_made_there:
        output.print_line("The shop creates a secret for the webhook. Save it here:")
        output.print_line(f"  keywright connection edit {opened.connection.id} --secret - < secret.txt")
    else:
        output.print_line("Save the secret now: it cannot be shown again.")


@command(app, name="list")
@with_installation
def list_connections(here: Installation, *, as_json: AsJson = False) -> None:
    """List the connections to shops."""
    found: list[Connection] = here.ask(ListConnections())
    if as_json:
        output.print_json_array(map(output.connection_json, found))
        return
    columns = ("id", "shop", "name", "mode", "products", "last event at", "failures")
    rows = [
        (
            one.id,
            one.shop.value,
            one.name,
            one.mode.value,
            len(one.mapping),
            output.format_time(one.last_event_at),
            one.failures,
        )
        for one in found
    ]
    output.print_table(columns, rows)


@command(app, "keywright connection show 1")
@with_installation
def show(here: Installation, connection_id: ConnectionId, *, as_json: AsJson = False) -> None:
    """Show a connection, without its secrets."""
    _print(here.ask(GetConnection(connection_id=connection_id)), f"Connection {connection_id}", as_json)


@command(
    app,
    "keywright connection edit 1 --map price_1Pro=3 --map '*=none'",
    "keywright connection edit 1 --secret - < new-secret.txt",
)
@with_installation
@with_fields(ConnectionFields, is_new=False)
def edit(
    here: Installation,
    connection_id: ConnectionId,
    *,
    fields: Mapping[str, Any],
    as_json: AsJson = False,
) -> None:
    """Change a connection: only what the options name is changed; --map replaces the whole mapping.

    --api-key '' removes the API key. A dash as the value of --secret or --api-key reads a line of the
    standard input.
    """
    if not fields:
        raise NothingToChange
    changes = ConnectionFields(**_read_secrets(fields))
    changed = here.change(to_update(here.context, connection_id, changes))
    _print(changed, f"Connection {connection_id} updated.", as_json)


@command(app, "keywright connection remove 1")
@with_installation
def remove(here: Installation, connection_id: ConnectionId, *, is_sure: IsSure = False) -> None:
    """Remove a connection and its events.

    Its licenses stay; further events of the shop are refused.
    """
    if not is_sure:
        typer.confirm(f"Remove connection {connection_id} and its events?", abort=True, err=True)
    here.change(RemoveConnection(context=here.context, connection_id=connection_id))
    output.print_line(f"Connection {connection_id} removed.")


@command(app, "keywright connection take-over 2 1")
@with_installation
def take_over(
    here: Installation,
    connection_id: ConnectionId,
    removed_id: Annotated[
        int, typer.Argument(metavar="REMOVED", parser=parse_integer, help="The removed connection.")
    ],
) -> None:
    """Let a connection take over the sales of a removed connection to the same shop.

    Their orders do not make licenses again, and renewals and refunds apply to their licenses.
    """
    taken = here.change(
        TakeOverSales(context=here.context, connection_id=connection_id, removed_id=removed_id)
    )
    output.print_line(f"Connection {connection_id} took over {format_count(taken, 'license')}.")


def _print(connection: Connection, heading: str, as_json: bool) -> None:
    if as_json:
        output.print_json(output.connection_json(connection))
        return
    output.print_heading(heading)
    output.print_fields(_fields(connection))


def _fields(connection: Connection) -> list[tuple[str, object]]:
    return [
        ("shop", connection.shop.value),
        ("name", connection.name),
        ("path", f"/in/{connection.shop.value}/{connection.id}"),
        ("mode", connection.mode.value),
        ("mapping", ", ".join(map(format_mapped, connection.mapping)) or None),
        ("API key", "set" if connection.has_api_key else None),
        ("address", connection.url),
        ("paid states", ", ".join(connection.paid_states) or None),
        ("external id name", connection.external_id_name),
        ("metadata names", ", ".join(connection.metadata_names) or None),
        ("mail", connection.mail_template or ("yes" if connection.sends_mail else "no")),
        ("canceled end", connection.on_cancel.value),
        ("missing topics", ", ".join(connection.missing_topics or ()) or None),
        ("last event at", output.format_time(connection.last_event_at)),
        ("failures", connection.failures),
    ]
