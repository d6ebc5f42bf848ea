"""``keywright apikey …``"""

from datetime import datetime
from typing import Annotated

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, ProductId, command, with_installation, with_installation_made
from keywright.core.parsing import parse_integer, parse_name, parse_time
from keywright.identity.model import ApiKey, IssueApiKey, Permissions, RevokeApiKey

app = typer.Typer(no_args_is_help=True)


@command(
    app,
    "keywright apikey create --name shop --permissions read_write",
    "keywright apikey create --name app --permissions client --product-id 7",
    "keywright apikey create --name audit --permissions read --expires-at 2030-12-31",
)
@with_installation_made
def create(
    here: Installation,
    *,
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME", parser=parse_name, help="A name for the key, such as the program that uses it."
        ),
    ],
    permissions: Annotated[
        Permissions, typer.Option(metavar="WHAT", help="read, write, read_write or client; see above.")
    ],
    product_id: ProductId = None,
    expires_at: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME",
            parser=parse_time,
            help="When the key expires: 2030-12-31, or '2030-12-31 18:00:00' (both UTC). Default: never.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key, and print its token, consumer key and consumer secret.

    Keep them: they are not shown again. The permissions: read allows viewing licenses and policies; write
    allows changing them; read_write allows both; client allows only the calls that programs make, such as
    activate and validate, so that you may put such a key into a program that you give away.

    With --product-id, the key can access only that product, its policies and its licenses.
    """
    from keywright.identity.api_keys import new_secrets

    new = new_secrets()
    api_key: ApiKey = here.change(
        IssueApiKey(
            context=here.context,
            name=name,
            permissions=permissions,
            product_id=product_id,
            expires_at=expires_at,
            **new.hash_fields(),
        )
    )
    secrets = {"consumer_key": new.consumer_key, "consumer_secret": new.consumer_secret, "token": new.token}
    if as_json:
        output.print_json(output.api_key_json(api_key) | secrets)
        return
    output.print_heading(f"API key {api_key.id} created")
    output.print_fields(list(secrets.items()))
    output.print_line(
        "\nThe token works with v3 (Authorization: Bearer …), the key and secret with v2 and v3."
        "\nSave them now: the secrets are not stored and cannot be shown again."
    )


@command(app, name="list")
@with_installation
def list_api_keys(here: Installation, as_json: AsJson = False) -> None:
    """List the API keys, revoked ones included, oldest first."""
    from keywright.db import run_read
    from keywright.identity import store

    api_keys = run_read(here.storage, store.list_api_keys)
    if as_json:
        output.print_json_array(map(output.api_key_json, api_keys))
        return
    columns = (
        "id",
        "name",
        "permissions",
        "product",
        "key ends in",
        "created at",
        "expires at",
        "revoked at",
    )
    output.print_table(columns, [_row(one) for one in api_keys])


@command(app)
@with_installation
def revoke(
    here: Installation,
    *,
    api_key_id: Annotated[int, typer.Argument(metavar="ID", parser=parse_integer, help="The API key's ID.")],
) -> None:
    """Revoke an API key for good.

    Every server process refuses it within one second.
    """
    here.change(RevokeApiKey(context=here.context, api_key_id=api_key_id))
    output.print_line(f"API key {api_key_id} revoked.")


def _row(one: ApiKey) -> tuple[object, ...]:
    times = map(output.format_time, (one.created_at, one.expires_at, one.revoked_at))
    return (one.id, one.name, one.permissions.value, one.product_id, one.key_suffix, *times)
