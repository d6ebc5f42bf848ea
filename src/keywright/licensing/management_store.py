"""Read what the management API shows of licenses: one query for each table."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, tuple_

from keywright.db.bulk import Lookup
from keywright.db.rows import to_datetime
from keywright.db.schema import activations, last_seen, trials
from keywright.db.transaction import ReadTransaction
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import ACTIVATIONS, IS_ACTIVE, activation_of
from keywright.licensing.leases.store import count_held
from keywright.licensing.licenses.keys import make_license_ref
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.management import ListActivations, ManagedLicense
from keywright.licensing.usage.store import list_usage, show_usage

_SEEN = Lookup(
    select(last_seen.c.license_id, last_seen.c.seen_at), last_seen.c.license_id, last_seen.c.activation_id
)
_TRIALS = Lookup(select(trials.c.license_id, trials.c.email), trials.c.license_id)


def list_managed(tx: ReadTransaction, licenses: Sequence[License], now: datetime) -> list[ManagedLicense]:
    """These licenses, each with what is shown beside it."""
    # Leases, meters and trials are offered by terms that are not the default.
    with_terms = [one.id for one in licenses if one.terms is not None]
    held, usages = count_held(tx, with_terms, now), list_usage(tx, with_terms)
    emails = {row.license_id: row.email for row in _TRIALS.find_rows(tx.connection, with_terms)}
    seen = _SEEN.find_rows(tx.connection, [(one.id, 0) for one in licenses])
    validated = {license_id: to_datetime(at) for license_id, at in seen}
    return [
        ManagedLicense(
            one,
            held.get(one.id, 0),
            show_usage(tx, terms_of(one), usages.get(one.id, ()), now),
            validated.get(one.id),
            emails.get(one.id),
            make_license_ref(tx.key_ring, one.id),
        )
        for one in licenses
    ]


def find_activations(tx: ReadTransaction, query: ListActivations) -> list[Activation]:
    """The activations that a page shows, and one more."""
    column = activations.c
    order = (column.created_at, column.id)
    found = ACTIVATIONS.where(column.license_id == query.license_id).limit(query.limit + 1)
    found = found.order_by(*(one.desc() if query.is_descending else one for one in order))
    if query.is_active is not None:
        found = found.where(IS_ACTIVE if query.is_active else ~IS_ACTIVE)
    if query.after is not None:
        place = tuple_(*query.after)
        found = found.where(tuple_(*order) < place if query.is_descending else tuple_(*order) > place)
    return [activation_of(row) for row in tx.connection.execute(found)]
