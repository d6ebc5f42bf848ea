"""The customers of sales, and the mails to them about a shop's event."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from keywright.events.model import MAX_LICENSES, MailTemplate, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.customers import parse_email
from keywright.provisioning.handlers import claim_external_id
from keywright.provisioning.ownership.store import find_first_owners
from keywright.provisioning.shops import outcome_rules
from keywright.provisioning.shops.commands import WorkShopEvent
from keywright.provisioning.shops.event_rules import find_external_id
from keywright.provisioning.shops.model import (
    Connection,
    EventState,
    Lines,
    Reason,
    Renewal,
    Sale,
    ShopEvent,
    StateChange,
)
from keywright.provisioning.shops.outcome_rules import Notes, Outcome
from keywright.provisioning.shops.rules import Known
from keywright.provisioning.shops.sold_model import SoldLicense
from keywright.provisioning.store import CUSTOMERS


class SaleMails:
    """Queues mails about the licenses of one event, if the connection sends any."""

    def __init__(self, work: LicenseWork, command: WorkShopEvent, connection: Connection) -> None:
        self._work, self._command, self._connection = work, command, connection

    def find_customer(self, sold: Iterable[SoldLicense]) -> int | None:
        """Find the customer to whom these licenses were sold; some may have a new owner since."""
        return self._find_buyer(list(self._licenses_of(sold)))

    def _find_buyer(self, licenses: Sequence[License]) -> int | None:
        buyers = find_first_owners(self._work.tx, [one.id for one in licenses])
        found = (buyers.get(one.id, one.customer_id) for one in licenses)
        return next((one for one in found if one is not None), None)

    def queue_failed(self, sold: Collection[SoldLicense]) -> None:
        """Queue the mail about a failed payment."""
        self._queue(MailTemplate.PAYMENT_FAILED, sold, f"grace {self._command.event_id}")

    def queue_changed(
        self,
        change: Sale | Renewal | StateChange | Lines,
        known: Known,
        notes: Notes,
        sold: Collection[SoldLicense],
    ) -> None:
        """Queue the mail about changed terms or a later end; the mail of a sale covers the first period."""
        live = [one for one in sold if not one.is_over]
        is_later = sum(one.until is not None for one in known.payments.values()) > 1
        if outcome_rules.is_other(notes):
            self._queue(MailTemplate.CHANGED, live, f"change {self._command.event_id}")
        elif is_later and not isinstance(change, Sale | StateChange) and outcome_rules.is_longer(notes):
            self._queue(MailTemplate.RENEWED, live, f"renewal {self._command.event_id}")

    def queue_made(self, change: Sale | Renewal | StateChange | Lines, sold: Collection[SoldLicense]) -> None:
        """Queue the mail with the keys of licenses that this event made, or made usable again."""
        event_id = self._command.event_id
        made = [one for one in sold if one.event_id == event_id and one.status != Status.DISABLED]
        if made:
            language = change.buyer.language if isinstance(change, Sale) and change.buyer else None
            self._queue(self._with_keys, made, f"sale {max(one.license_id for one in made)}", language)

    def queue_later(self, license_id: int, notes: Notes, *, is_first: bool) -> None:
        """Queue the mail about a license that a later purchase has changed; its first buyer gets the key."""
        license = self._work.find_license(license_id)
        template = MailTemplate.CHANGED if outcome_rules.is_other(notes) else MailTemplate.RENEWED
        if license is not None and (
            is_first or outcome_rules.is_other(notes) or outcome_rules.is_longer(notes)
        ):
            template = self._with_keys if is_first else template
            self._queue_about(template, [license], f"later {self._command.event_id} {license_id}")

    @property
    def _with_keys(self) -> MailTemplate:
        named = self._connection.mail_template
        return MailTemplate.YOUR_LICENSE if named is None else MailTemplate(named)

    def _licenses_of(self, sold: Iterable[SoldLicense]) -> Iterator[License]:
        """Yield the licenses that exist."""
        found = (self._work.find_license(one.license_id) for one in sold)
        return (one for one in found if one is not None)

    def _queue(
        self, template: MailTemplate, sold: Collection[SoldLicense], unique: str, language: str | None = None
    ) -> None:
        self._queue_about(template, list(islice(self._licenses_of(sold), MAX_LICENSES)), unique, language)

    def _queue_about(
        self, template: MailTemplate, found: Sequence[License], unique: str, language: str | None = None
    ) -> None:
        """Queue a mail to each customer of these licenses, about that customer's licenses."""
        if not self._connection.sends_mail:
            return
        buyer = self._find_buyer(found)
        for customer_id in dict.fromkeys(one.customer_id for one in found if one.customer_id is not None):
            own = [one for one in found if one.customer_id == customer_id]
            others = "" if customer_id == buyer else f" {customer_id}"
            mail = QueuedMail(
                template=template,
                unique=f"shop {unique}{others} {template.value}",
                customer_id=customer_id,
                product_id=own[0].product_id,
                language=None if language is None else language.replace("-", "_"),
                subject=Subject(license_ids=tuple(one.id for one in own)),
            )
            queue_mail(self._work.tx, mail, self._command.context.now)


def find_buyer(work: UnitOfWork, event: ShopEvent | None) -> int | None:
    """Find the customer with the buyer's address: erasing the customer also erases the sale's payload."""
    change = None if event is None else event.change
    if not isinstance(change, Sale) or change.buyer is None:
        return None
    try:
        customer = CUSTOMERS.find_by(work.tx, "email", parse_email(change.buyer.email))
    except ValueError:
        return None
    return None if customer is None else customer.id


def name_buyer(work: UnitOfWork, command: WorkShopEvent, connection: Connection, outcome: Outcome) -> Outcome:
    """Set the external ID that a sale states for its buyer; the outcome reports if that is not possible."""
    sale, customer_id = command.event.change, outcome.customer_id
    external_id = find_external_id(sale, connection) if isinstance(sale, Sale) else None
    if external_id is None or customer_id is None:
        return outcome
    if claim_external_id(work, command, customer_id, external_id) or outcome.state is not EventState.DONE:
        return outcome
    detail = f"customer {customer_id} did not get the external_id of the order"
    detail = "; ".join(filter(None, (outcome.detail, detail)))
    return outcome._replace(reason=outcome.reason or Reason.EXTERNAL_ID_TAKEN, detail=detail)
