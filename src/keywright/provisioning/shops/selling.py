"""Apply the events of shops: make licenses for sales, and change them with payments and subscriptions."""

from collections.abc import Iterable
from datetime import timedelta
from enum import Enum, auto

import msgspec
from msgspec.structs import replace

from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses.model import License, Order, Status, UpdateLicense
from keywright.licensing.licenses.rules import expiry_of_new
from keywright.licensing.terms.rules import LIMITS, select_terms
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.customers import parse_email
from keywright.provisioning.licenses import CustomerReference, IssueLicenses, make
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.shops import event_rules, outcome_rules, rules, sold_store, unit_rules
from keywright.provisioning.shops.commands import WorkShopEvent
from keywright.provisioning.shops.event_rules import take_metadata
from keywright.provisioning.shops.later_purchases import Holding, LaterPurchases
from keywright.provisioning.shops.line_rules import Resolve, list_lines
from keywright.provisioning.shops.model import (
    Again,
    Change,
    Connection,
    EventState,
    Lines,
    Nothing,
    Reason,
    Renewal,
    Sale,
    SaleLine,
    StateChange,
)
from keywright.provisioning.shops.outcome_rules import Notes, Outcome
from keywright.provisioning.shops.rules import Known
from keywright.provisioning.shops.sale_mails import SaleMails
from keywright.provisioning.shops.sold_model import (
    Payment,
    SoldLicense,
    SoldLine,
    a_snapshot,
    is_contradicted,
)

#: The most licenses that one transaction makes, and that it changes: other commands wait for it.
_AT_ONCE, _CHANGED_AT_ONCE = 100, 200
#: The delay before comparing what a subscription paid for with what it has: shops report these separately.
_LOOK_AFTER = timedelta(hours=1)
SoldChange = Sale | Renewal | StateChange | Lines


class Why(Enum):
    """Why to apply an event again at once."""

    #: A part of the licenses was made, or changed.
    MORE = auto()
    #: The event is about licenses that the command has not locked.
    NOT_LOCKED = auto()
    #: The shop's API has to be asked which of two reports is true.
    ASK = auto()


class Unfinished(msgspec.Struct, frozen=True):
    """The event has to be applied again; ``notes`` are what has changed so far."""

    why: Why
    notes: Notes = {}


class Selling:
    """Applies one event of a connection, which is locked."""

    def __init__(
        self,
        work: LicenseWork,
        command: WorkShopEvent,
        connection: Connection,
        *,
        at: int,
        again: Again,
    ) -> None:
        """``at`` is the event's time, in milliseconds since 1970; ``again`` is what a person asked for."""
        self._work, self._tx = work, work.tx
        self._command, self._connection = command, connection
        self._at = at
        self._again = again
        self._holding = Holding(work.tx, connection.id, connection.mapping, work.find_license)
        self._mails = SaleMails(work, command, connection)
        self._later = LaterPurchases(work, command, connection, self._holding, self._mails, again=again)
        self._notes = command.notes
        #: The existing licenses, as they are now.
        self._sold: list[SoldLicense] = []
        self._subscription: str | None = None
        self._problem: Outcome | None = None
        #: Whether a license kept a later expiry that was set by hand.
        self._is_kept = False

    def apply(self) -> Outcome | Unfinished:
        """Apply the change of the event."""
        change = self._resolve()
        if isinstance(change, Nothing):
            return Outcome(EventState.IGNORED, Reason.NOT_NEEDED, change.reason)
        before, held = self._read(change)
        if (
            not {one.sold.license_id for one in held.units} | self._later.list_ids(change)
            <= self._command.license_ids
        ):
            return Unfinished(Why.NOT_LOCKED, self._notes)
        is_contradicted = self._is_contradicted(before, change)
        if is_contradicted and self._connection.has_api_key and not self._command.is_asked:
            return Unfinished(Why.ASK)
        self._problem = self._find_problem(change, held)
        if self._problem is not None and self._problem.reason is Reason.TOO_MANY:
            return self._problem
        known = self._learn(before, change)
        sold_store.save_known(self._tx, self._connection.id, before, known)
        if not held.lines and not isinstance(change, Sale):
            return self._without_sold(change)
        if is_contradicted and self._again is not Again.OVERWRITE:
            self._add_problem(Reason.SAME_MOMENT, change.subscription)
        self._renew(change, before, known)
        return self._hold(change, known, held, begins_grace=rules.begins_grace(before, known))

    def look_again(self) -> Outcome | None:
        """Check once more whether what a finished event announced has arrived; None if it has."""
        change = self._resolve()
        if isinstance(change, Nothing):
            return None
        known, held = self._read(change)
        return self._find_missing(change, known, held)

    def _resolve(self) -> Change:
        """Return the change; for a subscription with another name here, with that name."""
        change = self._command.event.change
        if isinstance(change, Nothing) or change.subscription is None:
            return change
        found = sold_store.find_subscription(self._tx, self._connection.id, change.subscription)
        return change if found is None else replace(change, subscription=found)

    def _learn(self, before: Known, change: SoldChange) -> Known:
        known = rules.learn(before, change, self._at)
        if not isinstance(change, Renewal) or not change.is_change or change.order is None:
            return known
        other = sold_store.find_known(self._tx, self._connection.id, None, change.order)
        return rules.adopt(known, change.subscription, other)

    def _read(self, change: SoldChange) -> tuple[Known, unit_rules.Held]:
        """Read the known facts, and the lines and licenses that are held."""
        number, ref = self._connection.id, rules.payment_ref(change)
        known = sold_store.find_known(self._tx, number, ref, change.subscription)
        payment = known.payments.get(ref or "", Payment(order=""))
        order, of = getattr(change, "order", None), change.subscription or payment.subscription
        self._subscription = of
        return known, self._holding.read_held(order, of)

    def _is_contradicted(self, known: Known, change: SoldChange) -> bool:
        if not isinstance(change, Lines) or known.subscription is None:
            return False
        snapshot = a_snapshot(
            self._at, (one for one in change.lines if one.quantity > 0), is_asked=change.is_asked
        )
        return is_contradicted(known.subscription.snapshots.get(change.part, ()), snapshot)

    def _without_sold(self, change: Renewal | StateChange | Lines) -> Outcome:
        """Return the outcome of an event whose sale was not received, or made nothing."""
        if isinstance(change, Renewal):
            return Outcome(EventState.UNMATCHED, Reason.UNKNOWN_ORDER, change.subscription)
        if self._command.event.needs_api:
            # The shop may use another ID for the payment, and would have to be asked for it.
            return Outcome(EventState.UNMATCHED, Reason.API_KEY_MISSING)
        return Outcome(EventState.IGNORED, Reason.NOT_LICENSED, event_rules.order_of(change))

    # --- lines ------------------------------------------------------------------------------------

    def _find_problem(self, change: SoldChange, held: unit_rules.Held) -> Outcome | None:
        """Find what is wrong with a line; the other lines make their licenses."""
        if not isinstance(change, Sale | Lines):
            return None
        is_sale = isinstance(change, Sale)
        if is_sale and not change.lines:
            return Outcome(EventState.UNMATCHED, Reason.UNKNOWN_PRODUCT)
        resolve = self._holding.resolver(held, is_sold_now=is_sale)
        lines = [one for one in change.lines if is_sale or one.quantity > 0]
        amount = 0
        for line in lines:
            made = resolve(line)
            amount += 0 if made is None else made.copies(line.quantity)[0] * len(made.policies)
        if amount > event_rules.MAX_LICENSES:
            return Outcome(EventState.UNMATCHED, Reason.TOO_MANY, str(amount))
        found = (self._diagnose(one, resolve) for one in lines if resolve(one) is None)
        return next((one for one in found if one is not None), None)

    def _diagnose(self, line: SaleLine, resolve: Resolve) -> Outcome | None:
        """Explain why it is not known what a line makes."""
        mapped = rules.find_mapped(self._connection.mapping, line)
        detail = ", ".join(line.refs[:4])
        if mapped is None and resolve(replace(line, quantity=1)) is None:
            return Outcome(EventState.UNMATCHED, Reason.UNKNOWN_PRODUCT, detail)
        if resolve(replace(line, quantity=1)) is None:
            policies = "" if mapped is None else ", ".join(map(str, mapped.policy_ids))
            return Outcome(EventState.UNMATCHED, Reason.UNUSABLE_POLICY, policies)
        if line.quantity > 0:
            return Outcome(EventState.UNMATCHED, Reason.LIMIT_TOO_HIGH, f"{detail}: {line.quantity}")
        makes_some = mapped is None or bool(mapped.policy_ids)
        return Outcome(EventState.UNMATCHED, Reason.NO_QUANTITY, str(line.quantity)) if makes_some else None

    def _hold(
        self, change: SoldChange, known: Known, held: unit_rules.Held, *, begins_grace: bool
    ) -> Outcome | Unfinished:
        """Give the lines the licenses that they should have; return the outcome of the event."""
        now = self._command.context.now
        resolve = self._holding.resolver(held, is_sold_now=isinstance(change, Sale))
        todo = unit_rules.plan(known, list_lines(known, resolve), held, self._connection.on_cancel, now)
        self._save_lines(todo.lines)
        self._sold = [one.sold for one in held.units]
        is_whole = self._change_all(todo.aims)
        if begins_grace:
            self._mails.queue_failed(self._sold)
        customer = self._find_buyer(change)
        if todo.new and customer is not None and is_whole:
            is_whole = self._make_all(todo.new, customer)
        elif todo.new and customer is None and isinstance(change, Lines):
            self._add_problem(Reason.NO_ADDRESS)
        if not is_whole:
            return Unfinished(Why.MORE, self._notes)
        self._mails.queue_changed(change, known, self._notes, self._sold)
        self._mails.queue_made(change, self._sold)
        outcome = self._problem or self._find_outcome(change, known)
        missing = None if self._problem else self._find_missing(change, known, held)
        look_at = None if missing is None else now + _LOOK_AFTER
        return outcome._replace(customer_id=self._mails.find_customer(self._sold), look_at=look_at)

    def _renew(self, change: SoldChange, before: Known, known: Known) -> None:
        buyer = self._find_buyer(change) if isinstance(change, Sale) else None
        self._later.follow(change, before, known, buyer)
        for reason, detail in self._later.problems:
            self._add_problem(reason, detail)
        self._notes = outcome_rules.add_notes(self._notes, self._later.notes)

    def _save_lines(self, lines: Iterable[SoldLine]) -> None:
        of = self._subscription
        own = (one if one.subscription is not None else replace(one, subscription=of) for one in lines)
        sold_store.save_lines(self._tx, self._connection.id, own)

    def _add_problem(self, reason: Reason, detail: str | None = None) -> None:
        """Let the event wait for a person; the first problem is the one that is shown."""
        self._problem = self._problem or Outcome(EventState.UNMATCHED, reason, detail)

    def _find_outcome(self, change: SoldChange, known: Known) -> Outcome:
        if self._notes:
            reason = Reason.KEPT_BY_HAND if self._is_kept else None
            return Outcome(EventState.DONE, reason, outcome_rules.describe(self._notes))
        fact = outcome_rules.find_fact(change, self._at, known, self._command.event.note)
        return fact._replace(reason=Reason.KEPT_BY_HAND) if self._is_kept else fact

    def _find_missing(self, change: SoldChange, known: Known, held: unit_rules.Held) -> Outcome | None:
        """Find what a sale or a renewal announced that has not arrived."""
        if isinstance(change, Sale) and change.needs_period:
            is_there = any(one.until is not None for one in known.payments.values())
            return None if is_there else Outcome(EventState.UNMATCHED, Reason.NO_PERIOD, change.subscription)
        if not isinstance(change, Renewal) or not change.lines:
            return None
        snapshots = {} if known.subscription is None else known.subscription.snapshots
        if any(one.at > self._at for some in snapshots.values() for one in some):
            return None
        resolve = self._holding.resolver(held)
        found = outcome_rules.compare_paid(change.lines, list_lines(known, resolve), resolve)
        return None if found is None else Outcome(EventState.UNMATCHED, Reason.PAID_NOT_HELD, found)

    # --- licenses ---------------------------------------------------------------------------------

    def _change_all(self, aims: Iterable[tuple[unit_rules.Unit, unit_rules.Aim]]) -> bool:
        """Change licenses as the shop reports, except what was done by hand; return whether none is left."""
        changed: dict[int, SoldLicense] = {}
        amount = 0
        for unit, aim in aims:
            if unit.license is None:
                # A license that was deleted by hand counts as held: see ``apply_to_restored``.
                now_sold = replace(unit.sold, is_over=aim.is_over)
            elif amount >= _CHANGED_AT_ONCE:
                break
            else:
                decided = unit_rules.decide(unit, unit.license, aim, self._again)
                amount += self._change(unit.license, decided)
                now_sold = self._with_event(unit, decided)
            if now_sold != unit.sold:
                changed[unit.sold.license_id] = now_sold
        sold_store.save_sold(self._tx, self._connection.id, changed.values())
        self._sold = [changed.get(one.license_id, one) for one in self._sold]
        return amount < _CHANGED_AT_ONCE

    def _change(self, license: License, decided: unit_rules.Decided) -> bool:
        """Change a license; return whether anything changed."""
        if decided.is_refused:
            kept = () if decided.written is None else decided.written.kept
            self._add_problem(Reason.CHANGED_BY_HAND, ", ".join(kept) or "status or expiry")
        self._is_kept |= decided.is_kept
        changes = licenses.list_rule_changes(license, decided.changes, decided.written)
        if not changes:
            return False
        command = UpdateLicense(context=self._command.context, license=license.id)
        licenses.change_by_rule(self._work, command, license, changes)
        notes = outcome_rules.note_changes(license, changes, is_over=decided.sold.is_over)
        self._notes = outcome_rules.add_notes(self._notes, notes)
        return True

    def _with_event(self, unit: unit_rules.Unit, decided: unit_rules.Decided) -> SoldLicense:
        """Note the event for a license that is usable again: the mail with keys includes it."""
        is_restored = unit.sold.status == Status.DISABLED and decided.changes.get("status") == Status.ACTIVE
        return replace(decided.sold, event_id=self._command.event_id) if is_restored else decided.sold

    def _make_all(self, new: Iterable[unit_rules.NewUnits], customer: CustomerReference) -> bool:
        """Make the missing licenses; return whether none is left."""
        left = _AT_ONCE
        for one in new:
            policy = one.aim.policy
            if policy is None or policy.archived_at is not None:
                self._add_problem(Reason.UNUSABLE_POLICY, None if policy is None else str(policy.id))
                continue
            amount = min(one.amount, left)
            if amount:
                self._make(one._replace(amount=amount), policy, customer)
            left -= amount
            if amount < one.amount:
                return False
        return True

    def _make(self, new: unit_rules.NewUnits, policy: Policy, customer: CustomerReference) -> None:
        """Make licenses of a line."""
        wanted, line, now = new.aim.wanted, new.line, self._command.context.now
        terms = unit_rules.terms_for(policy, new.aim.quantity, has_grace=wanted.has_grace)
        of_terms = expiry_of_new(policy.terms, now)
        source = f"{self._connection.shop.value}:{self._connection.id}"
        command = IssueLicenses(
            context=self._command.context,
            status=wanted.status,
            quantity=new.amount,
            policy_id=policy.id,
            units=new.aim.quantity,
            rule_terms=select_terms(terms, (*LIMITS, "grace_days")),
            customer=customer,
            order=Order(source, line.order, line.line, new.first, policy.id if new.item else None),
            expires_at=wanted.expiry(of_terms),
            has_expiry=True,
            metadata=take_metadata(self._command.event.change, self._connection),
        )
        made, _ = make(self._work, command, policy)
        sold = [
            SoldLicense(
                order=line.order,
                line=line.line,
                number=new.first + i,
                item=new.item,
                license_id=one.id,
                subscription=self._subscription,
                status=one.status,
                expires_at=one.expires_at,
                terms_expire_at=of_terms,
                policy_id=policy.id,
                quantity=new.aim.quantity,
                has_grace=wanted.has_grace,
                event_id=self._command.event_id,
            )
            for i, one in enumerate(made)
        ]
        sold_store.delete_unlicensed(self._tx, self._connection.id, line.order, line.line)
        sold_store.save_new_sold(self._tx, self._connection.id, sold)
        self._sold += sold
        self._notes = dict(self._notes) | {"made": self._notes.get("made", 0) + len(sold)}

    def _find_buyer(self, change: SoldChange) -> CustomerReference | None:
        """Find the buyer of a sale; for a subscription that changes, the customer of its licenses."""
        if not isinstance(change, Sale):
            customer_id = self._mails.find_customer(self._sold)
            return None if customer_id is None else CustomerReference(id=customer_id)
        buyer = change.buyer
        if buyer is None or not buyer.email.strip():
            self._add_problem(Reason.NO_ADDRESS)
            return None
        try:
            email = parse_email(buyer.email)
        except ValueError:
            self._add_problem(Reason.BAD_ADDRESS)
            return None
        return CustomerReference(email=email, name=buyer.name, language=buyer.language)
