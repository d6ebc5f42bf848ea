"""Read the leases of a license."""

from typing import Any

from keywright.core.paging import ItemPage
from keywright.licensing.leases import store
from keywright.licensing.leases.commands import ListLeases
from keywright.licensing.leases.model import Lease
from keywright.licensing.management_queries import require_license


def list_leases(read: Any, query: ListLeases) -> ItemPage[Lease]:
    """A page of leases. Raises ``UnknownLicense``."""
    license = require_license(read.tx, query.license_id, query.only_product_id)
    found = store.list_leases(read.tx, license.id, before=query.before, limit=query.limit)
    return ItemPage(found, store.count_leases(read.tx, license.id) if query.is_counted else None)
