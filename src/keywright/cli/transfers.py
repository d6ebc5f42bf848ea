"""``keywright transfer …``"""

from typing import Annotated

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, Key, command, with_installation
from keywright.core.parsing import parse_integer
from keywright.provisioning.customers import parse_email
from keywright.provisioning.ownership.model import (
    AcceptTransfer,
    CancelTransfer,
    ClaimCounts,
    CountClaims,
    ListTransfers,
    OfferLicense,
    Transfer,
    UndoTransfer,
)
from keywright.provisioning.ownership.rules import state_of

app = typer.Typer(no_args_is_help=True)

_Transfer = Annotated[
    int,
    typer.Argument(
        metavar="TRANSFER",
        parser=parse_integer,
        help="The transfer's ID; `keywright transfer list` shows it.",
    ),
]


@command(app, "keywright transfer list KEY", name="list")
@with_installation
def list_transfers(here: Installation, key: Key, *, as_json: AsJson = False) -> None:
    """List the offers of a license to other customers, newest first, with the outcome of each."""
    license = here.get_license(key).license
    owner_id, found = here.ask(ListTransfers(license_id=license.id))
    if as_json:
        output.print_json_array(output.transfer_json(one, owner_id, here.now) for one in found)
        return
    columns = ("transfer", "from", "to", "offered at", "expires at", "state")
    output.print_table(columns, [_row(one, owner_id, here) for one in found])


@command(app, "keywright transfer offer KEY bob@example.com")
@with_installation
def offer(
    here: Installation,
    key: Key,
    email: Annotated[
        str, typer.Argument(metavar="EMAIL", parser=parse_email, help="The new customer's address.")
    ],
    as_json: AsJson = False,
) -> None:
    """Offer a license to another customer, on behalf of its customer.

    The other customer gets a mail, and accepts in the portal.
    """
    license = here.get_license(key).license
    made: Transfer = here.change(OfferLicense(context=here.context, license=license.id, email=email))
    if as_json:
        output.print_json(output.transfer_json(made, license.customer_id, here.now))
        return
    output.print_line(f"Transfer {made.id}: offered until {output.format_time(made.expires_at)}.")


@command(app, "keywright transfer accept KEY 3")
@with_installation
def accept(here: Installation, key: Key, transfer_id: _Transfer) -> None:
    """Accept an offer on behalf of the other customer.

    The license gets a new key, and all of its places become free.
    """
    license = here.get_license(key).license
    here.change(AcceptTransfer(context=here.context, license=license.id, transfer_id=transfer_id))
    output.print_line(f"License {license.id} has a new customer and a new key.")


@command(app, "keywright transfer cancel KEY 3")
@with_installation
def cancel(here: Installation, key: Key, transfer_id: _Transfer) -> None:
    """Cancel an offer."""
    license = here.get_license(key).license
    here.change(CancelTransfer(context=here.context, license=license.id, transfer_id=transfer_id))
    output.print_line("Offer canceled.")


@command(app, "keywright transfer undo KEY 3")
@with_installation
def undo(here: Installation, key: Key, transfer_id: _Transfer) -> None:
    """Undo an accepted transfer: give the license back to its previous customer, with a third key."""
    license = here.get_license(key).license
    here.change(UndoTransfer(context=here.context, license=license.id, transfer_id=transfer_id))
    output.print_line(f"License {license.id} is back with its previous customer, and has a new key.")


@command(app, "keywright transfer claims --policy-id 1")
@with_installation
def claims(
    here: Installation,
    *,
    policy_id: Annotated[
        int | None, typer.Option(metavar="N", parser=parse_integer, help="Only licenses of this policy.")
    ] = None,
    order_id: Annotated[str | None, typer.Option(metavar="ID", help="Only licenses of this order.")] = None,
    job_id: Annotated[
        int | None, typer.Option(metavar="N", parser=parse_integer, help="Only licenses that this job made.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count licenses, and how many of them customers claimed with their keys and activated."""
    query = CountClaims(policy_id=policy_id, order_id=order_id, job_id=job_id)
    found: ClaimCounts = here.ask(query)
    if as_json:
        output.print_json({name: getattr(found, name) for name in found.__struct_fields__})
        return
    output.print_line(
        f"{found.licenses:,} licenses: {found.claimed:,} claimed, {found.activated:,} activated."
    )


def _row(one: Transfer, owner_id: int | None, here: Installation) -> tuple[object, ...]:
    times = output.format_time(one.offered_at), output.format_time(one.expires_at)
    state = state_of(one, owner_id, here.now)
    return (one.id, one.from_customer_id, one.to_customer_id, *times, state.value)
