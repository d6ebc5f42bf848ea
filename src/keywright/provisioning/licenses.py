"""Make licenses and license keys."""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core import errors as e
from keywright.core.command import Command, Cost
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import (
    License,
    LicenseCommand,
    LicenseSource,
    NewLicenseCommand,
    Order,
    UpdateLicense,
    order_fields,
    order_line_hash,
)
from keywright.licensing.licenses.rules import apply_members, expiry_of_applied, expiry_of_new
from keywright.licensing.management import ChangeAndShow, ManagedLicense
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import copy_terms, merge_terms, select_terms, write_by_hand
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.views_store import list_managed
from keywright.provisioning.handlers import find_or_make_customer as find_or_make
from keywright.provisioning.ownership.rules import require_settled
from keywright.provisioning.ownership.store import find_claim
from keywright.provisioning.policies.handlers import draw_key_of, draw_keys
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.store import find_policy
from keywright.provisioning.store import CUSTOMERS, require_customer, require_product

#: The largest number of licenses that one command makes.
MAX_QUANTITY = 1_000


class CustomerReference(msgspec.Struct, frozen=True):
    """The customer with this ID or e-mail address, or a new one with this name and language."""

    id: int | None = None
    email: str | None = None
    name: str | None = None
    language: str | None = None


class IssueLicenses(NewLicenseCommand, frozen=True, kw_only=True):
    """Make licenses from a policy, or one license with a given key and terms; all or none.

    ``terms`` is a JSON merge patch of the policy's terms, or of the default terms; where they differ from the
    policy's, they count as set by hand. For a sale of so many ``units``, ``rule_terms`` replace members of
    the policy's terms. ``expires_at`` is used if ``has_expiry``; otherwise the terms give the expiry. A
    license that exists for the same order line and index is returned instead of a new one. With
    ``needs_known_product``, the product must exist, or v2 or a shop must have referred to it.
    ``only_product_id`` as in ``LicenseCommand``.
    """

    cost = Cost.LONG

    quantity: int = 1
    policy_id: int | None = None
    key: str | None = None
    terms: Mapping[str, Any] = {}
    units: int = 1
    rule_terms: Mapping[str, Any] = {}
    customer: CustomerReference | None = None
    order: Order = Order()
    expires_at: datetime | None = None
    has_expiry: bool = False
    metadata: str | None = None
    needs_known_product: bool = False
    only_product_id: int | None = None

    @property
    def locks(self) -> Collection[str | int]:
        """The license that may already have the key."""
        return () if self.key is None else (self.key,)


class RotateKey(LicenseCommand, frozen=True, kw_only=True):
    """Give the license a new key in the format of its policy. The old one is refused from now on."""


class MoveLicense(UpdateLicense, frozen=True, kw_only=True):
    """Move the license to another policy of its product: it gets that policy's terms, multiplied by its
    quantity, and these changes. Terms that were set by hand stay, except with ``overwrite``.
    """

    policy_id: int
    overwrite: bool = False


class Issued(msgspec.Struct, frozen=True):
    """The licenses of a command, and whether any of them is new."""

    licenses: tuple[ManagedLicense, ...]
    is_new: bool


def issue(work: LicenseWork, command: IssueLicenses) -> Issued:
    """Make licenses, except for order lines that have theirs. Raises what ``make`` does."""
    licenses, is_new = make(work, command)
    return Issued(tuple(list_managed(work.tx, licenses, command.context.now)), is_new)


def make(
    work: LicenseWork, command: IssueLicenses, policy: Policy | None = None
) -> tuple[list[License], bool]:
    """Return the licenses of a command, and whether any of them is new: an order line that has a license gets
    no other. ``policy`` is the command's, if it was just read. Raises ``PolicyArchived``,
    ``LicenseKeyTaken``, ``InvalidTerms``, ``UnknownReference`` or ``OrderLineTaken``.
    """
    if policy is None and command.policy_id is not None:
        policy = _get_usable_policy(work, command)
    only, product_id = command.only_product_id, command.product_id
    if command.needs_known_product or only is not None:
        require_product(work.tx, product_id, only)
    if product_id is None:
        product_id = only if policy is None or policy.product_id is None else policy.product_id
    by_rule = copy_terms(Terms() if policy is None else policy.terms, command.rule_terms)
    terms = merge_terms(by_rule, command.terms)
    rule_terms = None if policy is None else write_by_hand(by_rule, terms, None)
    orders = [replace(command.order, index=command.order.index + i) for i in range(command.quantity)]
    present = _find_of_orders(work, command, orders)
    missing = [i for i in range(command.quantity) if i not in present]
    if missing:
        customer_id = _find_customer(work, command)
        command = replace(command, product_id=product_id, customer_id=customer_id)
        for i, key in zip(missing, _new_keys(work, command, policy, len(missing)), strict=True):
            present[i] = _add(work, command, key, orders[i], terms, rule_terms=rule_terms)
    return [present[i] for i in range(command.quantity)], bool(missing)


def rotate_key(work: LicenseWork, command: RotateKey) -> LicenseRecord:
    """Give a license a new key; its activations stay. Raises ``ClaimedLately``."""
    license = work.get_license(command)
    require_settled(license, find_claim(work.tx, license.id), command.context.now)
    return licenses.apply_changes(work, command, license, {"key": draw_key_of(work, license)})


def change_and_show(work: LicenseWork, command: ChangeAndShow) -> ManagedLicense:
    """Apply the change. Raises what its handler does, and ``UnknownReference``."""
    only, changes = command.change.only_product_id, getattr(command.change, "changes", {})
    product_id = changes.get("product_id", only)
    if only is not None and product_id is None:
        raise e.UnknownReference("license without a product for this API key", "/product_id")
    require_product(work.tx, product_id, only)
    if changes.get("customer_id") is not None:
        require_customer(work.tx, changes["customer_id"], only, "/customer_id")
    changed: LicenseRecord = _CHANGES[type(command.change)](work, command.change)
    return list_managed(work.tx, [changed.license], command.context.now)[0]


def move(work: LicenseWork, command: MoveLicense) -> LicenseRecord:
    """Move the license to another policy, and make the other changes. Raises ``UnknownReference``, also for a
    policy of another product, ``PolicyArchived``, and what ``licenses.update`` does.
    """
    license = work.get_license(command)
    policy = _get_usable_policy(work, command)
    if None not in (policy.product_id, license.product_id) and policy.product_id != license.product_id:
        raise e.UnknownReference(f"policy {policy.id} of the license's product", "/policy_id")
    members = select_terms(policy.terms, Terms.__struct_fields__)
    written = apply_members(license, members, is_forced=command.overwrite)
    changes = licenses.list_rule_changes(license, {"policy_id": policy.id}, written)
    expires_at = expiry_of_applied(license, written.terms)
    if expires_at != license.expires_at:
        changes["expires_at"] = expires_at
    record = licenses.change_by_rule(work, command, license, changes)
    has_more = command.changes or command.terms or command.order or command.metadata is not msgspec.UNSET
    return licenses.update(work, command) if has_more else record


def _get_usable_policy(work: LicenseWork, command: IssueLicenses | MoveLicense) -> Policy:
    policy, only = None, command.only_product_id
    if command.policy_id is not None:
        policy = find_policy(work.tx, command.policy_id)
    if policy is None or (only is not None and policy.product_id != only):
        raise e.UnknownReference(f"policy {command.policy_id}", "/policy_id")
    if policy.archived_at is not None:
        raise e.PolicyArchived(policy.id)
    return policy


def _find_of_orders(work: LicenseWork, command: IssueLicenses, orders: list[Order]) -> dict[int, License]:
    """Return the existing licenses for these orders, by their indexes in the list."""
    places = {line: i for i, one in enumerate(orders) if (line := order_line_hash(one)) is not None}
    found = license_store.find_by_order_lines(work.tx, places)
    for line in places:
        if line in work.order_lines and (new := work.find_license(work.order_lines[line])) is not None:
            found[line] = new
    only = command.only_product_id
    if only is not None and any(one.product_id != only for one in found.values()):
        raise e.OrderLineTaken
    return {places[line]: one for line, one in found.items()}


def _find_customer(work: LicenseWork, command: IssueLicenses) -> int | None:
    named, only = command.customer, command.only_product_id
    if named is None:
        return command.customer_id
    if only is not None:
        _require_own_customer(work, named, only)
    try:
        return find_or_make(
            work, command, id=named.id, email=named.email, name=named.name, language=named.language
        ).id
    except e.AlreadyExists as taken:
        raise e.AlreadyExists(taken.thing, taken.field, "/customer") from None


def _require_own_customer(work: LicenseWork, named: CustomerReference, only: int) -> None:
    """Raise ``UnknownReference`` for a customer who holds no license of the caller's only product."""
    if named.id is not None:
        require_customer(work.tx, named.id, only, "/customer/id")
    elif named.email is not None:
        customer = CUSTOMERS.find_by(work.tx, "email", named.email)
        if customer is not None:
            require_customer(work.tx, customer.id, only, "/customer/email")


def _new_keys(work: LicenseWork, command: IssueLicenses, policy: Policy | None, amount: int) -> Iterator[str]:
    if command.key is not None:
        if work.has_license(command.key):
            raise e.LicenseKeyTaken
        return iter([command.key])
    assert policy is not None  # noqa: S101
    return iter(draw_keys(work, policy, amount))


def _add(
    work: LicenseWork, command: IssueLicenses, key: str, order: Order, terms: Terms, *, rule_terms: str | None
) -> License:
    now = command.context.now
    fields = order_fields(order) | {
        "expires_at": command.expires_at if command.has_expiry else expiry_of_new(terms, now),
        "policy_id": command.policy_id,
        "metadata": command.metadata,
        "quantity": command.units,
        "rule_terms": rule_terms,
    }
    source = LicenseSource.API if command.key is not None else LicenseSource.GENERATOR
    license = licenses.new_license(work, command, key, source, **fields | licenses.fields_of(terms))
    line = order_line_hash(order)
    if line is not None:
        work.order_lines[line] = license.id
    return license


_CHANGES: dict[type[Command], Callable[[LicenseWork, Any], LicenseRecord]] = licenses.HANDLERS | {
    RotateKey: rotate_key,
    MoveLicense: move,
}
HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    IssueLicenses: issue,
    MoveLicense: move,
    RotateKey: rotate_key,
    ChangeAndShow: change_and_show,
}
