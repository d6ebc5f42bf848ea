"""The command ``keywright doctor``."""

from datetime import UTC, datetime
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keywright.cli import output
from keywright.cli.installation import Installation, InstallationOptions, describe_database, open_here
from keywright.cli.options import AsJson, command, with_options
from keywright.core.errors import ConfigurationError
from keywright.core.parsing import format_count, format_size
from keywright.maintenance.tasks import BelieveClock

if TYPE_CHECKING:
    from keywright.db import ReadTransaction
    from keywright.maintenance.doctor import Examined, Finding


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    add = command(
        app,
        "keywright doctor",
        "keywright doctor --repair",
        "keywright doctor --before-upgrade",
        "keywright doctor --json | jq .findings",
    )
    add(with_options(doctor))


def doctor(
    options: InstallationOptions,
    *,
    is_repairing: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Count activations and leases again where a counter is wrong, and rebuild wrong reports.",
        ),
    ] = False,
    is_preview: Annotated[
        bool,
        typer.Option(
            "--before-upgrade",
            help="Only show how the first start of this version will migrate the database, and what "
            "prevents it; change nothing. Status 1: something prevents it.",
        ),
    ] = False,
    is_clock_right: Annotated[
        bool,
        typer.Option(
            "--confirm-clock",
            help="Only confirm that this machine's clock is right, after servers stopped trusting theirs.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that the database is consistent. The server may keep running.

    It checks that every counter equals the number of active activations or leases and is within the limit;
    that every license key can be read and found; that every activation belongs to a license; that events and
    reports agree with the records; that no ID is used twice; that deleted licenses and signing keys can be
    read; that the files of releases are unaltered; and that an SQLite file is undamaged. Nothing is changed
    without --repair, which corrects counters and reports.

    Warnings name risky settings, a clock that looks wrong, an old or missing backup, a disk that is almost
    full, and work that is stuck: sales of shops that wait for a decision, mails that wait or were given up,
    mail templates that cannot be used, webhooks that accept no deliveries.

    Status 0: nothing is wrong, or everything was repaired; there may be warnings. Status 1: something is
    wrong.
    """
    if is_preview:
        _preview_upgrade(options, as_json=as_json)
        return
    with open_here(options, is_made=False) as here:
        if is_clock_right:
            here.change(BelieveClock(context=here.context, is_confirmed=True))
            output.print_line(f"Servers now trust clocks that show {output.format_time(here.now)} UTC.")
            return
        examine_here(here, is_repairing=is_repairing, as_json=as_json)


def examine_here(here: Installation, *, is_repairing: bool = False, as_json: bool = False) -> None:
    """Print everything that is wrong; exit with status 1 if anything is left unrepaired."""
    from keywright.maintenance.doctor import Examined, examine, examine_files, repair

    warnings = _warn(here, is_silent=as_json)
    began, examined, print_licenses = monotonic(), Examined(), output.progress_printer("licenses")

    def progress(so_far: Examined) -> None:
        nonlocal examined
        examined = so_far
        print_licenses(so_far.licenses)

    findings: list[tuple[Finding, bool]] = []
    found = chain(examine(here.storage, progress), examine_files(here.storage, here.settings.files_folder))
    for finding in found:
        was_repaired = is_repairing and finding.is_repairable
        if was_repaired:
            repair(here.storage, finding, here.now, here.origin)
        findings.append((finding, was_repaired))
        if not as_json:
            what = f"{finding.what[:1].upper()}{finding.what[1:]}"
            output.print_line(f"{what}. {'Repaired.' if was_repaired else finding.advice}")
    is_well = all(was_repaired for _, was_repaired in findings)
    if as_json:
        output.print_json(_json(findings, examined, warnings, is_well=is_well))
    else:
        verdict = "no problems found" if is_well else "problems found, see above"
        licenses = format_count(examined.licenses, "license")
        looked_at = f"{licenses} and {format_count(examined.activations, 'activation')}"
        output.print_line(f"Looked at {looked_at} in {monotonic() - began:.1f} s: {verdict}.")
    if not is_well:
        raise typer.Exit(1)


def _warn(here: Installation, *, is_silent: bool) -> list[str]:
    """Return warnings about risky settings, an unknown proxy and stuck work; print them, unless silent."""
    from keywright.background.mailer import mail_settings_of
    from keywright.config.sources import risks
    from keywright.db import run_read
    from keywright.delivery.mail.message import list_unusable
    from keywright.delivery.webhooks.rules import MAX_WAITING
    from keywright.maintenance import clock, watched
    from keywright.maintenance.doctor import proxy_warnings

    settings, is_writable = here.settings, watched.probe(here.storage)

    def read(tx: "ReadTransaction") -> list[str]:
        figures = watched.watch(tx, settings, here.now, is_writable=is_writable)
        return [
            *(one.sentence for one in figures if one.is_bad),
            *watched.list_other_warnings(tx, settings, max_waiting=MAX_WAITING),
            *list_unusable(tx, mail_settings_of(settings), here.now),
            *clock.list_clock_warnings(tx, here.now),
        ]

    warnings = risks(settings) + proxy_warnings(here.storage, here.now) + run_read(here.storage, read)
    for warning in () if is_silent else warnings:
        output.print_line(f"Warning: {warning}")
    return warnings


def _preview_upgrade(options: InstallationOptions, *, as_json: bool) -> None:
    from keywright.cli.status import list_versions
    from keywright.config.installation import has_database, load_key_ring
    from keywright.maintenance.upgrade import preview

    settings = options.read_settings()
    if not has_database(settings):
        raise ConfigurationError(f"there is no database to upgrade in {describe_database(settings)}.")
    found = preview(settings, load_key_ring(settings), list_versions(settings), datetime.now(UTC))
    if as_json:
        output.print_json(found)
    else:
        _print_preview(found, describe_database(settings))
    if found["obstacles"]:
        raise typer.Exit(1)


def _print_preview(found: dict[str, Any], database: str) -> None:
    sizes = {name: format_size(found[name]) for name in ("size", "free", "needed") if name in found}
    waiting = [format_count(number, what) for what, number in found["unfinished"].items() if number]
    fields = [
        ("database", f"{database}  {found['database_version']}"),
        ("schema", found["schema"]),
        ("pending", "" if found["pending"] else "nothing: the schema is current"),
        *(("", one) for one in found["pending"]),
        *sizes.items(),
        ("last backup", found["last_backup"] or "none"),
        ("unfinished work", ", ".join(waiting) or "none"),
        ("the previous version", f"{'works on' if found['is_compatible'] else 'refuses'} the new schema"),
    ]
    output.print_fields(fields)
    lines = [f"Warning: {one}" for one in found["warnings"]]
    lines += [f"Problem: {one}" for one in found["obstacles"]]
    output.print_line("\n".join(["", *lines] if lines else ["", "Nothing prevents the upgrade."]))


def _json(
    findings: list[tuple["Finding", bool]], examined: "Examined", warnings: list[str], *, is_well: bool
) -> dict[str, object]:
    return {
        "is_well": is_well,
        "licenses": examined.licenses,
        "activations": examined.activations,
        "findings": [
            {
                "code": one.code,
                "license_id": one.license_id,
                "what": one.what,
                "advice": one.advice,
                "is_mended": was_repaired,
            }
            for one, was_repaired in findings
        ],
        "warnings": warnings,
    }
