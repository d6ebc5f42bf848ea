"""Read licenses for the management API."""

from collections.abc import Callable, Sequence
from typing import Any

from keywright.core.command import Query
from keywright.core.errors import NotFound, UnknownLicenseId
from keywright.db import ReadTransaction
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.records import find_last_seen
from keywright.licensing.activations.store import find_by_id
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.management import (
    ActivationPage,
    GetActivation,
    GetLicense,
    ListActivations,
    ManagedActivation,
    ManagedLicense,
)
from keywright.licensing.management_store import find_activations, list_managed


def get_license(read: Any, query: GetLicense) -> ManagedLicense:
    """One license. Raises ``UnknownLicenseId``."""
    license = require_license(read.tx, query.license_id, query.only_product_id)
    return list_managed(read.tx, [license], query.now)[0]


def get_activation(read: Any, query: GetActivation) -> ManagedActivation:
    """One activation. Raises ``UnknownLicenseId`` and ``NotFound``."""
    require_license(read.tx, query.license_id, query.only_product_id)
    found = find_by_id(read.tx, [(query.license_id, query.activation_id)])
    if not found:
        raise NotFound(f"activation {query.activation_id}")
    return _show(read.tx, found)[0]


def list_activations(read: Any, query: ListActivations) -> ActivationPage:
    """A page of a license's activations. Raises ``UnknownLicenseId``."""
    license = require_license(read.tx, query.license_id, query.only_product_id)
    total = None
    if query.is_counted:
        active, ended = license.times_activated, license.deactivated_count
        total = {None: active + ended, True: active, False: ended}[query.is_active]
    return ActivationPage(_show(read.tx, find_activations(read.tx, query)), total)


def _show(tx: ReadTransaction, activations: Sequence[Activation]) -> tuple[ManagedActivation, ...]:
    seen = find_last_seen(tx, activations)
    return tuple(ManagedActivation(one, seen.get(one.id)) for one in activations)


def require_license(tx: ReadTransaction, license_id: int, only_product_id: int | None) -> License:
    """The license with this id. Raises ``UnknownLicenseId``, also for one that the caller may not see."""
    found = find_licenses_by_id(tx, [license_id]).get(license_id)
    if found is None or (only_product_id is not None and found.product_id != only_product_id):
        raise UnknownLicenseId(str(license_id))
    return found


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    GetLicense: get_license,
    GetActivation: get_activation,
    ListActivations: list_activations,
}
