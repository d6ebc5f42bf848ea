"""The rules of customers.

Events contain no names and e-mail addresses: what is erased must not be left there.
"""

from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import AlreadyExists, StillInUse
from keywright.core.fields import list_changes
from keywright.events import nouns
from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning.customers import store
from keywright.provisioning.customers.commands import CUSTOMER, CreateCustomer, UpdateCustomer
from keywright.provisioning.customers.fields import CustomerFields, NewCustomer, fold_email
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.store import CUSTOMERS
from keywright.provisioning.portal import store as portal_store


def check(work: UnitOfWork, before: Customer | None, after: Customer) -> Customer:
    """E-mail address and external ID are unique; a new address is not verified. Raises ``AlreadyExists``."""
    nouns.require_free(RULES, work, before, after, "email", "external_id")
    if before is None or fold_email(before.email or "") == fold_email(after.email or ""):
        return after
    # Sessions belong to the reader of the former address.
    portal_store.end_all(work.tx, after.id)
    return replace(after, email_verified_at=None)


def may_delete(work: UnitOfWork, customer: Customer) -> None:
    """Only a customer without licenses is deleted. Raises ``StillInUse``."""
    if store.has_licenses(work.tx, customer.id):
        raise StillInUse(f"customer {customer.id}", "licenses")
    portal_store.end_all(work.tx, customer.id)


def _details(customer: Customer) -> dict[str, Any]:
    return {"number": customer.id}


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
    fields = NewCustomer(id=id, email=email, name=name, language=language)
    try:
        made: Customer = nouns.create(RULES, work, CreateCustomer(context=command.context, fields=fields))
    except AlreadyExists:
        # Another transaction may have made it between the two statements.
        customer = _find(work, id, email)
        if customer is None:
            raise
        return customer
    return made


def _find(work: UnitOfWork, id: int | None, email: str | None) -> Customer | None:
    if id is not None:
        return CUSTOMERS.find(work.tx, id)
    return None if email is None else CUSTOMERS.find_by(work.tx, "email", email)


def claim_external_id(work: UnitOfWork, command: Command, customer_id: int, external_id: str) -> bool:
    """Give a customer this external ID; return False, and change nothing, where the customer has another one,
    or another customer has this one.
    """
    customer = CUSTOMERS.lock(work.tx, customer_id)
    if customer is None or customer.external_id is not None:
        return customer is None or customer.external_id == external_id
    if CUSTOMERS.find_by(work.tx, "external_id", external_id) is not None:
        return False
    fields = CustomerFields(external_id=external_id)
    nouns.update(RULES, work, UpdateCustomer(context=command.context, id=customer_id, fields=fields))
    return True


def give_email(work: UnitOfWork, command: Command, customer: Customer, fields: CustomerFields) -> None:
    """Give a customer without an e-mail address that of these fields; a name and a language that are known
    stay.
    """
    missing = {name: one for name, one in list_changes(fields).items() if getattr(customer, name) is None}
    change = UpdateCustomer(context=command.context, id=customer.id, fields=CustomerFields(**missing))
    nouns.update(RULES, work, change)


RULES = nouns.Rules(
    *(CUSTOMER, CUSTOMERS, store.is_number_taken, check, may_delete, _details),
    unshown=CustomerFields.__struct_fields__,
)
HANDLERS, QUERY_HANDLERS = nouns.handlers_of(RULES), nouns.query_handlers_of(RULES)
