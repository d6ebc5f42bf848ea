"""``keywright customer …``"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.metadata import Metadata, to_patch
from keywright.cli.options import (
    AsJson,
    Change,
    ExternalId,
    IsSure,
    NewExternalId,
    WrongUsage,
    changing,
    command,
    with_installation,
    with_installation_made,
)
from keywright.cli.paging import Limit, print_list
from keywright.core import parsing
from keywright.core.parsing import write_time
from keywright.maintenance.commands import EraseCustomer
from keywright.provisioning.customers.commands import (
    CreateCustomer,
    DeleteCustomer,
    GetCustomer,
    ListCustomers,
    UpdateCustomer,
)
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.rules import parse_email, parse_language
from keywright.provisioning.shops.commands import FindShopEventsNaming
from keywright.provisioning.shops.model import Naming

app = typer.Typer(no_args_is_help=True)

_Number = Annotated[
    int,
    typer.Argument(metavar="ID", parser=parsing.parse_integer, help="The customer's number."),
]
_Email = Annotated[
    Change | None,
    typer.Option(metavar="ADDRESS", parser=changing(parse_email), help="The e-mail address, or none."),
]
_Name = Annotated[
    Change | None,
    typer.Option(metavar="NAME", parser=changing(parsing.parse_name), help="The name, or none."),
]
_Language = Annotated[
    Change | None,
    typer.Option(
        metavar="TAG",
        parser=changing(parse_language),
        help="The language of mails and the portal (pt-BR), or none.",
    ),
]


@command(app, "keywright customer create --email ada@example.com --name Ada")
@with_installation_made
def create(
    here: Installation,
    *,
    customer_id: Annotated[
        int | None,
        typer.Option(
            "--id",
            metavar="ID",
            parser=parsing.parse_integer,
            help="The number in your shop. Without it: one from 1,000,000,000.",
        ),
    ] = None,
    email: _Email = None,
    name: _Name = None,
    language: _Language = None,
    external_id: ExternalId = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Make a customer."""
    customer: Customer = here.change(
        CreateCustomer(
            context=here.context,
            id=customer_id,
            email=None if email is None else email.value,
            name=None if name is None else name.value,
            language=None if language is None else language.value,
            external_id=external_id,
            metadata=parsing.parse_metadata(to_patch(metadata)),
        )
    )
    _print(customer, f"Customer {customer.id} is made.", as_json=as_json)


@command(app, "keywright customer list", "keywright customer list --email ada@example.com", name="list")
@with_installation
def list_customers(
    here: Installation,
    *,
    email: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Only the one with this address, in any case.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those with exactly this name.")
    ] = None,
    external_id: ExternalId = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List the customers, by their numbers."""
    print_list(
        here,
        lambda paging: ListCustomers(paging=paging, email=email, name=name, external_id=external_id),
        limit=limit,
        as_json=as_json,
        columns=("id", "e-mail", "name", "created at"),
        to_row=lambda one: (one.id, one.email, one.name, output.format_time(one.created_at)),
        to_json=output.customer_json,
    )


@command(app, "keywright customer show 17")
@with_installation
def show(here: Installation, customer_id: _Number, *, as_json: AsJson = False) -> None:
    """Show a customer. `keywright license list --customer-id ID` shows their licenses."""
    _print(here.ask(GetCustomer(customer_id=customer_id)), f"Customer {customer_id}", as_json=as_json)


@command(app, "keywright customer update 17 --email ada@example.com")
@with_installation
def update(
    here: Installation,
    customer_id: _Number,
    *,
    email: _Email = None,
    name: _Name = None,
    language: _Language = None,
    external_id: NewExternalId = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Change what the options name, and nothing else."""
    given = {"email": email, "name": name, "language": language, "metadata": metadata}
    given["external_id"] = external_id
    changes = {key: one.value for key, one in given.items() if one is not None}
    if not changes:
        raise WrongUsage("Nothing to change: name at least one option, such as --name")
    change = UpdateCustomer(context=here.context, customer_id=customer_id, changes=changes)
    _print(here.change(change), f"Customer {customer_id} is changed.", as_json=as_json)


@command(app, "keywright customer delete 17")
@with_installation
def delete(here: Installation, customer_id: _Number) -> None:
    """Delete a customer who has no licenses. `keywright customer erase` erases the data of one who has."""
    here.change(DeleteCustomer(context=here.context, customer_id=customer_id))
    output.print_line(f"Customer {customer_id} is deleted.")


@command(app, "keywright customer export 17 > customer-17.json")
@with_installation
def export(here: Installation, customer_id: _Number) -> None:
    """Print everything that is stored about a customer, as JSON: their name, e-mail address and
    metadata, their licenses with whole license keys, activations and events, their mails, and what shops
    sent of their sales.
    """
    from keywright.db import run_read
    from keywright.maintenance.customer_export import read_pieces

    found = read_pieces(partial(run_read, here.storage), customer_id)
    output.print_json_pieces(_plain({"customer_id": customer_id} | found._asdict()))


@command(app, "keywright customer erase 17")
@with_installation
def erase(
    here: Installation,
    customer_id: _Number,
    *,
    is_sure: IsSure = False,
) -> None:
    """Erase a customer's data: their name, e-mail address and metadata, the metadata of their licenses, and
    the IP addresses, user agents, labels, meta data, lease holders and trial addresses of these. Licenses,
    tokens and counters stay, and programs keep working.

    All metadata goes, also what an import brought that is not about a person: the two cannot be told apart.

    Who holds a lease now is erased when that is over and this is run again. A program that activates again
    sends its address and label again. To prevent that, delete the licenses first. Run it again if it was
    interrupted.
    """
    if not is_sure:
        question = (
            f"Erase the name, e-mail, addresses, user agents, labels and metadata of customer {customer_id}?"
        )
        typer.confirm(question, abort=True, err=True)
    erase_some = EraseCustomer(context=here.context, customer_id=customer_id)
    after_id: int | None = 0
    while after_id is not None:
        naming: Naming = here.ask(FindShopEventsNaming(customer_id=customer_id, after_id=after_id))
        if naming.event_ids:
            here.change(msgspec.structs.replace(erase_some, is_step=True, shop_event_ids=naming.event_ids))
        after_id = naming.after_id
    while not here.change(erase_some).is_complete:
        pass
    output.print_line(f"All that identified customer {customer_id} is erased.")
    output.print_line(
        "What expires by itself: answers kept for repeated calls (48 hours), files of exports (24 hours). "
        "What you delete: backups, the server's and the proxy's logs."
    )


def _print(customer: Customer, heading: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(output.customer_json(customer))
        return
    output.print_heading(heading)
    output.print_fields(
        [
            ("e-mail", customer.email),
            ("verified at", output.format_time(customer.email_verified_at)),
            ("name", customer.name),
            ("language", customer.language),
            ("external ID", customer.external_id),
            ("metadata", customer.metadata),
            ("asks to be erased since", output.format_time(customer.erasure_requested_at)),
            ("created at", output.format_time(customer.created_at)),
            ("updated at", output.format_time(customer.updated_at)),
        ]
    )


def _plain(value: Any) -> Any:
    """Fields by their names; times as the interface writes them; of iterators, element by element."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(one) for name, one in msgspec.structs.asdict(value).items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Iterator):
        return map(_plain, value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return write_time(value) if isinstance(value, datetime) else value
