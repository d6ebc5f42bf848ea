"""Decide the commands about customers.

Events do not say names and e-mail addresses: what is erased must not be left there.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import AlreadyExists, NotFound, StillInUse
from keywright.core.metadata import merge_metadata
from keywright.db.transaction import take_free_id
from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning.customers import store as customer_store
from keywright.provisioning.customers.commands import CreateCustomer, DeleteCustomer, UpdateCustomer
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.rules import fold_email
from keywright.provisioning.portal import store as portal_store


def create_customer(work: UnitOfWork, command: CreateCustomer) -> Customer:
    """Make a customer. Raises ``AlreadyExists``."""
    _require_free_email(work, command.email)
    _require_free_external_id(work, command.external_id)
    return _add(work, command)


def _add(work: UnitOfWork, command: CreateCustomer) -> Customer:
    customer_id = command.id
    if customer_id is None:
        customer_id = take_free_id(work.tx.ids, "customer", partial(customer_store.is_number_taken, work.tx))
    elif customer_store.find_customer(work.tx, customer_id) is not None:
        raise AlreadyExists("customer", "id")
    customer = Customer(
        id=customer_id,
        email=command.email,
        email_verified_at=None,
        name=command.name,
        metadata=command.metadata,
        created_at=command.context.now,
        updated_at=command.context.now,
        language=command.language,
        erasure_requested_at=command.erasure_requested_at,
        unsubscribed_at=command.unsubscribed_at,
        external_id=command.external_id,
    )
    customer_store.save_new_customer(work.tx, customer)
    work.record_event("customer.created", command, {"number": customer_id})
    return customer


def find_or_make(
    work: UnitOfWork,
    command: Command,
    *,
    id: int | None = None,
    email: str | None = None,
    name: str | None = None,
    language: str | None = None,
) -> Customer:
    """The customer with this id or, without one, this e-mail address; a new one if there is none.

    One that exists stays as it is. Raises ``AlreadyExists`` where a new one would have the e-mail address of
    another. Two transactions cannot make the same customer: the later one meets a conflict, is run again, and
    finds it.
    """
    customer = _find(work, id, email)
    if customer is not None:
        return customer
    create = CreateCustomer(context=command.context, id=id, email=email, name=name, language=language)
    if id is None:
        return _add(work, create)
    try:
        return create_customer(work, create)
    except AlreadyExists:
        # Another transaction may have made it between the two statements.
        customer = _find(work, id, email)
        if customer is None:
            raise
        return customer


def _find(work: UnitOfWork, id: int | None, email: str | None) -> Customer | None:
    if id is not None:
        return customer_store.find_customer(work.tx, id)
    return None if email is None else customer_store.find_customer_by_email(work.tx, email)


def update_customer(work: UnitOfWork, command: UpdateCustomer) -> Customer:
    """Change a customer; a new e-mail address is not verified. Raises ``NotFound``, ``AlreadyExists``."""
    customer = _lock(work, command)
    changes = dict(command.changes)
    if "metadata" in changes:
        changes["metadata"] = merge_metadata(customer.metadata, changes["metadata"])
    changed = replace(customer, **changes)
    if changed == customer:
        return customer
    if fold_email(changed.email or "") != fold_email(customer.email or ""):
        _require_free_email(work, changed.email)
        changed = replace(changed, email_verified_at=None)
        # They belong to who reads the mail of the former address.
        portal_store.end_all(work.tx, customer.id)
    if changed.external_id != customer.external_id:
        _require_free_external_id(work, changed.external_id)
    changed = replace(changed, updated_at=command.context.now)
    customer_store.save_customer(work.tx, changed)
    names = [name for name in changes if getattr(customer, name) != getattr(changed, name)]
    work.record_event("customer.updated", command, {"number": customer.id} | dict.fromkeys(names, "changed"))
    return changed


def claim_external_id(work: UnitOfWork, command: Command, customer_id: int, external_id: str) -> bool:
    """Give a customer this external ID; return False, and change nothing, where the customer has another one,
    or another customer has this one.
    """
    customer = customer_store.lock_customer(work.tx, customer_id)
    if customer is None or customer.external_id is not None:
        return customer is None or customer.external_id == external_id
    if customer_store.find_by_external_id(work.tx, external_id) is not None:
        return False
    changes = {"external_id": external_id}
    update_customer(work, UpdateCustomer(context=command.context, customer_id=customer_id, changes=changes))
    return True


def delete_customer(work: UnitOfWork, command: DeleteCustomer) -> None:
    """Delete a customer. Raises ``NotFound``, ``StillInUse``."""
    customer = _lock(work, command)
    if customer_store.has_licenses(work.tx, customer.id):
        raise StillInUse(f"customer {customer.id}", "licenses")
    portal_store.end_all(work.tx, customer.id)
    customer_store.delete_customer(work.tx, customer.id)
    work.record_event("customer.deleted", command, {"number": customer.id})


def _require_free_email(work: UnitOfWork, email: str | None) -> None:
    if email is not None and customer_store.find_customer_by_email(work.tx, email) is not None:
        raise AlreadyExists("customer", "email")


def _require_free_external_id(work: UnitOfWork, external_id: str | None) -> None:
    if external_id is not None and customer_store.find_by_external_id(work.tx, external_id) is not None:
        raise AlreadyExists("customer", "external_id")


def _lock(work: UnitOfWork, command: UpdateCustomer | DeleteCustomer) -> Customer:
    customer = customer_store.lock_customer(work.tx, command.customer_id)
    if customer is None:
        raise NotFound(f"customer {command.customer_id}")
    if command.precondition is not None:
        command.precondition(customer)
    return customer


HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = {
    CreateCustomer: create_customer,
    UpdateCustomer: update_customer,
    DeleteCustomer: delete_customer,
}
