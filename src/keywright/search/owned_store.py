"""Queries about what a customer or a product owns, bounded however many licenses there are."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import BigInteger, and_, case, func, literal_column, or_, select

from keywright.db.schema import activations, licenses
from keywright.db.transaction import ReadTransaction
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import ACTIVATION, activation_of

#: Licenses are counted up to this number plus one.
MAX_COUNTED = 10_000
#: The characters of a token that state its position among those of its license.
_PREFIX = 12
_DAY = 86_400


#: For a product with more licenses, this many of the next expiries of all products are read.
_MAX_EXPIRIES = 20_000


class Expiries(NamedTuple):
    """The number of licenses that expire on a day (days since 1970-01-01 UTC), and the last day that was
    counted; None if all were.
    """

    by_day: Mapping[int, int]
    counted_until: int | None


class Place(NamedTuple):
    """A position in the list of a customer's devices: a license, and the beginning of a token."""

    license_id: int
    token: str


def list_devices(
    tx: ReadTransaction, customer_id: int, *, after: Place | None, limit: int
) -> tuple[list[Activation], Place | None]:
    """Return the active devices on the licenses of a customer, newest license first; and the last one's
    position if there are more.
    """
    numbers = select(licenses.c.id).where(licenses.c.customer_id == customer_id)
    beyond = []
    if after is not None:
        numbers = numbers.where(licenses.c.id <= after.license_id)
        # The digits of tokens are hexadecimal, so every token with this prefix sorts before the prefix with
        # "g".
        is_later = and_(activations.c.license_id == after.license_id, activations.c.token > after.token + "g")
        beyond = [or_(activations.c.license_id < after.license_id, is_later)]
    # LIMIT keeps PostgreSQL from reading all activations: it processes one license at a time.
    some = numbers.order_by(licenses.c.id.desc()).subquery()
    query = (
        select(*ACTIVATION)
        .join(some, some.c.id == activations.c.license_id)
        .where(activations.c.deactivated_at.is_(None), *beyond)
        .order_by(some.c.id.desc(), activations.c.token)
        .limit(limit + 1)
    )
    found = [activation_of(row) for row in tx.connection.execute(query)]
    last = found[limit - 1] if len(found) > limit else None
    return found[:limit], None if last is None else Place(last.license_id, last.token[:_PREFIX])


def count_licenses(tx: ReadTransaction, *, product_id: int) -> int:
    """Count the licenses of a product, up to ``MAX_COUNTED + 1``."""
    some = select(licenses.c.id).where(licenses.c.product_id == product_id).limit(MAX_COUNTED + 1)
    return int(tx.connection.execute(select(func.count()).select_from(some.subquery())).scalar_one())


def count_expiries(
    tx: ReadTransaction, product_id: int, *, first_day: int, days: int, is_big: bool
) -> Expiries:
    """Count the licenses of a product that expire on each of the next days. For a product with more licenses
    than are counted (``is_big``), the last days may be missing.
    """
    columns = licenses.c
    first, end = first_day * _DAY, (first_day + days) * _DAY
    query = select(columns.product_id, columns.expires_at)
    if is_big:
        in_time = (columns.expires_at >= first, columns.expires_at < end)
        some = query.where(*in_time).order_by(columns.expires_at).limit(_MAX_EXPIRIES).subquery()
    else:
        some = query.where(columns.product_id == product_id).limit(MAX_COUNTED).subquery()
    day = some.c.expires_at // literal_column(str(_DAY), BigInteger)
    amounts = select(
        day,
        func.count().label("amount"),
        func.sum(case((some.c.product_id == product_id, 1), else_=0)).label("own"),
    ).where(some.c.expires_at >= first, some.c.expires_at < end)
    found = list(tx.connection.execute(amounts.group_by(day)))
    by_day = {int(row[0]): int(row.own) for row in found if row.own}
    is_whole = not is_big or sum(row.amount for row in found) < _MAX_EXPIRIES
    return Expiries(by_day, None if is_whole else max(int(row[0]) for row in found))
