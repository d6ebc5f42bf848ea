"""Statements of exports: each reads the rows after a place, in their order."""

from sqlalchemy import func, literal, select, tuple_, union

from keywright.db.bulk import Lookup
from keywright.db.schema import activations, customers, events, licenses
from keywright.db.transaction import ReadTransaction
from keywright.events.model import Event
from keywright.events.store import EVENT, event_of
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import ACTIVATION, activation_of

_LICENSES_OF = Lookup(
    select(licenses.c.customer_id, func.count())
    .where(licenses.c.customer_id.is_not(None))
    .group_by(licenses.c.customer_id),
    licenses.c.customer_id,
)


_EXTERNAL_IDS = Lookup(select(customers.c.id, customers.c.external_id), customers.c.id)


def list_activations(tx: ReadTransaction, after: tuple[int, str], limit: int) -> list[Activation]:
    """At most ``limit`` activations after a license and token."""
    place = tuple_(activations.c.license_id, activations.c.token)
    query = select(*ACTIVATION).where(place > tuple_(*map(literal, after)))
    order = (activations.c.license_id, activations.c.token)
    return [activation_of(row) for row in tx.connection.execute(query.order_by(*order).limit(limit))]


def list_events(tx: ReadTransaction, after: int, limit: int) -> list[tuple[int, Event]]:
    """At most ``limit`` events after an id, each with its own."""
    query = select(events.c.id, *EVENT).where(events.c.id > after).order_by(events.c.id).limit(limit)
    return [(row[0], event_of(row[1:])) for row in tx.connection.execute(query)]


def list_customers(tx: ReadTransaction, after: int, limit: int) -> list[int]:
    """At most ``limit`` numbers of customers after one: those that are known or have a license."""
    known = select(customers.c.id).where(customers.c.id > after)
    holding = select(licenses.c.customer_id).distinct().where(licenses.c.customer_id > after)
    parts = (
        select(known.order_by(customers.c.id).limit(limit).subquery()),
        select(holding.order_by(licenses.c.customer_id).limit(limit).subquery()),
    )
    found = union(*parts).subquery()
    return list(tx.connection.execute(select(found).order_by(found.c[0]).limit(limit)).scalars())


def find_external_ids(tx: ReadTransaction, customers: list[int]) -> dict[int, str | None]:
    """What another system calls those of these customers that are known."""
    return {row[0]: row[1] for row in _EXTERNAL_IDS.find_rows(tx.connection, customers)}


def count_licenses_of(tx: ReadTransaction, customers: list[int]) -> dict[int, int]:
    """The number of licenses of each of these customers that has any."""
    return {row[0]: row[1] for row in _LICENSES_OF.find_rows(tx.connection, customers)}
