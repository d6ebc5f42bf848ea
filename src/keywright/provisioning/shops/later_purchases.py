"""Apply later purchases, and read what is held for a payment."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from keywright.core.errors import InvalidTerms
from keywright.db.transaction import ReadTransaction
from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses.keys import read_license_ref
from keywright.licensing.licenses.model import License, LicenseCommand, Status, UpdateLicense
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import multiply_terms
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.handlers import find_or_make_customer as find_or_make
from keywright.provisioning.licenses import CustomerReference
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.store import find_policy
from keywright.provisioning.shops import later_rules, later_store, model, outcome_rules, rules, sold_store
from keywright.provisioning.shops.commands import WorkShopEvent
from keywright.provisioning.shops.later_rules import Target
from keywright.provisioning.shops.line_rules import Resolve, list_lines
from keywright.provisioning.shops.rules import Known
from keywright.provisioning.shops.sale_mails import SaleMails
from keywright.provisioning.shops.sold_model import LaterPurchase, SoldLicense, SoldLine
from keywright.provisioning.shops.store import lock_connection
from keywright.provisioning.shops.unit_rules import Held, Unit, build_resolver, decide, plan


class Holding:
    """Reads what a connection has sold; reads each policy once."""

    def __init__(
        self,
        tx: ReadTransaction,
        connection_id: int,
        mapping: Collection[model.MappedProduct],
        find_license: Callable[[int], License | None],
    ) -> None:
        self._tx, self._connection_id, self._mapping = tx, connection_id, mapping
        self._find_license = find_license
        self._policies: dict[int, Policy | None] = {}

    def find_policy(self, policy_id: int) -> Policy | None:
        """Return the policy with this ID."""
        if policy_id not in self._policies:
            self._policies[policy_id] = find_policy(self._tx, policy_id)
        return self._policies[policy_id]

    def read_held(self, order: str | None, subscription: str | None) -> Held:
        """Return the lines and licenses of the order, and of the subscription."""
        sold = sold_store.list_sold(self._tx, self._connection_id, order, subscription)
        lines = sold_store.list_lines(self._tx, self._connection_id, order, subscription)
        known = {(one.order, one.line) for one in lines}
        older = {
            (one.order, one.line): SoldLine(
                order=one.order,
                line=one.line,
                subscription=one.subscription,
                listed_in=one.order,
                listed_as=one.line,
                is_known=False,
            )
            for one in sold
        }
        lines += [one for key, one in older.items() if key not in known]
        return Held(lines, [self._unit_of(one) for one in sold if one.license_id])

    def resolver(self, held: Held, *, is_sold_now: bool = False) -> Resolve:
        """Return the function that returns what a line makes."""
        return build_resolver(self._mapping, held, self.find_policy, is_sold_now=is_sold_now)

    def _unit_of(self, sold: SoldLicense) -> Unit:
        license = self._find_license(sold.license_id)
        own = None if license is None else license.policy_id
        last = own if sold.policy_id is None else sold.policy_id
        return Unit(sold, license, self.find_policy(last or 0), self.find_policy(own or 0))


def apply_to_restored(work: LicenseWork, command: LicenseCommand, license: License) -> None:
    """Apply what shops have reported about a license since it was deleted."""
    for connection_id, sold in sold_store.list_of_license(work.tx, license.id):
        # The lock keeps events of the connection from being applied at the same time.
        connection = lock_connection(work.tx, connection_id)
        known = sold_store.find_known(work.tx, connection_id, sold.order, sold.subscription)
        mapping = () if connection is None else connection.mapping
        holding = Holding(work.tx, connection_id, mapping, work.find_license)
        held = holding.read_held(sold.order, sold.subscription)
        on_cancel = model.OnCancel.PAID_UNTIL if connection is None else connection.on_cancel
        todo = plan(known, list_lines(known, holding.resolver(held)), held, on_cancel, command.context.now)
        for unit, aim in todo.aims:
            if unit.license is not None and unit.license.id == license.id:
                decided = decide(unit, unit.license, aim)
                changes = licenses.list_rule_changes(license, decided.changes, decided.written)
                licenses.change_by_rule(work, command, license, changes)
                sold_store.save_sold(work.tx, connection_id, [decided.sold])


Problem = tuple[model.Reason, str]


class LaterPurchases:
    """The later purchases of one event of a connection, which is locked. ``problems`` are for a person."""

    def __init__(
        self,
        work: LicenseWork,
        command: WorkShopEvent,
        connection: model.Connection,
        holding: Holding,
        mails: SaleMails,
        *,
        again: model.Again,
    ) -> None:
        self._work, self._tx, self._command = work, work.tx, command
        self._connection, self._find_policy, self._again = connection, holding.find_policy, again
        self._mails = mails
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def list_ids(self, change: model.Change) -> set[int]:
        """Return the IDs of the licenses to lock."""
        return later_store.list_ids(self._tx, self._connection.id, change)

    def follow(
        self, change: model.Change, before: Known, known: Known, customer: CustomerReference | None
    ) -> None:
        """Give the licenses what was bought for them; ``known`` are the facts with this change."""
        found = later_store.list_of_change(self._tx, self._connection.id, change)
        new = list(self._record_new(change, found)) if isinstance(change, model.Sale) else []
        for license_id in sorted({one.license_id for one in (*found, *new)}):
            license = self._work.find_license(license_id)
            if license is not None:
                is_new = any(one.license_id == license_id for one in new)
                buyer = customer if is_new and license.customer_id is None else None
                self._follow(license, (before, known), new, buyer)

    def _record_new(self, sale: model.Sale, found: Collection[LaterPurchase]) -> list[LaterPurchase]:
        known = {(one.order, one.line) for one in found}
        new = []
        for line in sale.lines:
            mapped = rules.find_mapped(self._connection.mapping, line)
            is_later = mapped is not None and mapped.does is not model.Does.MAKE and line.quantity > 0
            if mapped is None or not is_later or (sale.order, line.number) in known:
                continue
            policy = self._find_policy(mapped.policy_id or 0)
            license = self._find_license(line)
            problem = _find_problem(policy, license, mapped.does)
            if problem is not None or policy is None or license is None:
                self.problems += [] if problem is None else [problem]
                continue
            earlier = later_store.list_of_license(self._tx, license.id)
            purchase = LaterPurchase(
                connection_id=self._connection.id,
                order=sale.order,
                line=line.number,
                subscription=sale.subscription,
                license_id=license.id,
                does=mapped.does,
                policy_id=policy.id,
                days=policy.terms.valid_for_days,
                quantity=line.quantity,
                before=earlier[0].before if earlier else later_rules.keep_before(license),
            )
            later_store.save_new(self._tx, purchase)
            new.append(purchase)
        return new

    def _find_license(self, line: model.SaleLine) -> License | None:
        number = read_license_ref(self._tx.key_ring, line.license_ref or "")
        return None if number is None else self._work.find_license(number)

    def _follow(
        self,
        license: License,
        known: tuple[Known, Known],
        new: Collection[LaterPurchase],
        buyer: CustomerReference | None,
    ) -> None:
        every = later_store.list_of_license(self._tx, license.id)
        keys = {one.key for one in new}
        known_before = [one for one in every if one.key not in keys]
        was, now = (
            later_rules.derive(every[0].before, self._list_paid(some, facts, known[1]))
            for some, facts in ((known_before, known[0]), (every, known[1]))
        )
        terms = self._terms_of(license, every[0], now)
        if terms is None:
            self.problems.append((model.Reason.UNUSABLE_POLICY, str(now.upgrade and now.upgrade.policy_id)))
            return
        decided = later_rules.decide(license, was, now, terms, self._again)
        if decided.is_refused:
            kept = () if decided.written is None else decided.written.kept
            self.problems.append((model.Reason.CHANGED_BY_HAND, ", ".join(kept) or "policy or expiry"))
        changes = licenses.list_rule_changes(license, decided.changes, decided.written)
        if buyer is not None:
            changes["customer_id"] = self._find_customer(buyer)
        if not changes:
            return
        command = UpdateLicense(context=self._command.context, license=license.id)
        licenses.change_by_rule(self._work, command, license, changes)
        notes = outcome_rules.note_changes(license, changes, is_over=False)
        self.notes += notes
        self._mails.queue_later(license.id, outcome_rules.add_notes({}, notes), is_first=buyer is not None)

    def _list_paid(
        self, some: Collection[LaterPurchase], facts: Known, known: Known
    ) -> Iterator[tuple[int, LaterPurchase]]:
        """Yield when each purchase was paid: those of this event by ``facts``, others by the stored facts."""
        for one in some:
            is_own = one.connection_id == self._connection.id
            of = None if known.subscription is None else known.subscription.ref
            is_here = is_own and (one.order in known.payments or of == one.subscription is not None)
            mine = facts
            if not is_here:
                mine = sold_store.find_known(self._tx, one.connection_id, one.order, one.subscription)
            yield from ((at, one) for at in rules.list_good(mine, one.order))

    def _terms_of(self, license: License, first: LaterPurchase, now: Target) -> dict[str, Any] | None:
        """Return the terms after the last upgrade, or before the first, and the policy before the first."""
        terms = dict(first.before.terms)
        if now.upgrade is not None:
            policy = self._find_policy(now.upgrade.policy_id)
            upgraded = None if policy is None else _multiply(policy, license)
            if upgraded is None:
                return None
            terms = msgspec.to_builtins(upgraded)
        return {"policy_id": first.before.policy_id, "terms": terms}

    def _find_customer(self, buyer: CustomerReference) -> int:
        found = find_or_make(
            self._work, self._command, email=buyer.email, name=buyer.name, language=buyer.language
        )
        return found.id


def _find_problem(policy: Policy | None, license: License | None, does: model.Does) -> Problem | None:
    is_endless = policy is not None and policy.terms.valid_for_days is None
    if policy is None or policy.archived_at is not None or (does is model.Does.RENEW and is_endless):
        return (
            model.Reason.UNUSABLE_POLICY,
            f"policy {policy and policy.id} is archived, or has no valid_for_days",
        )
    if license is None:
        return model.Reason.NO_LICENSE, "license_ref is missing, or belongs to no license here"
    if license.status == Status.DISABLED:
        return model.Reason.NO_LICENSE, f"license {license.id} is disabled"
    if policy.product_id not in (None, license.product_id):
        return model.Reason.NO_LICENSE, f"license {license.id} is for another product"
    if does is model.Does.UPGRADE and _multiply(policy, license) is None:
        return model.Reason.LIMIT_TOO_HIGH, f"{license.quantity} times policy {policy.id}"
    return None


def _multiply(policy: Policy, license: License) -> Terms | None:
    """Multiply the policy's terms by the license's quantity; None for limits beyond the maximum."""
    try:
        return multiply_terms(policy.terms, license.quantity)
    except InvalidTerms:
        return None
