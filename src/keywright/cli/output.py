"""Print JSON with the field names of the API, v2 or v3, and tables and lines for people."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from keywright.core.nouns import list_members
from keywright.core.parsing import format_size, write_time
from keywright.delivery.webhooks.model import Delivery, Endpoint
from keywright.events.feed import FeedEvent
from keywright.events.model import Event
from keywright.http.v2 import wire
from keywright.identity.model import ApiKey, User
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.leases.model import Lease
from keywright.licensing.licenses.model import License, LicenseFields, State, Status
from keywright.licensing.licenses.rules import is_expired, state
from keywright.licensing.management import ManagedActivation, ManagedLicense
from keywright.provisioning.ownership.model import Transfer
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.shops.model import Connection, StoredEvent

if TYPE_CHECKING:
    from rich.console import Console

Json = dict[str, object]
#: Words for an expiry that is past, by the license's state.
_PAST = dict.fromkeys(State, " (expired)") | {
    State.GRACE: " (expired; days of grace)",
    State.VALID: " (expired; still valid)",
}
#: The width of lines without a terminal: they are not wrapped.
_UNLIMITED = 10_000


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=2))


def print_json_pieces(value: object) -> None:
    """Print a value as indented JSON; an iterator is an array, whose elements are printed one by one."""
    _print_pieces(value, "\n")
    print()


def _print_pieces(value: object, line: str) -> None:
    """Print a value; ``line`` is the line break and indentation before each further line."""
    if isinstance(value, Iterator):
        parts, brackets = (("", one) for one in value), "[]"
    elif isinstance(value, dict) and value:
        parts, brackets = ((f"{json.dumps(name)}: ", one) for name, one in value.items()), "{}"
    else:
        print(json.dumps(value, indent=2).replace("\n", line), end="")
        return
    before = ""
    print(brackets[0], end="")
    for name, one in parts:
        print(f"{before}{line}  {name}", end="")
        _print_pieces(one, f"{line}  ")
        before = ","
    print((line if before else "") + brackets[1], end="")


def print_json_array(values: Iterable[object]) -> None:
    """Print an array, one element per line; each is printed before the next is read."""
    separator = "[\n"
    for value in values:
        print(separator + json.dumps(value), end="")
        separator = ",\n"
    print("[]" if separator == "[\n" else "\n]")


def license_json(license: License) -> Json:
    """A license's own fields, as v2 writes them."""
    return _data(wire.license_alone(LicenseRecord(license)))


def record_json(record: LicenseRecord) -> Json:
    """A license with its activations, as in a list of v2."""
    return _data(wire.license_with_activations(record))


def activation_json(record: LicenseRecord, *, is_many: bool = False) -> Json:
    """The answer of v2 to an activation or, with ``is_many``, to giving up every place."""
    return _data(wire.many_activations(record) if is_many else wire.one_activation(record))


def report_json(record: LicenseRecord, events: Iterable[Event]) -> Json:
    """A license with its activations, as v2 validates it, and its latest events."""
    names = "occurred_at name activation_id actor ip_address details".split()
    return _data(wire.validation(record)) | {"events": [_fields_json(one, names) for one in events]}


def generator_json(policy: Policy) -> Json:
    """A policy, as v2 writes a generator."""
    return _data(wire.generator(policy))


def policy_json(policy: Policy) -> Json:
    """A policy, as v3 writes it."""
    from keywright.http.v3.policies import show

    return _builtins(show(policy))


def connection_json(connection: Connection) -> Json:
    """A connection to a shop, as v3 writes it."""
    from keywright.http.v3.connections import show

    return _builtins(show(connection))


def shop_event_json(event: StoredEvent) -> Json:
    """An event of a shop, as v3 writes it."""
    from keywright.http.v3.shop_events import show_event

    return _builtins(show_event(event))


def managed_activation_json(activation: ManagedActivation) -> Json:
    """An activation, as v3 writes it."""
    from keywright.http.v3.activations import show

    return _builtins(show(activation))


def managed_license_json(license: ManagedLicense, now: datetime) -> Json:
    """A license, as v3 writes it."""
    from keywright.http.v3.license_schemas import show_license

    return _builtins(show_license(license, now))


def event_json(event: FeedEvent) -> Json:
    """An event, as v3 writes it."""
    from keywright.http.v3.events import show

    return _builtins(show(event))


def lease_json(lease: Lease, now: datetime) -> Json:
    """A lease, as v3 writes it."""
    from keywright.http.v3.leases import show

    return _builtins(show(lease, now))


def transfer_json(transfer: Transfer, owner_id: int | None, now: datetime) -> Json:
    """A transfer of a license that belongs to this customer, as v3 writes it."""
    from keywright.http.v3.transfers import show

    return _builtins(show(transfer, owner_id, now))


def _builtins(struct: msgspec.Struct) -> Json:
    members: Json = msgspec.to_builtins(struct)
    return members


def webhook_json(webhook: Endpoint) -> Json:
    """A webhook, as v3 writes it, without its secret."""
    from keywright.http.v3.webhooks import show

    return _fields_json(show(webhook), without="secret")


def delivery_json(delivery: Delivery) -> Json:
    """A delivery of a webhook, as v3 writes it, without its body."""
    from keywright.http.v3.webhooks import show_delivery

    return _fields_json(show_delivery(delivery), without="request")


def api_key_json(api_key: ApiKey) -> Json:
    """An API key, without its secrets."""
    return _fields_json(
        api_key,
        "id name permissions product_id key_suffix created_at expires_at revoked_at last_used_at".split(),
    )


def user_json(user: User) -> Json:
    """A user, without the password's hash."""
    return _fields_json(user, "id name role created_at last_signed_in_at disabled_at".split())


def _fields_json(struct: msgspec.Struct, names: Iterable[str] = (), without: str = "") -> Json:
    chosen = names or (one for one in struct.__struct_fields__ if one != without)
    fields = {name: getattr(struct, name) for name in chosen}
    return {name: write_time(one) if isinstance(one, datetime) else one for name, one in fields.items()}


def setup_link(base_url: str, token: str) -> str:
    """The link that makes the first administrator."""
    return f"{base_url}/admin/setup?token={token}"


def print_setup_link(base_url: str, token: str) -> None:
    """Print the link that makes the first administrator."""
    print_line(f"\nCreate the first administrator (within 30 minutes):\n  {setup_link(base_url, token)}")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; None is a dash. Cells are shown literally: no markup, no control characters."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        # A token is copied, so it must not be wrapped.
        table.add_column(column, overflow="fold", no_wrap=column == "token")
    for row in rows:
        table.add_row(*(Text(printable(value)) for value in row))
    _console().print(table)


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print one name and value per line; values are not wrapped, so that they can be copied."""
    width = max(len(name) for name, _ in fields)
    for name, value in fields:
        print(f"  {name:<{width}}  {printable(value)}")


def print_heading(text: str) -> None:
    """Print a line in bold."""
    from rich.text import Text

    _console().print(Text(f"\n{text}", style="bold"))


def print_line(text: str = "") -> None:
    """Print a line as it is, to be copied: it is not wrapped, and it is flushed."""
    print(text, flush=True)


def print_error(text: str) -> None:
    """Print a line to standard error."""
    print(text, file=sys.stderr, flush=True)


def printable(value: object) -> str:
    """Return the text of a value; characters that could control a terminal are replaced."""
    text = "–" if value is None else str(value)
    return text if text.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in text)


def license_fields(license: License, now: datetime) -> list[tuple[str, object]]:
    """The fields of a license for people, with the IDs of the shop that it has."""
    of_shop = {"order": license.order_id, "product": license.product_id, "customer": license.customer_id}
    return [
        ("license key", license.key),
        ("status", status_name(license)),
        ("activations", places(license)),
        ("expires at", expiry(license, now)),
        *((name, number) for name, number in of_shop.items() if number is not None),
        *((name, value) for name, value in _own_fields(license) if value is not None),
        *([("quantity", license.quantity)] if license.quantity > 1 else []),
        ("created at", format_time(license.created_at)),
        ("updated at", format_time(license.updated_at)),
    ]


def _own_fields(license: License) -> Iterator[tuple[str, object]]:
    for one in list_members(LicenseFields):
        label = one.form["label"]
        yield label[0].lower() + label[1:], getattr(license, one.name)


def status_name(license: License) -> str:
    """The status in words."""
    return Status(license.status).name.lower()


def places(license: License) -> str:
    """``2 of 3``: the places that are taken, and the limit."""
    limit = license.times_activated_max
    return f"{license.times_activated} of {'unlimited' if limit is None else limit}"


def expiry(license: License, now: datetime) -> str:
    """The end of the license, or the number of days for which it will be valid."""
    if license.expires_at is None:
        days = license.valid_for_days
        return "never" if days is None else f"{days} days after the next activation"
    past = _PAST[state(license, now)] if is_expired(license, now) else ""
    return f"{write_time(license.expires_at)}{past}"


def progress_printer(noun: str) -> Callable[[int], None]:
    """Return a function that prints an amount on a terminal, at most once a second."""
    printed_at = monotonic()

    def print_amount(amount: int) -> None:
        nonlocal printed_at
        if sys.stderr.isatty() and monotonic() > printed_at + 1:
            printed_at = monotonic()
            print(f"{amount:,} {noun} …", file=sys.stderr)

    return print_amount


def _data(answer: bytes) -> Json:
    data: Json = json.loads(answer)["data"]
    return data


def format_time(moment: datetime | None) -> str | None:
    """The time in the format of the wire; None for None."""
    return None if moment is None else write_time(moment)


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _UNLIMITED)


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


#: Seconds between two progress lines.
_INTERVAL = 0.2


class ByteProgress:
    """A context that shows the progress of a step, in bytes, as a line on the terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._shown_at = monotonic()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Show the progress, but not too often; a total of 0 means that it is unknown."""
        if self._is_shown and monotonic() > self._shown_at + _INTERVAL:
            self._shown_at = monotonic()
            of = f" of {format_size(total)}" if total else ""
            print(f"\r{format_size(done)}{of} {step} …\x1b[K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "ByteProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
