"""The customers of sales, and their IDs in other systems of the vendor."""

from keywright.events.unit_of_work import UnitOfWork
from keywright.provisioning.customers import parse_email
from keywright.provisioning.handlers import claim_external_id
from keywright.provisioning.shops.commands import WorkShopEvent
from keywright.provisioning.shops.event_rules import find_external_id
from keywright.provisioning.shops.model import Connection, EventState, Reason, Sale, ShopEvent
from keywright.provisioning.shops.outcome_rules import Outcome
from keywright.provisioning.store import CUSTOMERS


def find_buyer(work: UnitOfWork, event: ShopEvent | None) -> int | None:
    """The customer with the buyer's address: what is kept of a sale is forgotten with them."""
    change = None if event is None else event.change
    if not isinstance(change, Sale) or change.buyer is None:
        return None
    try:
        customer = CUSTOMERS.find_by(work.tx, "email", parse_email(change.buyer.email))
    except ValueError:
        return None
    return None if customer is None else customer.id


def name_buyer(work: UnitOfWork, command: WorkShopEvent, connection: Connection, outcome: Outcome) -> Outcome:
    """Give the buyer of a sale the external ID that it contains; the outcome states where that cannot be."""
    sale, customer_id = command.event.change, outcome.customer_id
    external_id = find_external_id(sale, connection) if isinstance(sale, Sale) else None
    if external_id is None or customer_id is None:
        return outcome
    if claim_external_id(work, command, customer_id, external_id) or outcome.state is not EventState.DONE:
        return outcome
    detail = f"customer {customer_id} did not get the external_id of the order"
    detail = "; ".join(filter(None, (outcome.detail, detail)))
    return outcome._replace(reason=outcome.reason or Reason.EXTERNAL_ID_TAKEN, detail=detail)
