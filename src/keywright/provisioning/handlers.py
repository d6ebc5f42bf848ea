"""The handlers about products, customers, trials and the brand; the rules of products and customers.

Events contain no names and e-mail addresses of customers, which an erasure would have to find, except
``name.saved``, from which it removes the name.
"""

import base64
import re
from collections.abc import Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from keywright.core.command import Command, Query
from keywright.core.errors import AlreadyExists, StillInUse, TrialNotOffered, TrialUsed
from keywright.core.fields import list_changes
from keywright.db.transaction import ReadTransaction
from keywright.events import nouns
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.activations.device_handlers import activate_device
from keywright.licensing.activations.model import ActivateDevice
from keywright.licensing.activations.store import find_by_fingerprint
from keywright.licensing.licenses.handlers import fields_of, new_license
from keywright.licensing.licenses.model import License, LicenseSource, NewLicenseCommand, Status
from keywright.licensing.licenses.rules import expiry_of_new
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.updates.notices_store import forget_customer
from keywright.licensing.updates.store import has_notices, has_releases, note_change
from keywright.provisioning import brand as rules
from keywright.provisioning import store as provisioning_store
from keywright.provisioning import trials, trials_store
from keywright.provisioning.brand import Brand, FindBrand, SaveBrand
from keywright.provisioning.customers import (
    CUSTOMER,
    CreateCustomer,
    Customer,
    CustomerFields,
    NewCustomer,
    UpdateCustomer,
    fold_email,
)
from keywright.provisioning.policies.handlers import draw_keys
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.store import find_policy, list_policies
from keywright.provisioning.portal import store as portal_store
from keywright.provisioning.products import PRODUCT, Product, SaveName, derive_code
from keywright.provisioning.store import CUSTOMERS, PRODUCTS, names_of
from keywright.provisioning.store import is_product_taken as is_number_taken
from keywright.provisioning.trials import HasTrial, StartedTrial, StartTrial, Trial


def save_name(work: UnitOfWork, command: SaveName) -> None:
    """Change the name for an ID from the shop."""
    before = names_of(work.tx, command.kind, [command.number]).get(command.number)
    if before == command.name:
        return
    provisioning_store.save_name(work.tx, command.kind, command.number, command.name, command.context.now)
    details = {"kind": command.kind, "number": command.number, "name": [before, command.name]}
    work.record_event("name.saved", command, details)


NAME_HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {SaveName: save_name}


def check_product(work: UnitOfWork, before: Product | None, after: Product) -> Product:
    """Give a new product without a code one derived from its name, if no other product has that. An existing
    product may get its first code at any time, but another one only without licenses, as programs may use the
    first. Raises ``AlreadyExists`` and ``StillInUse``.
    """
    if (
        before is not None
        and before.code not in (None, after.code)
        and provisioning_store.product_has_licenses(work.tx, after.id)
    ):
        raise StillInUse(f"code of product {after.id}", "licenses")
    is_new_scheme = before is not None and before.version_scheme is not after.version_scheme
    if is_new_scheme and has_notices(work.tx, after.id):
        raise StillInUse(f"version_scheme of product {after.id}", "notices")
    if before is not None and has_releases(work.tx, after.id):
        if is_new_scheme:
            raise StillInUse(f"version_scheme of product {after.id}", "releases")
        note_change(work.tx, after.id)
    nouns.require_free(PRODUCT_RULES, work, before, after, "code", "external_id")
    if before is None and after.code is None:
        code = derive_code(after.name)
        is_free = code is None or provisioning_store.PRODUCTS.find_by(work.tx, "code", code) is None
        return replace(after, code=code if is_free else None)
    return after


def may_delete_product(work: UnitOfWork, product: Product) -> None:
    """Check that no license, policy, release or notice refers to the product. Raises ``StillInUse``."""
    for users, has_users in (
        ("licenses", provisioning_store.product_has_licenses),
        ("policies", provisioning_store.product_has_policies),
        ("releases", has_releases),
        ("notices", has_notices),
    ):
        if has_users(work.tx, product.id):
            raise StillInUse(f"product {product.id}", users)


def _product_details(product: Product) -> dict[str, Any]:
    return {"product_id": product.id, "product": product.name}


PRODUCT_RULES = nouns.Rules(
    *(
        PRODUCT,
        provisioning_store.PRODUCTS,
        provisioning_store.is_product_taken,
        check_product,
        may_delete_product,
        _product_details,
    ),
    unshown=("features", "metadata"),
)
PRODUCT_HANDLERS, PRODUCT_QUERIES = nouns.handlers_of(PRODUCT_RULES), nouns.query_handlers_of(PRODUCT_RULES)


def check_customer(work: UnitOfWork, before: Customer | None, after: Customer) -> Customer:
    """Check that e-mail address and external ID are unique. A new address is unverified, and ends the
    customer's sessions in the portal. Raises ``AlreadyExists``.
    """
    nouns.require_free(CUSTOMER_RULES, work, before, after, "email", "external_id")
    if before is None or fold_email(before.email or "") == fold_email(after.email or ""):
        return after
    # The sessions belong to the owner of the former address.
    portal_store.end_all(work.tx, after.id)
    return replace(after, email_verified_at=None)


def may_delete_customer(work: UnitOfWork, customer: Customer) -> None:
    """End a customer's access to the portal before deletion. Raises ``StillInUse`` if there are licenses."""
    if provisioning_store.customer_has_licenses(work.tx, customer.id):
        raise StillInUse(f"customer {customer.id}", "licenses")
    portal_store.end_all(work.tx, customer.id)
    forget_customer(work.tx, customer.id)


def _customer_details(customer: Customer) -> dict[str, Any]:
    return {"number": customer.id}


def find_or_make_customer(
    work: UnitOfWork,
    command: Command,
    *,
    id: int | None = None,
    email: str | None = None,
    name: str | None = None,
    language: str | None = None,
) -> Customer:
    """Return the customer with this ID or, without an ID, this e-mail address; make one if there is none.

    An existing customer is not changed. Raises ``AlreadyExists`` if a new customer would have the e-mail
    address of another. Two transactions cannot make the same customer: the later one has a conflict, is
    retried, and finds the customer.
    """
    customer = _find_customer(work, id, email)
    if customer is not None:
        return customer
    try:
        return make_customer(work, command, NewCustomer(id=id, email=email, name=name, language=language))
    except AlreadyExists:
        # Another transaction may have made the customer between the two statements.
        customer = _find_customer(work, id, email)
        if customer is None:
            raise
        return customer


def make_customer(work: UnitOfWork, command: Command, fields: NewCustomer) -> Customer:
    """Make a customer. Raises ``AlreadyExists``."""
    made: Customer = nouns.create(
        CUSTOMER_RULES, work, CreateCustomer(context=command.context, fields=fields)
    )
    return made


def _find_customer(work: UnitOfWork, id: int | None, email: str | None) -> Customer | None:
    if id is not None:
        return CUSTOMERS.find(work.tx, id)
    return None if email is None else CUSTOMERS.find_by(work.tx, "email", email)


def claim_external_id(work: UnitOfWork, command: Command, customer_id: int, external_id: str) -> bool:
    """Set a customer's external ID. Return False, and change nothing, if the customer has another external
    ID, or another customer has this one.
    """
    customer = CUSTOMERS.lock(work.tx, customer_id)
    if customer is None or customer.external_id is not None:
        return customer is None or customer.external_id == external_id
    if CUSTOMERS.find_by(work.tx, "external_id", external_id) is not None:
        return False
    fields = CustomerFields(external_id=external_id)
    nouns.update(CUSTOMER_RULES, work, UpdateCustomer(context=command.context, id=customer_id, fields=fields))
    return True


def give_email(work: UnitOfWork, command: Command, customer: Customer, fields: CustomerFields) -> None:
    """Set the e-mail address of a customer who has none, and a name and a language unless they are set."""
    missing = {name: one for name, one in list_changes(fields).items() if getattr(customer, name) is None}
    change = UpdateCustomer(context=command.context, id=customer.id, fields=CustomerFields(**missing))
    nouns.update(CUSTOMER_RULES, work, change)


CUSTOMER_RULES = nouns.Rules(
    *(
        CUSTOMER,
        CUSTOMERS,
        provisioning_store.is_customer_taken,
        check_customer,
        may_delete_customer,
        _customer_details,
    ),
    unshown=CustomerFields.__struct_fields__,
)
CUSTOMER_HANDLERS, CUSTOMER_QUERIES = (
    nouns.handlers_of(CUSTOMER_RULES),
    nouns.query_handlers_of(CUSTOMER_RULES),
)


def save_brand(work: UnitOfWork, command: SaveBrand) -> Brand:
    """Save the brand. Raises ``ValueError`` for a file that cannot be a logo."""
    before = provisioning_store.find_brand(work.tx)
    logo, logo_type = before.logo, before.logo_type
    if command.logo is None:
        logo = logo_type = None
    elif command.logo is not UNSET:
        logo, logo_type = base64.b64encode(command.logo).decode(), rules.find_image_type(command.logo)
    brand = Brand(command.name, command.color, logo, logo_type, command.links, command.reply_to)
    if brand != before:
        provisioning_store.save_brand(work.tx, brand, command.context.now)
        work.record_event("brand.saved", command)
    return brand


def find_brand(read: Any, _query: FindBrand) -> Brand:
    """Return the brand, an empty one until the vendor has saved it."""
    return provisioning_store.find_brand(read.tx)


BRAND_QUERIES: dict[type[Query], Callable[[Any, Any], Any]] = {FindBrand: find_brand}
BRAND_HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {SaveBrand: save_brand}


def start_trial(work: LicenseWork, command: StartTrial) -> StartedTrial:
    """Make a license from the product's policy for trials, and activate the device. A device that has had its
    trial gets the same one again. Two servers cannot start it twice: the later transaction has a conflict, is
    retried, and finds the trial.
    """
    product_id = find_product_id(work.tx, command.product, command.only_product_id)
    now = command.context.now
    # Until this transaction ends, no other one writes with another secret, so a trial that is not found now
    # cannot appear.
    _ = work.tx.sealing
    trial = trials_store.find_trial(work.tx, product_id, command.fingerprint)
    if trial is not None:
        return _show_first(work, command, trial)
    policy = trials.choose_policy(_list_policies(work, command, product_id), command.policy_id)
    license = _new_license(work, command, policy, product_id)
    activation = ActivateDevice(
        context=command.context, license=license.key, device=command.device, built_at=command.built_at
    )
    place = activate_device(work, activation)
    trials_store.save_new_trial(
        work.tx, Trial(product_id, license.id, command.email, now), command.fingerprint
    )
    return StartedTrial(place.view, place.activation, is_new=True)


def _list_policies(work: LicenseWork, command: StartTrial, product_id: int) -> list[Policy]:
    """List the policies of the product, or the named one, which may be for every product."""
    if command.policy_id is None:
        return list_policies(work.tx, product_id=product_id)
    policy = find_policy(work.tx, command.policy_id)
    return [] if policy is None or policy.product_id not in (None, product_id) else [policy]


def _new_license(work: LicenseWork, command: StartTrial, policy: Policy, product_id: int) -> License:
    made = NewLicenseCommand(context=command.context, status=Status.ACTIVE, product_id=product_id)
    return new_license(
        work,
        made,
        draw_keys(work, policy, 1)[0],
        LicenseSource.GENERATOR,
        expires_at=expiry_of_new(policy.terms, command.context.now),
        policy_id=policy.id,
        **fields_of(policy.terms),
    )


def _show_first(work: LicenseWork, command: StartTrial, trial: Trial) -> StartedTrial:
    """Return the trial that the device has had. Raises ``TrialUsed`` if its license was deleted."""
    license = work.find_license(trial.license_id) or find_licenses_by_id(work.tx, [trial.license_id]).get(
        trial.license_id
    )
    if license is None:
        raise TrialUsed
    known = list(work.known_activations(license).values())
    known += find_by_fingerprint(work.tx, [(license.id, command.fingerprint)])
    own = next((one for one in known if one.fingerprint == command.fingerprint), None)
    return StartedTrial(work.devices.views.show(license, command.context.now), own, is_new=False)


TRIAL_HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {StartTrial: start_trial}


#: The ID of a product, sent as a text.
_NUMBER = re.compile("[1-9][0-9]{0,17}")


def find_product_id(tx: ReadTransaction, product: int | str, only_product_id: int | None) -> int:
    """Return the ID of the product. Raises ``TrialNotOffered`` for a product that the caller may not see, and
    for one that does not exist: otherwise a device would get another trial for each made-up ID.
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
    return trials_store.find_trial(read.tx, product_id, query.fingerprint) is not None


TRIAL_QUERIES: dict[type[Query], Callable[[Any, Any], Any]] = {HasTrial: has_trial}
