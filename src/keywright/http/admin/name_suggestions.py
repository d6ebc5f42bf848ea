"""Names that forms suggest where the number of a product or customer is typed."""

from collections.abc import Mapping

from keywright.db import ReadTransaction
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import list_names

_MAX_SUGGESTIONS = 200


def suggest_names(tx: ReadTransaction) -> Mapping[str, Mapping[int, str]]:
    """The first names of products and of customers, by number."""
    kinds = {"product": NameKind.PRODUCT, "customer": NameKind.CUSTOMER}
    return {name: list_names(tx, kind, after=-1, limit=_MAX_SUGGESTIONS) for name, kind in kinds.items()}
