"""A license with its activations."""

import msgspec

from keywright.core.parsing import MAX_ID
from keywright.db import ReadTransaction
from keywright.licensing.activations import records, rules
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id

#: The activations of a license on a page: each may have much metadata.
_PAGE_SIZE = 50
#: The most activations of each kind, active or deactivated, that are read.
_MAX_READ = 1_000


class LicenseDetails(msgspec.Struct, frozen=True):
    """A license, a page of its latest activations (active ones first), and the numbers of all and of active
    ones. ``previous`` and ``next`` are the places at which the pages beside it begin.
    """

    license: License
    activations: tuple[Activation, ...]
    total: int
    active: int
    previous: int | None = None
    next: int | None = None


def get_license(tx: ReadTransaction, license_id: int, first: int = 0) -> LicenseDetails | None:
    """The license with this id, with a page of its activations from a place on; None when there is none."""
    if not 0 <= license_id <= MAX_ID:
        return None
    found = find_licenses_by_id(tx, [license_id]).get(license_id)
    record = None if found is None else records.find_some(tx, found, _MAX_READ, rules.MAX_LISTED_BYTES)
    if record is None:
        return None
    license = record.license
    latest = sorted(record.activations, key=rules.by_age, reverse=True)
    ordered = sorted(latest, key=lambda one: one.deactivated_at is not None)
    total = license.times_activated + license.deactivated_count
    return LicenseDetails(
        license,
        tuple(ordered[first : first + _PAGE_SIZE]),
        total,
        license.times_activated,
        previous=max(0, first - _PAGE_SIZE) if first else None,
        next=first + _PAGE_SIZE if first + _PAGE_SIZE < len(ordered) else None,
    )
