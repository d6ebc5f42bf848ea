"""The rules of products."""

from typing import Any

from msgspec.structs import replace

from keywright.core.errors import StillInUse
from keywright.events import nouns
from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning.products import store
from keywright.provisioning.products.commands import PRODUCT
from keywright.provisioning.products.fields import derive_code
from keywright.provisioning.products.model import Product


def check(work: UnitOfWork, before: Product | None, after: Product) -> Product:
    """A new product without a code gets one made from its name, if no other product has that. Any product may
    be given a code late, but no other code while programs may name it by the first. Raises ``AlreadyExists``
    and ``StillInUse``.
    """
    if before is not None and before.code not in (None, after.code) and store.has_licenses(work.tx, after.id):
        raise StillInUse(f"code of product {after.id}", "licenses")
    nouns.require_free(RULES, work, before, after, "code", "external_id")
    if before is None and after.code is None:
        code = derive_code(after.name)
        is_free = code is None or store.PRODUCTS.find_by(work.tx, "code", code) is None
        return replace(after, code=code if is_free else None)
    return after


def may_delete(work: UnitOfWork, product: Product) -> None:
    """Only a product that no license and no policy names is deleted. Raises ``StillInUse``."""
    for users, has_users in (("licenses", store.has_licenses), ("policies", store.has_policies)):
        if has_users(work.tx, product.id):
            raise StillInUse(f"product {product.id}", users)


def _details(product: Product) -> dict[str, Any]:
    return {"product_id": product.id, "product": product.name}


RULES = nouns.Rules(
    *(PRODUCT, store.PRODUCTS, store.is_number_taken, check, may_delete, _details),
    unshown=("features", "metadata"),
)
HANDLERS, QUERY_HANDLERS = nouns.handlers_of(RULES), nouns.query_handlers_of(RULES)
