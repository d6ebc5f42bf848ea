"""A license with its activations."""

import msgspec

from keywright.core.parsing import MAX_ID
from keywright.db import ReadTransaction
from keywright.licensing.activations import records, rules
from keywright.licensing.activations.model import Activation, LicenseRecord
from keywright.licensing.licenses.model import License
from keywright.search import scan_store

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
    for license in scan_store.list_licenses_by_id(tx, [license_id]):
        found = records.find_some(tx, license, _MAX_READ, rules.MAX_LISTED_BYTES)
        if found is not None:
            return _details(found)
    return None


def _details(record: LicenseRecord) -> LicenseDetails:
    license = record.license
    latest = sorted(record.activations, key=rules.by_age, reverse=True)
    shown = sorted(latest, key=lambda one: one.deactivated_at is not None)[:MAX_ACTIVATIONS]
    total = license.times_activated + license.deactivated_count
    return LicenseDetails(license, tuple(shown), total, license.times_activated)
