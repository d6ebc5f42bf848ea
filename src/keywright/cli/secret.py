"""The commands ``keywright secret …``."""

from contextlib import closing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from keywright.cli import output
from keywright.cli.installation import InstallationOptions
from keywright.cli.options import command, with_options
from keywright.core.errors import ConfigurationError, StoreError
from keywright.core.parsing import format_count

if TYPE_CHECKING:
    from keywright.config import Settings
    from keywright.maintenance.rotation import Progress

app = typer.Typer(no_args_is_help=True)


@command(app, "keywright secret rotate", "keywright secret rotate --begin-only")
@with_options
def rotate(
    options: InstallationOptions,
    *,
    is_begun_only: Annotated[
        bool,
        typer.Option("--begin-only", help="Only start the rotation; another run reseals the existing rows."),
    ] = False,
) -> None:
    """Replace the secret, and reseal everything with the new one.

    License keys do not change, and can be used all the time. If the command was interrupted, run it again:
    it continues.

    On SQLite, stop the server until the command prints that it can be started again; existing rows are
    resealed while it runs. On PostgreSQL, the command first makes the new secret, and fails if there are
    servers that do not know it: give both secrets to all servers, restart one after the other, and run it
    again.

    Earlier backups need the previous secret: it is kept next to the new one until you delete it.
    """
    from keywright.config.installation import has_database, load_key_ring, take_new_secret
    from keywright.maintenance import rotation

    settings = options.read_settings()
    if not has_database(settings):
        raise ConfigurationError(f"there is no installation in {settings.data_dir.absolute()}.")
    progress = _find_progress(settings)
    if progress in (rotation.Progress.NONE, rotation.Progress.PREPARED):
        take_new = partial(take_new_secret, settings)
        rotation.begin(settings.database_url_in_force, load_key_ring(settings), take_new)
        output.print_line("From now on, data is written with the new secret. You can start the server.")
    if is_begun_only and progress is not rotation.Progress.FINISHED:
        output.print_line(
            "Run `keywright secret rotate` to reseal the existing rows; the server may keep running."
        )
        return
    if progress is not rotation.Progress.FINISHED:
        _reseal(settings)
    _retire_previous_secret(settings)


def _find_progress(settings: "Settings") -> "Progress":
    from keywright.config.installation import load_key_ring
    from keywright.db import open_storage
    from keywright.maintenance.rotation import find_progress

    key_ring = load_key_ring(settings)
    with closing(open_storage(settings.database_url_in_force, key_ring)) as storage:
        return find_progress(storage, key_ring)


def _reseal(settings: "Settings") -> None:
    from keywright.config.installation import load_key_ring
    from keywright.db import open_storage
    from keywright.maintenance.rotation import finish, reseal

    began, print_values = monotonic(), output.progress_printer("values")
    key_ring = load_key_ring(settings)
    with closing(open_storage(settings.database_url_in_force, key_ring)) as storage:
        resealed = reseal(storage, lambda so_far: print_values(so_far.read))
        if resealed.unreadable:
            raise StoreError(
                f"{resealed.unreadable:,} sealed values cannot be read with either secret, so both are "
                "still needed. Run `keywright doctor`, repair or delete the licenses it names, and try again."
            )
        finish(storage, key_ring)
    values = format_count(resealed.changed, "value")
    output.print_line(f"{values} of {resealed.read:,} resealed in {monotonic() - began:.1f} s.")


def _retire_previous_secret(settings: "Settings") -> None:
    from keywright.config.installation import retire_previous_secret

    kept = retire_previous_secret(settings)
    output.print_line("The secret is rotated: the database no longer needs the previous one.")
    if kept is not None:
        output.print_line(
            f"The previous secret is in {kept.absolute()}: older backups need it. Delete it "
            "when you delete them."
        )
    output.print_line("Remove previous_secret, or the file secret.previous, wherever else you set it.")
