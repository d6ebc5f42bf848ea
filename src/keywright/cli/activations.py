"""``keywright activation …``"""

from typing import Annotated

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, Key, WrongUsage, command, with_installation
from keywright.core.parsing import format_count, parse_integer
from keywright.licensing.activations.model import ReleaseActivation, ReleaseAll
from keywright.licensing.management import ActivationPage, ListActivations, ManagedActivation

app = typer.Typer(no_args_is_help=True)

_MAX_ACTIVATIONS = 10_000


@command(app, "keywright activation list KEY", "keywright activation list KEY --active --json", name="list")
@with_installation
def list_activations(
    here: Installation,
    key: Key,
    *,
    is_active: Annotated[bool, typer.Option("--active", help="List active activations only.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the activations of a license, newest first, including those whose place was given up.

    At most 10,000 are listed.
    """
    query = ListActivations(
        license_id=here.get_license(key).license.id,
        limit=_MAX_ACTIVATIONS,
        is_active=is_active or None,
    )
    page: ActivationPage = here.ask(query)
    if as_json:
        output.print_json_array(map(output.managed_activation_json, page.activations))
        return
    columns = ("id", "name", "fingerprint", "version", "from", "state", "last seen at", "offline until")
    output.print_table(columns, map(_row, page.activations))


@command(app, "keywright activation release KEY 90", "keywright activation release KEY --all")
@with_installation
def release(
    here: Installation,
    key: Key,
    activation_id: Annotated[
        int | None,
        typer.Argument(
            metavar="[NUMBER]",
            parser=parse_integer,
            help="The activation's ID; `keywright activation list` shows it.",
        ),
    ] = None,
    *,
    is_all: Annotated[bool, typer.Option("--all", help="Give up every place.")] = False,
) -> None:
    """Release a device: give up the place of an activation, or every place.

    The records of the activations stay.
    """
    if (activation_id is None) != is_all:
        raise WrongUsage("Give either an activation's ID or --all")
    if activation_id is None:
        released: int = here.change(ReleaseAll(context=here.context, license=key))
        output.print_line(f"Given up: {format_count(released, 'place')}.")
        return
    here.change(ReleaseActivation(context=here.context, license=key, activation_id=activation_id))
    output.print_line(f"Activation {activation_id} has given up its place.")


def _row(managed: ManagedActivation) -> tuple[object, ...]:
    one = managed.activation
    state = "active" if one.deactivated_at is None else "given up"
    seen = output.format_time(managed.last_seen_at or one.created_at)
    until = None if one.runs_until is None else output.format_time(one.runs_until)
    return (one.id, one.label, one.fingerprint, one.app_version, one.ip_address or None, state, seen, until)
