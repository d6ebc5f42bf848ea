"""A license with its activations."""

import msgspec

from keywright.core.parsing import MAX_ID
from keywright.db import ReadTransaction
from keywright.licensing.activations import records, rules
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id

#: The most activations of a license that are shown.
MAX_ACTIVATIONS = 200
#: The most activations of each kind, active or deactivated, that are read.
_MAX_READ = 1_000


class LicenseDetails(msgspec.Struct, frozen=True):
    """A license, its latest activations (active ones first), and the numbers of all and of active ones."""

    license: License
    activations: tuple[Activation, ...]
    total: int
    active: int


def get_license(tx: ReadTransaction, license_id: int) -> LicenseDetails | None:
    """The license with this id and at most 200 of its activations; None when there is none."""
    if not 0 <= license_id <= MAX_ID:
        return None
    found = find_licenses_by_id(tx, [license_id]).get(license_id)
    record = None if found is None else records.find_some(tx, found, _MAX_READ, rules.MAX_LISTED_BYTES)
    if record is None:
        return None
    license = record.license
    latest = sorted(record.activations, key=rules.by_age, reverse=True)
    shown = sorted(latest, key=lambda one: one.deactivated_at is not None)[:MAX_ACTIVATIONS]
    total = license.times_activated + license.deactivated_count
    return LicenseDetails(license, tuple(shown), total, license.times_activated)
