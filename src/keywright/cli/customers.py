"""``keywright customer …``"""

from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import IsSure, command, with_installation
from keywright.core import parsing
from keywright.core.parsing import write_time
from keywright.maintenance.commands import EraseCustomer

app = typer.Typer(
    name="customer",
    no_args_is_help=True,
    help="Export or erase what is stored about a customer.",
)

_Number = Annotated[
    int,
    typer.Argument(metavar="ID", parser=parsing.parse_integer, help="The customer's number in your shop."),
]


@command(app, "keywright customer export 17 > customer-17.json")
@with_installation
def export(here: Installation, customer_id: _Number) -> None:
    """Print everything that is stored about a customer, as JSON: their name, and their licenses with whole
    license keys, activations and events.
    """
    from keywright.db import run_read
    from keywright.maintenance.personal_data import find_customer_data

    found = run_read(here.storage, lambda tx: find_customer_data(tx, customer_id))
    output.print_json({"customer_id": customer_id} | _plain(found))


@command(app, "keywright customer erase 17")
@with_installation
def erase(
    here: Installation,
    customer_id: _Number,
    *,
    is_sure: IsSure = False,
) -> None:
    """Erase a customer's data: their name, and the IP addresses, user agents, labels and meta data of the
    activations and events of their licenses. Licenses, tokens and counters stay, and programs keep working.

    A program that activates again sends its address and label again. To prevent that, delete the licenses
    first. Run it again if it was interrupted.
    """
    if not is_sure:
        question = f"Erase the name, addresses, user agents, labels and meta data of customer {customer_id}?"
        typer.confirm(question, abort=True, err=True)
    while not here.change(EraseCustomer(context=here.context, customer_id=customer_id)):
        pass
    output.print_line(f"What told of customer {customer_id} is erased.")
    output.print_line(
        "What expires by itself: answers kept for repeated calls (48 hours), files of exports (24 hours). "
        "What you delete: backups, the server's and the proxy's logs."
    )


def _plain(value: Any) -> Any:
    """Fields by their names; times as the interface writes them."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(one) for name, one in msgspec.structs.asdict(value).items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return write_time(value) if isinstance(value, datetime) else value
