"""Decide the command that frees a device for a customer."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.core.errors import NotFound, UnknownLicenseId
from keywright.licensing.activations import handlers as activations
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.removals import rules
from keywright.licensing.removals.commands import RemoveByCustomer
from keywright.licensing.unit_of_work import LicenseWork


def remove_by_customer(work: LicenseWork, command: RemoveByCustomer) -> Activation:
    """Give up one place; one that was given up before stays as it is, and is not counted. Returns the device
    as it was. Raises ``UnknownLicenseId``, ``NotFound`` or ``NoRemovalLeft``.
    """
    license, now = work.get_license(command), command.context.now
    if command.customer_id not in (None, license.customer_id):
        raise UnknownLicenseId(str(license.id))
    known = work.known_activations(license).values()
    activation = next((one for one in known if one.id == command.activation_id), None)
    if activation is None:
        raise NotFound(f"activation {command.activation_id}")
    if activation.deactivated_at is None:
        rules.require_removal(terms_of(license), work.removals.list_removals(license), now)
        work.removals.add(license, activation.id, now)
        activations.release(work, command)
    return activation


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {RemoveByCustomer: remove_by_customer}
