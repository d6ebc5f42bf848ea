"""``keywright license file``, ``files``, ``fetch-files`` and ``explain``."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from keywright.cli import license_lists, output
from keywright.cli.exports import open_output
from keywright.cli.installation import Installation, InstallationOptions, open_here
from keywright.cli.options import (
    AsJson,
    Key,
    ProductId,
    WrongUsage,
    command,
    with_installation,
    with_options,
)
from keywright.core.errors import ConfigurationError
from keywright.core.parsing import parse_integer, parse_time
from keywright.db import run_read

if TYPE_CHECKING:
    from keywright.signing.explanation import Explained

#: ``keywright license``, to which this module adds commands.
app = license_lists.app

_MAX_DAYS = 36_500
_Days = Annotated[
    int | None,
    typer.Option(
        metavar="DAYS", min=1, max=_MAX_DAYS, help="How long the file is valid, if the terms allow it."
    ),
]
_Fingerprint = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="The fingerprint of the device that the file is for; it must hold a place."
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write to this file instead of standard output."),
]
_PublicKey = Annotated[
    list[str] | None,
    typer.Option("--public-key", metavar="KEY", help="Verify with this key, not the installation's own."),
]


@command(
    app,
    "keywright license file KEY --fingerprint device-7f3a9c0e12b4 --days 90 --out anna.license",
    name="file",
)
@with_installation
def _make_file(
    here: Installation,
    key: Key,
    *,
    fingerprint: _Fingerprint = None,
    days: _Days = None,
    out: _Out = None,
) -> None:
    """Make a license file for a machine without a network.

    The file works only with this key and, with --fingerprint, only on that device. It is valid for as long as
    the term offline_days allows, or for fewer --days, but never longer than the license.
    """
    from keywright.licensing.activations.model import Device
    from keywright.signing.commands import MakeLicenseFile

    making = MakeLicenseFile(
        context=here.context,
        license=key,
        device=Device(fingerprint),
        alg=here.settings.signature_alg,
        days=days,
        is_recorded=True,
    )
    # Open the file first: a license file that cannot be written must not be recorded as made.
    with open_output(out) as file:
        made = here.change(making)
        file.write(made.content)
    if out is not None:
        output.print_line(f"{out} is valid until {output.format_time(made.ends_at)} (UTC).")


@command(
    app,
    "keywright license files --dry-run",
    "keywright license files --product-id 17 --ends-at 2046-12-31",
    name="files",
)
@with_installation
def _make_files(
    here: Installation,
    *,
    product_id: ProductId = None,
    ends_at: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME", parser=parse_time, help="When the files expire. Default: with their license."
        ),
    ] = None,
    mail: Annotated[bool, typer.Option(help="Whether to mail the files to the customers.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the files; make none.")] = False,
) -> None:
    """Make license files for all licenses and devices that may have one, and mail them to the customers.

    Use it before you shut down this server for good: the files are valid until the license ends, or until an
    earlier --ends-at, regardless of offline_days. The server makes them in a job, and mails each customer
    once.
    """
    from keywright.jobs.making_files import PreviewFiles
    from keywright.jobs.orders import MakeFiles, start_command
    from keywright.search.filters import Search

    if dry_run:
        found = here.ask(PreviewFiles(product_id=product_id, now=here.context.now))
        fields = msgspec.to_builtins(found).items()
        output.print_fields([(name.replace("_", " "), value) for name, value in fields])
        return
    order = MakeFiles(
        alg=here.settings.signature_alg,
        ends_at=ends_at,
        is_mailed=mail,
        search=Search(product_id=product_id),
    )
    job = here.change(start_command(order, context=here.context))
    output.print_line(
        f"Job {job.id} started; `keywright license fetch-files {job.id}` fetches its files when it is done."
    )


@command(app, "keywright license fetch-files 7 --out files.jsonl", name="fetch-files")
@with_installation
def _fetch_files(
    here: Installation,
    job: Annotated[int, typer.Argument(metavar="JOB", parser=parse_integer, help="The job's ID.")],
    *,
    out: _Out = None,
) -> None:
    """Write the license files that a job has made.

    Each line is a JSON object with a license file, its license and its device.
    """
    from keywright.jobs.files import read_file
    from keywright.jobs.model import FetchFile

    here.change(FetchFile(context=here.context, job_id=job))
    with open_output(out) as file:
        for chunk in read_file(partial(run_read, here.storage), job):
            file.write(chunk)


@command(app, "keywright license explain anna.license", name="explain")
@with_options
def _explain(
    options: InstallationOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A license file, or a signed answer.")],
    *,
    public_key: _PublicKey = None,
    as_json: AsJson = False,
) -> None:
    """Show what a license file contains and whether it is valid: its signer, its device and its end.

    The signature is verified with the public keys of the installation; without an installation, name a
    --public-key. Status 1: the file is not valid.
    """
    from keywright.signing.explanation import explain

    keys = public_key or _public_keys(options)
    try:
        explained = explain(file.read_bytes(), keys)
    except ValueError as problem:
        raise WrongUsage(f"{file} {problem}") from None
    verdict = _judge(explained, datetime.now(UTC))
    if as_json:
        output.print_json(
            {
                "is_good": verdict == _GOOD,
                "verdict": verdict,
                "kid": explained.kid,
                "claims": explained.claims,
            }
        )
    else:
        output.print_fields([("verdict", verdict), *_fields(explained.claims), ("signed by", explained.kid)])
    if verdict != _GOOD:
        raise typer.Exit(1)


_GOOD = "valid"


def _public_keys(options: InstallationOptions) -> list[str]:
    """Return the public keys of the installation, except for withdrawn ones."""
    from keywright.signing.commands import LoadKeys

    with open_here(options, is_made=False) as here:
        loaded = here.ask(LoadKeys())
    if loaded is None:
        raise ConfigurationError("this installation has no signing key yet. Name a key with --public-key.")
    return [one.public_key for one in loaded.keys if one.withdrawn_at is None]


def _judge(explained: "Explained", now: datetime) -> str:
    """Return the verdict in words."""
    if explained.problem is not None:
        return f"it {explained.problem}"
    claims, seconds = explained.claims, now.timestamp()
    if not claims["valid"]:
        return f"not valid: {claims['code']}"
    if seconds >= claims["exp"]:
        return "expired"
    return _GOOD if seconds >= claims["nbf"] else "not valid yet: this machine's clock is behind"


def _fields(claims: dict[str, Any]) -> list[tuple[str, object]]:
    """Return names and texts for the claims, which may have any type: the file may come from anywhere."""
    activation = claims.get("activation")
    return [
        ("codes", ", ".join(map(str, claims.get("codes") or [claims.get("code")]))),
        ("product", claims.get("aud")),
        ("license", claims.get("sub")),
        ("device", activation.get("fingerprint") if isinstance(activation, dict) else "any"),
        ("made at", _write_moment(claims.get("iat"))),
        ("valid until", _write_moment(claims.get("exp"))),
        ("entitlements", ", ".join(map(str, claims.get("entitlements") or [])) or None),
        ("issuer", claims.get("iss")),
    ]


def _write_moment(seconds: object) -> str | None:
    try:
        return output.format_time(datetime.fromtimestamp(int(str(seconds)), UTC))
    except (ValueError, OverflowError, OSError):
        return None
