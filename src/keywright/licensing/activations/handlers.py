"""Handlers of the commands about activations.

A handler takes the unit of work of its batch and a command, applies the rules, and puts what is to be saved
into the unit of work; it returns the outcome's value or raises a refusal.
"""

from collections.abc import Callable, Iterable
from typing import Any

from keywright.core import crypto
from keywright.core.command import Command
from keywright.core.errors import NotFound, TokenNotActive, UnknownToken
from keywright.licensing.activations import model
from keywright.licensing.activations import rules as activation_rules
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License
from keywright.licensing.unit_of_work import LicenseWork

#: The actor of a program that calls without an API key.
_PROGRAM = "program"


def activate(work: LicenseWork, command: model.Activate) -> model.LicenseRecord:
    """Take a new place."""
    license = activation_rules.activate(work.get_license(command), command.context.now)
    activation = model.Activation(
        id=work.tx.ids.next("activation"),
        token=crypto.new_token(),
        license_id=license.id,
        label=command.label,
        source=model.ActivationSource.API,
        ip_address=command.context.origin.ip_address,
        user_agent=command.context.origin.user_agent,
        meta_data=command.meta_data,
        created_at=command.context.now,
        updated_at=None,
        deactivated_at=None,
    )
    return _save(work, command, "license.activated", license, activation)


def reactivate(work: LicenseWork, command: model.Reactivate) -> model.LicenseRecord:
    """Take back a place that was given up."""
    license = work.get_license(command)
    license_rules.require_usable(license, command.context.now)
    activation = work.get_activation(license, command.token)
    license, activation = activation_rules.reactivate(license, activation, command.context.now)
    return _save(work, command, "license.reactivated", license, activation)


def deactivate(work: LicenseWork, command: model.Deactivate) -> model.LicenseRecord:
    """Give up one place."""
    license = work.get_license(command)
    try:
        activation = work.get_activation(license, command.token)
    except UnknownToken:
        raise TokenNotActive(command.token) from None
    license, activation = activation_rules.deactivate(license, activation, command.context.now)
    _count_removals(work, command, license, [activation])
    return _save(work, command, "license.deactivated", license, activation)


def deactivate_all(work: LicenseWork, command: model.DeactivateAll) -> model.LicenseRecord:
    """Give up every place. Outcome and events list no more than an answer; one event counts the rest."""
    before = work.get_license(command)
    license, ended = activation_rules.deactivate_all(before, work.list_active(before), command.context.now)
    work.deactivate_all(license, ended, command.context.now)
    listed = activation_rules.limit_listed(ended, work.limits.listed, activation_rules.MAX_LISTED_BYTES)
    _count_removals(work, command, license, listed)
    for activation in listed:
        work.record_license_event("license.deactivated", license, command, activation)
    others = before.active_count - len(listed)
    if others > 0:
        work.record_license_event("license.deactivated", license, command, details={"others": others})
    return model.LicenseRecord(license, tuple(listed))


def release_all(work: LicenseWork, command: model.ReleaseAll) -> int:
    """Give up every place; returns how many activations were active."""
    taken = work.get_license(command).active_count
    if taken:
        deactivate_all(work, command)
    return taken


def release(work: LicenseWork, command: model.ReleaseActivation) -> None:
    """Give up one place, unless it was given up before. Raises ``NotFound``."""
    license, number = work.get_license(command), command.activation_id
    known = work.known_activations(license).values()
    activation = next((one for one in known if one.id == number), None)
    if activation is None:
        raise NotFound(f"activation {number}")
    if command.activation_precondition is not None:
        command.activation_precondition(activation)
    if activation.deactivated_at is None:
        license, activation = activation_rules.deactivate(license, activation, command.context.now)
        _save(work, command, "license.deactivated", license, activation)


def _count_removals(
    work: LicenseWork, command: Command, license: License, freed: Iterable[model.Activation]
) -> None:
    """Count what a program gives up by itself among the removals of its customer."""
    if command.context.origin.actor == _PROGRAM:
        for one in freed:
            work.removals.add(license, one.id, command.context.now)


def _save(
    work: LicenseWork, command: Command, event: str, license: License, activation: model.Activation
) -> model.LicenseRecord:
    work.set_license(license)
    work.set_activation(activation)
    work.record_license_event(event, license, command, activation)
    return model.LicenseRecord(license, (activation,))


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    model.Activate: activate,
    model.Reactivate: reactivate,
    model.Deactivate: deactivate,
    model.DeactivateAll: deactivate_all,
    model.ReleaseAll: release_all,
    model.ReleaseActivation: release,
}
