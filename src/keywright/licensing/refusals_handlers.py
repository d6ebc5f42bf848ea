"""Decide the commands about refused calls."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.licensing import refusals, refusals_store
from keywright.licensing.licenses import store as license_store
from keywright.licensing.refusals import SaveRefusals
from keywright.licensing.unit_of_work import LicenseWork


def save_refusals(work: LicenseWork, command: SaveRefusals) -> None:
    """Add the calls to those of licenses that exist, also under a key that was replaced; keep the latest."""
    tx, now = work.tx, command.context.now
    refusals_store.lock_refusals(tx, now)
    found = license_store.find_licenses(tx, command.refused)
    found |= license_store.find_rotated(tx, command.refused.keys() - found.keys())
    stored = refusals_store.list_refusals(tx, {one.id for one in found.values()})
    for key, license in found.items():
        stored[license.id] = refusals.merge([*stored.get(license.id, ()), *command.refused[key]])
    refusals_store.save_refusals(tx, stored)


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {SaveRefusals: save_refusals}
