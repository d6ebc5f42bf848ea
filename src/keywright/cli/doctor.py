"""The command ``keywright doctor``."""

from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, command, with_installation
from keywright.core.parsing import format_count

if TYPE_CHECKING:
    from keywright.maintenance.doctor import Examined, Finding


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    add = command(
        app, "keywright doctor", "keywright doctor --repair", "keywright doctor --json | jq .findings"
    )
    add(with_installation(doctor))


def doctor(
    here: Installation,
    *,
    is_repairing: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired without loss: counters.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that everything in the database is as it has to be; the server may run meanwhile.

    Every counter is the number of active activations and within the limit, every license key can be read and
    is found, every activation has its license, the events agree, no number is given twice, and an SQLite file
    is sound. Nothing is changed without --repair. Warnings name risky settings, and what does not get
    through: sales of shops that wait for a decision, mails that wait or were given up, mail templates that
    cannot be used, webhooks whose receivers take nothing.

    Status 0: nothing is wrong, or everything was repaired; there may be warnings. Status 1: something is
    wrong.
    """
    from keywright.maintenance.doctor import Examined, examine, repair

    warnings = _warn(here, is_silent=as_json)
    began, examined, print_licenses = monotonic(), Examined(), output.progress_printer("licenses")

    def progress(so_far: Examined) -> None:
        nonlocal examined
        examined = so_far
        print_licenses(so_far.licenses)

    findings: list[tuple[Finding, bool]] = []
    for finding in examine(here.storage, progress):
        was_repaired = is_repairing and finding.is_repairable
        if was_repaired:
            repair(here.storage, finding, here.now, here.origin)
        findings.append((finding, was_repaired))
        if not as_json:
            what = f"{finding.what[:1].upper()}{finding.what[1:]}"
            output.print_line(f"{what}. {'It is repaired.' if was_repaired else finding.advice}")
    is_well = all(was_repaired for _, was_repaired in findings)
    if as_json:
        output.print_json(_json(findings, examined, warnings, is_well=is_well))
    else:
        verdict = "everything is as it has to be" if is_well else "something is wrong, see above"
        licenses = format_count(examined.licenses, "license")
        looked_at = f"{licenses} and {format_count(examined.activations, 'activation')}"
        output.print_line(f"Looked at {looked_at} in {monotonic() - began:.1f} s: {verdict}.")
    if not is_well:
        raise typer.Exit(1)


def _warn(here: Installation, *, is_silent: bool) -> list[str]:
    """Warn about risky settings, and about a proxy that the settings do not name."""
    from keywright.config.risks import risks
    from keywright.maintenance.doctor import proxy_warnings

    warnings = risks(here.settings) + proxy_warnings(here.storage, here.now) + _list_stuck(here)
    for warning in () if is_silent else warnings:
        output.print_line(f"Warning: {warning}")
    return warnings


def _list_stuck(here: Installation) -> list[str]:
    """Warn about sales, mails and webhooks that do not get through."""
    from keywright.background.mailer import mail_settings_of
    from keywright.db import run_read
    from keywright.delivery.mail.template_check import list_unusable
    from keywright.delivery.webhooks.rules import MAX_WAITING
    from keywright.maintenance import stuck

    has_server, mail_settings = here.settings.smtp_server is not None, mail_settings_of(here.settings)
    has_address = here.settings.public_url is not None
    return run_read(
        here.storage,
        lambda tx: [
            *stuck.list_shop_warnings(tx, here.now),
            *stuck.list_mail_warnings(tx, here.now, has_server=has_server, has_address=has_address),
            *list_unusable(tx, mail_settings, here.now),
            *stuck.list_webhook_warnings(tx, here.now, max_waiting=MAX_WAITING),
        ],
    )


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
