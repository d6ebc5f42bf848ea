"""``keywright license …``"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keywright.cli import options, output
from keywright.cli.crud import with_fields
from keywright.cli.installation import Installation
from keywright.core import crypto, parsing
from keywright.core.command import Command
from keywright.events.model import Event
from keywright.licensing.activations import model as activation_model
from keywright.licensing.licenses import keys
from keywright.licensing.licenses import model as license_model
from keywright.licensing.terms.model import Starts
from keywright.provisioning.licenses import CustomerReference, IssueLicenses, MoveLicense, RotateKey

if TYPE_CHECKING:
    from keywright.provisioning.licenses import Issued

app = typer.Typer(no_args_is_help=True)

_LATEST_EVENTS = 10
_MAX_SHOWN = 16

_Max = Annotated[
    int | None,
    typer.Option("--max", metavar="N", parser=parsing.parse_limit, help="The number of places; 0: no limit."),
]
_ExpiresAt = Annotated[
    datetime | None,
    typer.Option(
        metavar="TIME",
        parser=parsing.parse_time,
        help="When the license expires: 2030-12-31, '2030-12-31 18:00:00' (both UTC), or "
        "2030-12-31T18:00:00+01:00.",
    ),
]
_ValidFor = Annotated[
    int | None,
    typer.Option(
        metavar="DAYS",
        parser=parsing.parse_days,
        help="How many days the license is valid from its first activation.",
    ),
]

_NewMax = Annotated[
    options.Change | None,
    typer.Option(
        "--max",
        metavar="N",
        parser=options.changing(parsing.parse_limit),
        help="The number of places, or none: no limit.",
    ),
]
_NewExpiresAt = Annotated[
    options.Change | None,
    typer.Option(
        metavar="TIME", parser=options.changing(parsing.parse_time), help="When the license expires, or none."
    ),
]
_NewValidFor = Annotated[
    options.Change | None,
    typer.Option(
        metavar="DAYS",
        parser=options.changing(parsing.parse_days),
        help="How many days the license is valid from its first activation, or none.",
    ),
]
_NewNumber = Annotated[
    options.Change | None,
    typer.Option(
        metavar="ID", parser=options.changing(parsing.parse_integer), help="The ID in your shop, or none."
    ),
]


@options.command(
    app,
    "keywright license create --max 3",
    "keywright license create --key ACME-2030 --expires-at 2030-12-31",
    "keywright license create --valid-for 365 --product-id 7 --json",
    "keywright license create --policy 1 --customer-id 12",
)
@options.with_installation_made
@with_fields(license_model.LicenseFields, is_new=True)
def create(
    here: Installation,
    *,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", parser=options.parse_key, help="The license key.")
    ] = None,
    times_activated_max: _Max = None,
    expires_at: _ExpiresAt = None,
    valid_for: _ValidFor = None,
    status: options.NewStatus = license_model.Status.ACTIVE,
    product_id: options.ProductId = None,
    order_id: options.OrderId = None,
    customer_id: options.CustomerId = None,
    policy_id: Annotated[
        int | None,
        typer.Option(
            "--policy",
            metavar="ID",
            parser=parsing.parse_integer,
            help="Use the key format and the terms of this policy.",
        ),
    ] = None,
    fields: Mapping[str, Any],
    as_json: options.AsJson = False,
) -> None:
    """Make a license.

    Without --key, it gets a random key that cannot be guessed: 6 groups of 5 letters and digits (150 random
    bits), without characters that are easily confused. Its status is active unless you give --status.

    With --policy, the format of its key and its terms come from the policy; --key, --max, --expires-at and
    --valid-for override them.
    """
    _refuse_two_ends(expires_at, valid_for)
    given: dict[str, Any] = {
        "context": here.context,
        "status": status,
        "product_id": product_id,
        "expires_at": expires_at,
        "fields": fields,
    }
    if policy_id is not None:
        terms = _own_terms(times_activated_max, valid_for)
        order = license_model.Order(id=None if order_id is None else str(order_id))
        customer = None if customer_id is None else CustomerReference(id=customer_id)
        given |= {"policy_id": policy_id, "key": key, "order": order, "terms": terms, "customer": customer}
        issued: Issued = here.change(IssueLicenses(**given, has_expiry=expires_at is not None))
        record = activation_model.LicenseRecord(issued.licenses[0].license)
    else:
        given |= {"order_id": order_id, "customer_id": customer_id, "valid_for_days": valid_for}
        given |= {"times_activated_max": times_activated_max, "key": key or keys.new_license_key()}
        record = here.change(license_model.CreateLicense(**given))
    _print_license(here, record, f"License {record.license.id} created.", as_json=as_json)


def _own_terms(times_activated_max: int | None, valid_for: int | None) -> dict[str, Any]:
    """Return the terms that the options set instead of the policy."""
    terms: dict[str, Any] = {} if times_activated_max is None else {"max_activations": times_activated_max}
    if valid_for is not None:
        terms |= {"valid_for_days": valid_for, "starts": Starts.FIRST_ACTIVATION}
    return terms


@options.command(app)
@options.with_installation
def show(here: Installation, key: options.Key, *, as_json: options.AsJson = False) -> None:
    """Show a license, its activations and its latest events."""
    from keywright.events import store as event_store

    record = here.get_license(key)
    with here.storage.read() as tx:
        events = event_store.list_events(tx, record.license.id, limit=_LATEST_EVENTS)
    if as_json:
        output.print_json(output.report_json(record, events))
        return
    output.print_heading(f"License {record.license.id}")
    output.print_fields(output.license_fields(record.license, here.now))
    output.print_heading("Activations" if record.activations else "No activations")
    if record.activations:
        rows = [_activation_row(one) for one in record.activations]
        output.print_table(("id", "device", "token", "state"), rows)
    output.print_heading("Latest events")
    output.print_table(("at", "event", "activation", "by", "from"), [_event_row(one) for one in events])


@options.command(
    app,
    "keywright license update KEY --max 5",
    "keywright license update KEY --status disabled",
    "keywright license update KEY --expires-at none",
    "keywright license update KEY --policy 2",
)
@options.with_installation
@with_fields(license_model.LicenseFields, is_new=False)
def update(
    here: Installation,
    key: options.Key,
    *,
    times_activated_max: _NewMax = None,
    expires_at: _NewExpiresAt = None,
    valid_for: _NewValidFor = None,
    status: options.StatusOption = None,
    new_key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", parser=options.parse_key, help="A new license key."),
    ] = None,
    product_id: _NewNumber = None,
    order_id: _NewNumber = None,
    customer_id: _NewNumber = None,
    fields: Mapping[str, Any],
    policy_id: Annotated[
        int | None,
        typer.Option(
            "--policy",
            metavar="ID",
            parser=parsing.parse_integer,
            help="A new policy, whose terms the license gets.",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="With --policy: also replace terms that were set for this license."),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Change a license: only what the options name is changed.

    The word none clears a field: --max none removes the limit. --expires-at also clears the days after the
    first activation. If you lower the limit, places that are taken stay taken.
    """
    given = {
        "times_activated_max": times_activated_max,
        "expires_at": expires_at,
        "valid_for_days": valid_for,
        "status": None if status is None else options.Change(status),
        "key": None if new_key is None else options.Change(new_key),
        "product_id": product_id,
        "order_id": order_id,
        "customer_id": customer_id,
    }
    changes = {name: change.value for name, change in given.items() if change is not None} | {**fields}
    if not changes and policy_id is None:
        raise options.WrongUsage("Nothing to change: name at least one option, such as --max")
    _refuse_two_ends(changes.get("expires_at"), changes.get("valid_for_days"))
    if "expires_at" in changes:
        changes.setdefault("valid_for_days", None)
    change: dict[str, Any] = {"context": here.context, "license": key, "changes": changes}
    if policy_id is not None:
        command: Command = MoveLicense(**change, policy_id=policy_id, overwrite=overwrite)
    else:
        command = license_model.UpdateLicense(**change)
    record: activation_model.LicenseRecord = here.change(command)
    _print_license(here, record, f"License {record.license.id} updated.", as_json=as_json)


@options.command(app)
@options.with_installation
def rotate_key(
    here: Installation, key: options.Key, *, is_sure: options.IsSure = False, as_json: options.AsJson = False
) -> None:
    """Give a license a new key in the format of its policy; its activations stay.

    From now on, programs with the old key are refused until the customer enters the new one.
    """
    license = here.get_license(key).license
    if not is_sure:
        question = f"Replace the key of license {license.id} ({crypto.mask(key)})?"
        typer.confirm(question, abort=True, err=True)
    record: activation_model.LicenseRecord = here.change(RotateKey(context=here.context, license=key))
    _print_license(here, record, f"License {record.license.id} has a new key.", as_json=as_json)


@options.command(app)
@options.with_installation
def delete(
    here: Installation,
    key: options.Key,
    *,
    is_sure: options.IsSure = False,
) -> None:
    """Delete a license and its activations; the events of both are kept.

    From then on, programs with its key are refused: the license is unknown. The pages can restore it for as
    many days as the setting keep_deleted_days allows. To stop programs for a while, use `keywright license
    update KEY --status disabled`.
    """
    if not is_sure:
        license = here.get_license(key).license
        what = f"license {license.id} ({crypto.mask(key)})"
        active = f"{license.active_count} of them active"
        question = f"Delete {what} and its {license.record_count} activations, {active}?"
        typer.confirm(question, abort=True, err=True)
    here.change(license_model.DeleteLicense(context=here.context, license=key))
    output.print_line("License and activations deleted.")


@options.command(app)
@options.with_installation
def activate(
    here: Installation,
    key: options.Key,
    *,
    label: Annotated[
        str | None,
        typer.Option(metavar="TEXT", parser=options.parse_label, help="A label for the new activation."),
    ] = None,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Take back the place with this token.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Activate a license: take a place, or take one back with its --token."""
    if token is not None and label is not None:
        raise options.WrongUsage("Give either --token or --label: a reactivation keeps its label")
    record: activation_model.LicenseRecord
    if token is None:
        record = here.change(activation_model.Activate(context=here.context, license=key, label=label))
    else:
        record = here.change(activation_model.Reactivate(context=here.context, license=key, token=token))
    if as_json:
        output.print_json(output.activation_json(record))
        return
    output.print_heading("Activated" if token is None else "Reactivated")
    activation = record.activations[0]
    output.print_fields(
        [
            ("token", activation.token),
            ("label", activation.label),
            ("activations", output.places(record.license)),
            ("expires at", output.expiry(record.license, here.now)),
        ]
    )


@options.command(app)
@options.with_installation
def deactivate(
    here: Installation,
    key: options.Key,
    *,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Give up the place with this token.")
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Give up every place.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Deactivate a license: give up one place, or every place."""
    if (token is None) != is_all:
        raise options.WrongUsage("Give either --token or --all")
    record: activation_model.LicenseRecord
    if token is None:
        record = here.change(activation_model.DeactivateAll(context=here.context, license=key))
    else:
        record = here.change(activation_model.Deactivate(context=here.context, license=key, token=token))
    if as_json:
        output.print_json(output.activation_json(record, is_many=is_all))
        return
    given_up = "every place" if is_all else "1"
    output.print_line(f"Given up: {given_up}. Activations now: {output.places(record.license)}.")


def _refuse_two_ends(expires_at: object, valid_for: object) -> None:
    if expires_at is not None and valid_for is not None:
        raise options.WrongUsage("Give either --expires-at or --valid-for: a license has one expiry")


def _print_license(
    here: Installation, record: activation_model.LicenseRecord, done: str, *, as_json: bool
) -> None:
    if as_json:
        output.print_json(output.license_json(record.license))
        return
    output.print_heading(done)
    output.print_fields(output.license_fields(record.license, here.now))


def _activation_row(one: activation_model.Activation) -> tuple[object, ...]:
    ended = one.deactivated_at
    since = one.updated_at or one.created_at
    state = f"active since {parsing.write_time(since)}"
    if ended is not None:
        state = f"given up at {parsing.write_time(ended)}"
    return (one.id, one.label or _shorten(one.fingerprint), one.token, state)


def _shorten(fingerprint: str | None) -> str | None:
    """Return the beginning of a long fingerprint; ``keywright activation list`` shows all of it."""
    if fingerprint is None or len(fingerprint) <= _MAX_SHOWN:
        return fingerprint
    return f"{fingerprint[:_MAX_SHOWN]}…"


def _event_row(one: Event) -> tuple[object, ...]:
    at = parsing.write_time(one.occurred_at)
    return (at, one.name, one.activation_id, one.actor, one.ip_address or None)
