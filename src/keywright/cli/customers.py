"""``keywright customer …``"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from keywright.cli import output
from keywright.cli.crud import Crud, Texts
from keywright.cli.installation import Installation
from keywright.cli.options import IsSure, command, with_installation
from keywright.core import parsing
from keywright.core.parsing import write_time
from keywright.maintenance.tasks import EraseCustomer, RequireCustomerData
from keywright.provisioning.customers import CUSTOMER, Customer, CustomerFilter

_TEXTS = Texts(
    create=("--email ada@example.com --name Ada",),
    list=("", "--email ada@example.com"),
    update=("--email ada@example.com",),
    show_more="`keywright license list --customer-id ID` shows their licenses.",
    delete="Delete a customer who has no licenses. `keywright customer erase` erases the data of one who "
    "has.",
)
_NAMES = {
    "email": "e-mail",
    "email_verified_at": "verified at",
    "external_id": "external ID",
    "erasure_requested_at": "asks to be erased since",
    "unsubscribed_at": "no reminders since",
}


def _show(customer: Customer) -> Any:
    from keywright.http.v3.customers import show

    return show(customer)


app = Crud(
    CUSTOMER,
    _TEXTS,
    columns=("id", "e-mail", "name", "created at"),
    names=_NAMES,
    show=_show,
    query=CustomerFilter,
).app
_Number = Annotated[
    int, typer.Argument(metavar="ID", parser=parsing.parse_integer, help="The customer's ID.")
]


@command(app, "keywright customer export 17 > customer-17.json")
@with_installation
def export(here: Installation, customer_id: _Number) -> None:
    """Print everything that is stored about a customer, as JSON.

    The output contains their name, e-mail address and metadata; their licenses with whole license keys,
    activations and events; their mails and notices; and what shops sent about their sales.
    """
    from keywright.db import run_read
    from keywright.maintenance.personal_data import read_pieces

    here.ask(RequireCustomerData(customer_id=customer_id))
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
    """Erase a customer's personal data.

    Erased are the customer's name, e-mail address and metadata; the metadata of their licenses; and the IP
    addresses, user agents, labels, meta data, lease holders and trial addresses of these licenses. All
    metadata is erased, including imported metadata that is not about a person: the two cannot be
    distinguished. Licenses, tokens and counters stay, and programs keep working.

    The holder of a lease is not erased while the lease is held: run the command again after its end. A
    program that activates again sends its address and label again; to prevent that, delete the licenses
    first. If the command was interrupted, run it again.
    """
    from keywright.maintenance.personal_data import erase_all

    here.ask(RequireCustomerData(customer_id=customer_id))
    if not is_sure:
        question = (
            f"Erase the name, e-mail, addresses, user agents, labels and metadata of customer {customer_id}?"
        )
        typer.confirm(question, abort=True, err=True)
    command = EraseCustomer(context=here.context, customer_id=customer_id)
    erase_all(here.ask, here.change, command)
    output.print_line(f"All personal data of customer {customer_id} is erased.")
    output.print_line(
        "Deleted automatically: answers stored for repeated calls (after 48 hours), export files (after "
        "24 hours). For you to delete: backups, and the logs of the server and the proxy."
    )


def _plain(value: Any) -> Any:
    """Convert structs to dicts, and times to the format of the API; iterators are converted lazily."""
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
