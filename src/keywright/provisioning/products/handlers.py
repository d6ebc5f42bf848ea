"""Decide the commands about products."""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import AlreadyExists, NotFound, StillInUse
from keywright.core.metadata import merge_metadata
from keywright.db.transaction import take_free_id
from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning.products import rules
from keywright.provisioning.products import store as product_store
from keywright.provisioning.products.commands import CreateProduct, DeleteProduct, UpdateProduct
from keywright.provisioning.products.model import Product

#: The fields that events have before and after.
_SHORT = ("code", "name", "url", "external_id", "renew_url")


def create_product(work: UnitOfWork, command: CreateProduct) -> Product:
    """Make a product. Raises ``AlreadyExists``."""
    code = _choose_code(work, command)
    _require_free_external_id(work, command.external_id)
    product = Product(
        id=_choose_id(work, command.id),
        code=code,
        name=command.name,
        url=command.url,
        features=command.features,
        metadata=command.metadata,
        created_at=command.context.now,
        updated_at=command.context.now,
        external_id=command.external_id,
        renew_url=command.renew_url,
    )
    product_store.save_new_product(work.tx, product)
    work.record_event("product.created", command, _details(product))
    return product


def update_product(work: UnitOfWork, command: UpdateProduct) -> Product:
    """Change a product. Raises ``NotFound``, ``AlreadyExists``; ``StillInUse`` for another code where a
    license is for the product.
    """
    product = _lock(work, command)
    changes = dict(command.changes)
    if "metadata" in changes:
        changes["metadata"] = merge_metadata(product.metadata, changes["metadata"])
    changed = replace(product, **changes)
    if changed == product:
        return product
    if changed.code != product.code:
        _require_free_code(work, product, changed.code)
    if changed.external_id != product.external_id:
        _require_free_external_id(work, changed.external_id)
    changed = replace(changed, updated_at=command.context.now)
    product_store.save_product(work.tx, changed)
    work.record_event("product.updated", command, _details(changed) | _differences(product, changed))
    return changed


def delete_product(work: UnitOfWork, command: DeleteProduct) -> None:
    """Delete a product. Raises ``NotFound``, ``StillInUse``."""
    product = _lock(work, command)
    users = "licenses" if product_store.has_licenses(work.tx, product.id) else None
    if users is None and product_store.has_policies(work.tx, product.id):
        users = "policies"
    if users is not None:
        raise StillInUse(f"product {product.id}", users)
    product_store.delete_product(work.tx, product.id)
    work.record_event("product.deleted", command, _details(product))


def _choose_id(work: UnitOfWork, wanted: int | None) -> int:
    if wanted is None:
        return take_free_id(work.tx.ids, "product", partial(product_store.is_number_taken, work.tx))
    if product_store.find_product(work.tx, wanted) is not None:
        raise AlreadyExists("product", "id")
    return wanted


def _choose_code(work: UnitOfWork, command: CreateProduct) -> str | None:
    code = command.code or rules.derive_code(command.name)
    if code is None or product_store.find_product_by_code(work.tx, code) is None:
        return code
    if command.code is not None:
        raise AlreadyExists("product", "code")
    return None


def _require_free_code(work: UnitOfWork, product: Product, code: str | None) -> None:
    """A product may be given a code late, and not another one while programs may name it by that."""
    if product.code is not None and product_store.has_licenses(work.tx, product.id):
        raise StillInUse(f"code of product {product.id}", "licenses")
    if code is not None and product_store.find_product_by_code(work.tx, code) is not None:
        raise AlreadyExists("product", "code")


def _require_free_external_id(work: UnitOfWork, external_id: str | None) -> None:
    if external_id is not None and product_store.find_by_external_id(work.tx, external_id) is not None:
        raise AlreadyExists("product", "external_id")


def _lock(work: UnitOfWork, command: UpdateProduct | DeleteProduct) -> Product:
    product = product_store.lock_product(work.tx, command.product_id)
    if product is None:
        raise NotFound(f"product {command.product_id}")
    if command.precondition is not None:
        command.precondition(product)
    return product


def _differences(before: Product, after: Product) -> dict[str, Any]:
    """The changed fields: short ones as [before, after]."""
    short = {name: [getattr(before, name), getattr(after, name)] for name in _SHORT}
    found: dict[str, Any] = {name: pair for name, pair in short.items() if pair[0] != pair[1]}
    long = [name for name in ("features", "metadata") if getattr(before, name) != getattr(after, name)]
    return found | dict.fromkeys(long, "changed")


def _details(product: Product) -> dict[str, Any]:
    return {"product_id": product.id, "product": product.name}


HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = {
    CreateProduct: create_product,
    UpdateProduct: update_product,
    DeleteProduct: delete_product,
}
