"""Decide the commands and queries about trials."""

import re
from collections.abc import Callable
from typing import Any

from keywright.core.command import Command, Query
from keywright.core.errors import TrialNotOffered, TrialUsed
from keywright.db.transaction import ReadTransaction
from keywright.licensing.activations.commands import ActivateDevice
from keywright.licensing.activations.device_handlers import activate_device
from keywright.licensing.activations.store import find_by_fingerprint
from keywright.licensing.licenses.commands import NewLicenseCommand
from keywright.licensing.licenses.handlers import fields_of, new_license
from keywright.licensing.licenses.model import License, LicenseSource, Status
from keywright.licensing.licenses.rules import expiry_of_new
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning import trials, trials_store
from keywright.provisioning.policies.handlers import draw_keys
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.store import find_policy, list_policies
from keywright.provisioning.products.store import PRODUCTS, is_number_taken
from keywright.provisioning.trials import HasTrial, StartedTrial, StartTrial, Trial


def start_trial(work: LicenseWork, command: StartTrial) -> StartedTrial:
    """Make a license from the product's policy for trials, and activate the device; a device that has had its
    trial gets that one again. Two servers cannot start the same one: the later one meets a conflict, is run
    again, and finds it.
    """
    product_id = find_product_id(work.tx, command.product, command.only_product_id)
    now = command.context.now
    # Until the end, nothing is written with the other secret: what is not found now cannot come.
    _ = work.tx.sealing
    trial = trials_store.find_trial(work.tx, product_id, command.fingerprint)
    if trial is not None:
        return _show_first(work, command, trial)
    policy = trials.choose_policy(_list_policies(work, command, product_id), command.policy_id)
    license = _new_license(work, command, policy, product_id)
    activation = ActivateDevice(
        context=command.context, license=license.key, device=command.device, built_at=command.built_at
    )
    place = activate_device(work, activation)
    trials_store.save_new_trial(
        work.tx, Trial(product_id, license.id, command.email, now), command.fingerprint
    )
    return StartedTrial(place.view, place.activation, is_new=True)


def _list_policies(work: LicenseWork, command: StartTrial, product_id: int) -> list[Policy]:
    """The policies of the product, or the named one, which may be for every product."""
    if command.policy_id is None:
        return list_policies(work.tx, product_id=product_id)
    policy = find_policy(work.tx, command.policy_id)
    return [] if policy is None or policy.product_id not in (None, product_id) else [policy]


def _new_license(work: LicenseWork, command: StartTrial, policy: Policy, product_id: int) -> License:
    made = NewLicenseCommand(context=command.context, status=Status.ACTIVE, product_id=product_id)
    return new_license(
        work,
        made,
        draw_keys(work, policy, 1)[0],
        LicenseSource.GENERATOR,
        expires_at=expiry_of_new(policy.terms, command.context.now),
        policy_id=policy.id,
        **fields_of(policy.terms),
    )


def _show_first(work: LicenseWork, command: StartTrial, trial: Trial) -> StartedTrial:
    """The trial that the device has had. Raises ``TrialUsed`` when its license was deleted."""
    license = work.find_license(trial.license_id) or find_licenses_by_id(work.tx, [trial.license_id]).get(
        trial.license_id
    )
    if license is None:
        raise TrialUsed
    known = list(work.known_activations(license).values())
    known += find_by_fingerprint(work.tx, [(license.id, command.fingerprint)])
    own = next((one for one in known if one.fingerprint == command.fingerprint), None)
    return StartedTrial(work.devices.views.show(license, command.context.now), own, is_new=False)


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {StartTrial: start_trial}


#: The number of a product, sent as a text.
_NUMBER = re.compile("[1-9][0-9]{0,17}")


def find_product_id(tx: ReadTransaction, product: int | str, only_product_id: int | None) -> int:
    """The number of the product. Raises ``TrialNotOffered`` for one that the caller may not see, and for one
    that does not exist: of each number that is made up, a device would get another trial.
    """
    if isinstance(product, str):
        found = PRODUCTS.find_by(tx, "code", product)
        product = int(product) if found is None and _NUMBER.fullmatch(product) else getattr(found, "id", 0)
    if only_product_id not in (None, product) or not is_number_taken(tx, product):
        raise TrialNotOffered
    return product


def has_trial(read: Any, query: HasTrial) -> bool:
    """Whether the device has had its trial. Raises ``TrialNotOffered``."""
    product_id = find_product_id(read.tx, query.product, query.only_product_id)
    return trials_store.find_trial(read.tx, product_id, query.fingerprint) is not None


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {HasTrial: has_trial}
