"""Read trials."""

import re
from collections.abc import Callable
from typing import Any

from keywright.core.command import Query
from keywright.core.errors import TrialNotOffered
from keywright.db.transaction import ReadTransaction
from keywright.provisioning.products.store import PRODUCTS, is_number_taken
from keywright.provisioning.trials import store
from keywright.provisioning.trials.commands import HasTrial

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
    return store.find_trial(read.tx, product_id, query.fingerprint) is not None


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {HasTrial: has_trial}
