"""``keywright connection …``"""

import sys
from typing import Annotated, Any

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, IsSure, command, with_installation, with_installation_made
from keywright.core.errors import NothingToChange
from keywright.core.parsing import parse_name
from keywright.provisioning.shops.commands import (
    AddConnection,
    GetConnection,
    ListConnections,
    RemoveConnection,
    TakeOverSales,
    UpdateConnection,
)
from keywright.provisioning.shops.model import (
    MAKE_SECRETS,
    Connection,
    Does,
    MappedProduct,
    Mode,
    OnCancel,
    OpenedConnection,
    QuantityRule,
    Shop,
)

app = typer.Typer(no_args_is_help=True)


def _parse_mapped(text: str) -> MappedProduct:
    """``PRODUCT=POLICY``, ``PRODUCT=POLICY+POLICY``, ``PRODUCT=POLICY:WORD`` or ``PRODUCT=none``."""
    product, _, made = text.rpartition("=")
    policies, _, word = made.partition(":")
    try:
        does = Does(word) if word in (Does.RENEW, Does.UPGRADE) else Does.MAKE
        rule = QuantityRule(word or "keys") if does is Does.MAKE else QuantityRule.KEYS
        ids = () if policies == "none" else tuple(map(int, policies.split("+")))
    except ValueError:
        product = ""
    if not product:
        raise typer.BadParameter(
            "must be PRODUCT=POLICY, PRODUCT=POLICY+POLICY, PRODUCT=POLICY:devices, PRODUCT=POLICY:renew, "
            "PRODUCT=POLICY:upgrade or PRODUCT=none"
        )
    return MappedProduct(product, ids[0] if ids else None, rule, ids[1:], does)


def _format_mapped(one: MappedProduct) -> str:
    policies = "+".join(map(str, one.all_policy_ids)) or "none"
    words = [one.does.value] if one.does is not Does.MAKE else []
    words += ["devices"] if one.quantity is QuantityRule.DEVICES else []
    return ":".join([f"{one.product}={policies}", *words])


def _read_secret(text: str) -> str:
    """The text, or a line of the standard input for ``-``."""
    return sys.stdin.readline().strip() if text == "-" else text


ConnectionId = Annotated[int, typer.Argument(metavar="ID", min=1, help="The connection's ID.")]
_Name = Annotated[str | None, typer.Option(metavar="NAME", parser=parse_name, help="Its name in lists.")]
_Maps = Annotated[
    list[Any] | None,
    typer.Option(
        "--map",
        metavar="PRODUCT=POLICY",
        parser=_parse_mapped,
        help="A price, variation, product or SKU of the shop and the policy of its licenses. "
        "PRODUCT=3+4 makes one of each, PRODUCT=3:devices makes one license for more devices, "
        "PRODUCT=3:renew and PRODUCT=3:upgrade change an existing license, PRODUCT=none makes none; * is "
        "any other product. Repeat it.",
    ),
]
_Secret = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        parser=_read_secret,
        help="What the shop signs with; - reads it from the standard input. Without it, one is made.",
    ),
]
_ApiKey = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        parser=_read_secret,
        help="A restricted key of the shop's API; - reads it from the standard input.",
    ),
]
_Url = Annotated[
    str | None, typer.Option(metavar="URL", help="The shop's address, where it has one of its own.")
]
_States = Annotated[
    list[str] | None,
    typer.Option(
        "--paid-state", metavar="STATE", help="An order state that makes licenses; repeat it for more."
    ),
]
_Mode = Annotated[Mode | None, typer.Option(metavar="MODE", help="live or test: whose events make licenses.")]
_Mail = Annotated[
    bool | None, typer.Option("--mail/--no-mail", help="Whether buyers get a mail with their keys.")
]
_OnCancel = Annotated[
    OnCancel | None,
    typer.Option(
        metavar="WHEN", help="When canceled subscriptions end: paid_until, the usual one, or at_once."
    ),
]
_Template = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The mail's template: your_license, the usual one, or your_keys."),
]
_ExternalId = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The name in a sale's metadata that has the buyer's external_id."),
]
_Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata-name",
        metavar="NAME",
        help="A name in a sale's metadata: licenses get it under metadata.shop. Repeat it for more.",
    ),
]


@command(
    app,
    "keywright connection add stripe --name Stripe --map price_1Pro=3 --secret - < secret.txt",
    "keywright connection add woocommerce --name Shop --url https://shop.example.com --map 17=3",
    "keywright connection add generic --name 'Our shop' --map '*=3'",
)
@with_installation_made
def add(
    here: Installation,
    shop: Annotated[Shop, typer.Argument(metavar="SHOP", help=", ".join(Shop) + ".")],
    *,
    name: _Name = None,
    maps: _Maps = None,
    secret: _Secret = None,
    api_key: _ApiKey = None,
    url: _Url = None,
    paid_states: _States = None,
    mode: _Mode = None,
    mail: _Mail = None,
    mail_template: _Template = None,
    on_cancel: _OnCancel = None,
    external_id_name: _ExternalId = None,
    metadata_names: _Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Add a connection to a shop, and print where the shop is to send its events.

    The secret is printed now, and never again. Stripe and Paddle make it themselves.
    """
    connection = Connection(
        id=0,
        shop=shop,
        name=name or shop.value,
        mode=mode or Mode.LIVE,
        mapping=tuple(maps or ()),
        url=url,
        paid_states=tuple(paid_states or ()),
        sends_mail=mail is not False,
        mail_template=mail_template,
        on_cancel=on_cancel or OnCancel.PAID_UNTIL,
        external_id_name=external_id_name,
        metadata_names=tuple(metadata_names or ()),
        created_at=here.now,
        updated_at=here.now,
    )
    opened: OpenedConnection = here.change(
        AddConnection(context=here.context, connection=connection, secret=secret, api_key=api_key)
    )
    if as_json:
        output.print_json(output.connection_json(opened.connection) | {"secret": opened.secret})
        return
    output.print_heading(f"Connection {opened.connection.id} is made")
    is_made_there = shop in MAKE_SECRETS and secret is None
    secrets = [] if is_made_there else [("secret", opened.secret)]
    output.print_fields([*_fields(opened.connection), *secrets])
    output.print_line(
        "\nEnter your server's address with this path in the shop, as the address of its webhook."
    )
    if is_made_there:
        output.print_line("The shop makes a secret for it. Save that one here:")
        output.print_line(f"  keywright connection edit {opened.connection.id} --secret - < secret.txt")
    else:
        output.print_line("Keep the secret now: it cannot be shown again.")


@command(app, name="list")
@with_installation
def list_connections(here: Installation, *, as_json: AsJson = False) -> None:
    """List the connections."""
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
def edit(
    here: Installation,
    connection_id: ConnectionId,
    *,
    name: _Name = None,
    maps: _Maps = None,
    secret: _Secret = None,
    api_key: _ApiKey = None,
    url: _Url = None,
    paid_states: _States = None,
    mode: _Mode = None,
    mail: _Mail = None,
    mail_template: _Template = None,
    on_cancel: _OnCancel = None,
    external_id_name: _ExternalId = None,
    metadata_names: _Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Change a connection. What is not given stays; --map gives the whole mapping anew.

    --api-key '' takes the API key away.
    """
    given = {
        "name": name,
        "mapping": tuple(maps) if maps else None,
        "url": url,
        "paid_states": tuple(paid_states) if paid_states else None,
        "mode": mode,
        "sends_mail": mail,
        "mail_template": mail_template,
        "on_cancel": on_cancel,
        "external_id_name": external_id_name,
        "metadata_names": tuple(metadata_names) if metadata_names else None,
    }
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes and secret is None and api_key is None:
        raise NothingToChange
    changed = here.change(
        UpdateConnection(
            context=here.context,
            connection_id=connection_id,
            changes=changes,
            secret=secret,
            api_key=api_key,
        )
    )
    _print(changed, f"Connection {connection_id} is changed.", as_json)


@command(app, "keywright connection remove 1")
@with_installation
def remove(here: Installation, connection_id: ConnectionId, *, is_sure: IsSure = False) -> None:
    """Remove a connection with its events. Its licenses stay; what the shop sends from now on
    is refused.
    """
    if not is_sure:
        typer.confirm(f"Remove connection {connection_id} and its events?", abort=True, err=True)
    here.change(RemoveConnection(context=here.context, connection_id=connection_id))
    output.print_line(f"Connection {connection_id} is removed.")


@command(app, "keywright connection take-over 2 1")
@with_installation
def take_over(
    here: Installation,
    connection_id: ConnectionId,
    removed_id: Annotated[int, typer.Argument(metavar="REMOVED", min=1, help="The removed connection.")],
) -> None:
    """Let a connection go on with what a removed one of the same shop has sold.

    Its orders are not sold again; renewals and refunds reach its licenses.
    """
    taken = here.change(
        TakeOverSales(context=here.context, connection_id=connection_id, removed_id=removed_id)
    )
    output.print_line(f"Licenses that connection {connection_id} has taken over: {taken:,}.")


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
        ("mapping", ", ".join(map(_format_mapped, connection.mapping)) or None),
        ("API key", "there is one" if connection.has_api_key else None),
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
