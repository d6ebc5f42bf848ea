"""Do what the events of shops say: make licenses for sales, and change them as payments come and go."""

from collections.abc import Collection, Iterator, Sequence
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from keywright.events.outbox.model import MAX_LICENSES as MAX_LICENSES_OF_MAIL
from keywright.events.outbox.model import MailTemplate, QueuedMail, Subject
from keywright.events.outbox.store import queue_mail
from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses.commands import LicenseCommand, UpdateLicense
from keywright.licensing.licenses.model import License, Order, Status
from keywright.licensing.licenses.rules import expiry_of_new
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.customers.rules import parse_email
from keywright.provisioning.licenses.commands import CustomerReference, IssueLicenses
from keywright.provisioning.licenses.handlers import make
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.store import find_policy
from keywright.provisioning.shops import event_rules, rules, sold_store
from keywright.provisioning.shops.commands import WorkShopEvent
from keywright.provisioning.shops.model import (
    Buyer,
    Connection,
    EventState,
    MappedProduct,
    Nothing,
    Payment,
    QuantityRule,
    Reason,
    Renewal,
    Sale,
    SaleLine,
    SoldLicense,
    StateChange,
)
from keywright.provisioning.shops.rules import Known, Wanted
from keywright.provisioning.shops.store import lock_connection

#: The most licenses that one transaction makes: others wait for it.
_AT_ONCE = 100


class Outcome(NamedTuple):
    """What became of an event."""

    state: EventState
    reason: Reason | None = None
    detail: str | None = None
    customer_id: int | None = None


class Unfinished(Enum):
    """The event is to be worked on again, at once."""

    #: A part of the licenses was made.
    MORE = auto()
    #: It is about licenses that the command has not locked.
    NOT_LOCKED = auto()


class _Line(NamedTuple):
    """A line of a sale, with what it makes; ``policy`` is None where that is nothing."""

    line: SaleLine
    mapped: MappedProduct
    policy: Policy | None

    @property
    def quantity(self) -> int:
        """The number of licenses."""
        is_one = self.mapped.quantity is QuantityRule.DEVICES or self.policy is None
        return 1 if is_one else self.line.quantity


class _Paid(NamedTuple):
    """A sale with its buyer, whose address can be used, and what its licenses should be."""

    sale: Sale
    buyer: Buyer
    wanted: Wanted


class Selling:
    """Work on one event of a connection, which is locked."""

    def __init__(
        self,
        work: LicenseWork,
        command: WorkShopEvent,
        connection: Connection,
        *,
        at: int,
        is_forced: bool,
    ) -> None:
        """``at`` is the event's time, in milliseconds since 1970; ``is_forced`` overwrites what was done by
        hand.
        """
        self._work, self._tx = work, work.tx
        self._command, self._connection = command, connection
        self._at = at
        self._is_forced = is_forced
        #: Whether a license kept what was done by hand, and whether one has a later expiry now.
        self._is_kept = self._is_extended = False

    def apply(self) -> Outcome | Unfinished:
        """Apply the change of the event."""
        change = self._command.event.change
        if isinstance(change, Nothing):
            return Outcome(EventState.IGNORED, Reason.NOT_NEEDED, change.reason)
        number, ref = self._connection.id, rules.payment_ref(change)
        before = sold_store.find_known(self._tx, number, ref, change.subscription)
        payment = before.payments.get(ref or "", Payment(order=""))
        sold = self._list_sold(change.order, change.subscription or payment.subscription)
        if sold is None:
            return Unfinished.NOT_LOCKED
        known = rules.learn(before, change, self._at)
        sold_store.save_known(self._tx, number, before, known)
        if isinstance(change, Sale):
            return self._sell(change, sold, rules.wanted(known))
        if not sold:
            return self._without_sold(change)
        outcome = self._apply_to(sold, rules.wanted(known))
        self._queue_mails(change, sold, before, known)
        return outcome

    # --- renewals and states ----------------------------------------------------------------------

    def _without_sold(self, change: Renewal | StateChange) -> Outcome:
        """What becomes of an event whose sale has not come, or made nothing."""
        if isinstance(change, Renewal):
            return Outcome(EventState.UNMATCHED, Reason.UNKNOWN_ORDER, change.subscription)
        if self._command.event.needs_api:
            # The shop may call the payment otherwise, and would have to be asked how.
            return Outcome(EventState.UNMATCHED, Reason.API_KEY_MISSING)
        return Outcome(EventState.IGNORED, Reason.NOT_LICENSED, event_rules.order_of(change))

    def _queue_mails(
        self, change: Renewal | StateChange, sold: Collection[SoldLicense], before: Known, known: Known
    ) -> None:
        event_id = self._command.event_id
        if isinstance(change, Renewal):
            # The first period comes with the sale.
            is_later = sum(one.until is not None for one in known.payments.values()) > 1
            if self._is_extended and is_later:
                self._queue_mail(MailTemplate.RENEWED, sold, f"renewal {event_id}")
        elif rules.begins_grace(before, known):
            self._queue_mail(MailTemplate.PAYMENT_FAILED, sold, f"grace {event_id}")

    def _list_sold(self, order: str | None, subscription: str | None) -> list[SoldLicense] | None:
        """The licenses that the change is about; None where the command has not locked all of them."""
        sold = sold_store.list_sold(self._tx, self._connection.id, order, subscription)
        locked = self._command.license_ids
        return sold if all(not one.license_id or one.license_id in locked for one in sold) else None

    def _apply_to(self, sold: Collection[SoldLicense], wanted: Wanted) -> Outcome:
        """Make these licenses what the shop wants, but for what was done by hand."""
        changed, revived, refused = [], list[SoldLicense](), 0
        for one in sold:
            license = self._work.find_license(one.license_id) if one.license_id else None
            if license is None:
                # It was deleted by hand (see ``apply_to_restored``), or the line makes no license.
                continue
            decided = rules.decide(one, license, wanted, is_forced=self._is_forced)
            refused += decided.is_refused
            self._is_kept |= decided.is_kept
            if decided.changes:
                self._update(license, decided)
            if license.status == Status.DISABLED and "status" in decided.changes:
                revived.append(one)
            if decided.sold != one:
                changed.append(decided.sold)
        sold_store.save_sold(self._tx, self._connection.id, changed)
        if revived:
            # A license that was refunded before it was made has never been in a mail.
            self._queue_mail(self._template, revived, f"sale {max(one.license_id for one in revived)}")
        customer_id = self._find_customer(sold)
        if refused:
            return Outcome(EventState.UNMATCHED, Reason.CHANGED_BY_HAND, customer_id=customer_id)
        reason = Reason.KEPT_BY_HAND if self._is_kept else None
        return Outcome(EventState.DONE, reason, customer_id=customer_id)

    def _update(self, license: License, decided: rules.Decided) -> None:
        expires_at = decided.changes.get("expires_at")
        if expires_at is not None and license.expires_at is not None:
            self._is_extended |= expires_at > license.expires_at
        command = UpdateLicense(context=self._command.context, license=license.id, changes=decided.changes)
        licenses.update(self._work, command)

    # --- sales ------------------------------------------------------------------------------------

    def _sell(self, sale: Sale, sold: Collection[SoldLicense], wanted: Wanted) -> Outcome | Unfinished:
        outcome = self._apply_to(sold, wanted)
        lines, problem = self._read_lines(sale)
        buyer = self._read_buyer(sale)
        if isinstance(buyer, Outcome):
            return buyer
        if problem is not None and problem.reason is Reason.TOO_MANY:
            return problem
        own = [one for one in sold if one.order == sale.order]
        unfinished = self._make(_Paid(sale, buyer, wanted), lines, own)
        if unfinished is not None:
            return unfinished
        ended = problem or outcome
        return ended._replace(customer_id=self._find_customer(own))

    def _read_buyer(self, sale: Sale) -> Buyer | Outcome:
        if sale.buyer is None or not sale.buyer.email.strip():
            return Outcome(EventState.UNMATCHED, Reason.NO_ADDRESS)
        try:
            return replace(sale.buyer, email=parse_email(sale.buyer.email))
        except ValueError:
            return Outcome(EventState.UNMATCHED, Reason.BAD_ADDRESS)

    def _read_lines(self, sale: Sale) -> tuple[list[_Line], Outcome | None]:
        """The lines that make something, and what is wrong with others."""
        lines: list[_Line] = []
        problem = None if sale.lines else Outcome(EventState.UNMATCHED, Reason.UNKNOWN_PRODUCT)
        for line in sale.lines:
            mapped = rules.find_mapped(self._connection.mapping, line)
            if mapped is None:
                detail = ", ".join(line.refs[:4])
                problem = problem or Outcome(EventState.UNMATCHED, Reason.UNKNOWN_PRODUCT, detail)
                continue
            policy = None if mapped.policy_id is None else find_policy(self._tx, mapped.policy_id)
            if mapped.policy_id is not None and (policy is None or policy.archived_at is not None):
                detail = str(mapped.policy_id)
                problem = problem or Outcome(EventState.UNMATCHED, Reason.UNUSABLE_POLICY, detail)
            elif line.quantity > 0:
                lines.append(_Line(line, mapped, policy))
            elif policy is not None:
                problem = problem or Outcome(EventState.UNMATCHED, Reason.NO_QUANTITY, str(line.quantity))
        amount = sum(one.quantity for one in lines)
        if amount > event_rules.MAX_LICENSES:
            problem = Outcome(EventState.UNMATCHED, Reason.TOO_MANY, str(amount))
        return lines, problem

    def _make(self, order: _Paid, lines: Sequence[_Line], own: list[SoldLicense]) -> Unfinished | None:
        """Make the licenses that are missing, which ``own`` gets; ``MORE`` when some are left."""
        left, new, is_last = _AT_ONCE, list[SoldLicense](), True
        for line in lines:
            known = [one for one in own if one.line == line.line.number]
            if line.policy is not None and any(not one.license_id for one in known):
                sold_store.delete_unlicensed(
                    self._tx, self._connection.id, order.sale.order, line.line.number
                )
                known = []
            missing = max(0, line.quantity - len(known))
            amount = min(missing, left)
            if amount:
                new += self._make_line(order, line, len(known), amount)
                left -= amount
            is_last = is_last and amount == missing
        sold_store.save_new_sold(self._tx, self._connection.id, new)
        own += new
        if not is_last:
            return Unfinished.MORE
        made = [one.license_id for one in new if one.license_id]
        if made and order.wanted.status is not Status.DISABLED:
            self._queue_mail(self._template, own, f"sale {made[-1]}", order.buyer.language)
        return None

    def _make_line(self, order: _Paid, line: _Line, first: int, amount: int) -> list[SoldLicense]:
        """Make so many licenses of a line, from an index on."""
        sale, wanted, number = order.sale, order.wanted, line.line.number
        nothing = SoldLicense(
            order=sale.order,
            line=number,
            number=first,
            license_id=0,
            subscription=sale.subscription,
            status=0,
            expires_at=None,
        )
        if line.policy is None:
            return [nothing]
        terms = {}
        limit = line.policy.terms.max_activations
        if line.mapped.quantity is QuantityRule.DEVICES and limit is not None:
            terms = {"max_activations": rules.multiply_limit(limit, line.line.quantity)}
        of_terms = expiry_of_new(line.policy.terms, self._command.context.now)
        source = f"{self._connection.shop.value}:{self._connection.id}"
        command = IssueLicenses(
            context=self._command.context,
            status=wanted.status,
            quantity=amount,
            policy_id=line.policy.id,
            terms=terms,
            customer=CustomerReference(
                email=order.buyer.email, name=order.buyer.name, language=order.buyer.language
            ),
            order=Order(source, sale.order, number, first),
            expires_at=wanted.expiry(of_terms),
            has_expiry=True,
        )
        made, _ = make(self._work, command, line.policy)
        return [
            replace(
                nothing,
                number=first + i,
                license_id=one.id,
                status=one.status,
                expires_at=one.expires_at,
                terms_expire_at=of_terms,
            )
            for i, one in enumerate(made)
        ]

    # --- customers and mails ----------------------------------------------------------------------

    @property
    def _template(self) -> MailTemplate:
        named = self._connection.mail_template
        return MailTemplate.YOUR_LICENSE if named is None else MailTemplate(named)

    def _licenses_of(self, sold: Collection[SoldLicense]) -> Iterator[License]:
        """Those of them that there are, one after another."""
        found = (self._work.find_license(one.license_id) for one in sold if one.license_id)
        return (one for one in found if one is not None)

    def _find_customer(self, sold: Collection[SoldLicense]) -> int | None:
        found = (one.customer_id for one in self._licenses_of(sold))
        return next((one for one in found if one is not None), None)

    def _queue_mail(
        self, template: MailTemplate, sold: Collection[SoldLicense], unique: str, language: str | None = None
    ) -> None:
        """Queue a mail about these licenses, if the connection sends any and they have a customer."""
        customer_id = self._find_customer(sold) if self._connection.sends_mail else None
        if customer_id is None:
            return
        found = list(islice(self._licenses_of(sold), MAX_LICENSES_OF_MAIL))
        mail = QueuedMail(
            template=template,
            unique=f"shop {unique} {template.value}",
            customer_id=customer_id,
            product_id=found[0].product_id,
            language=None if language is None else language.replace("-", "_"),
            subject=Subject(license_ids=tuple(one.id for one in found)),
        )
        queue_mail(self._tx, mail, self._command.context.now)


def apply_to_restored(work: LicenseWork, command: LicenseCommand, license: License) -> None:
    """Apply what shops have said of a license since it was deleted."""
    for connection_id, sold in sold_store.list_of_license(work.tx, license.id):
        # No event of the connection is worked on meanwhile.
        lock_connection(work.tx, connection_id)
        known = sold_store.find_known(work.tx, connection_id, sold.order, sold.subscription)
        decided = rules.decide(sold, license, rules.wanted(known))
        if decided.changes:
            changed = UpdateLicense(context=command.context, license=license.id, changes=decided.changes)
            licenses.update(work, changed)
        sold_store.save_sold(work.tx, connection_id, [decided.sold])
