"""Read transfers, and count claims."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Query
from keywright.licensing.management_queries import require_license
from keywright.provisioning.ownership import store
from keywright.provisioning.ownership.commands import CountClaims, ListTransfers
from keywright.provisioning.ownership.model import ClaimCounts, Transfer


def list_transfers(read: Any, query: ListTransfers) -> tuple[int | None, list[Transfer]]:
    """The license's customer, and its transfers. Raises ``UnknownLicenseId``."""
    license = require_license(read.tx, query.license_id, query.only_product_id)
    return license.customer_id, store.list_transfers(read.tx, license.id)


def count_claims(read: Any, query: CountClaims) -> ClaimCounts:
    """How many of the licenses were claimed and activated."""
    return store.count_claims(read.tx, query)


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    ListTransfers: list_transfers,
    CountClaims: count_claims,
}
