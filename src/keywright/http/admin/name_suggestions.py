"""Names that forms suggest where the number of a product or customer is typed."""

from collections.abc import Mapping

from keywright.db import ReadTransaction
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import list_names

_MAX_SUGGESTIONS = 200


def suggest_names(tx: ReadTransaction, kind: NameKind) -> Mapping[int, str]:
    """The first names of this kind, by number."""
    return list_names(tx, kind, after=-1, limit=_MAX_SUGGESTIONS)
