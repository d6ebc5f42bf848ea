"""What of a new installation is set up, as measured."""

from typing import NamedTuple

from sqlalchemy import func, or_, select

from keywright.db.schema import (
    activations,
    brand,
    connections,
    policies,
    products,
    second_factors,
    users,
)
from keywright.db.transaction import ReadTransaction
from keywright.identity.model import Role

_ADMINISTRATORS = (users.c.role == Role.ADMINISTRATOR.value) & users.c.disabled_at.is_(None)
_USERS = select(users.c.id).where(users.c.disabled_at.is_(None))
_QUESTIONS = (
    select(policies.c.id).where(policies.c.product_id.is_not(None)),
    select(connections.c.id),
    select(brand.c.id).where(or_(brand.c.name.is_not(None), brand.c.logo.is_not(None))),
    _USERS.offset(1),
    select(users.c.id).where(_ADMINISTRATORS, users.c.id.not_in(select(second_factors.c.user_id))),
    select(activations.c.license_id),
)


class SetUp(NamedTuple):
    """What there is: the first product, a policy of a product, and so on."""

    product_id: int | None
    has_policy: bool
    has_shop: bool
    has_brand: bool
    has_colleague: bool
    #: Whether an administrator has no second factor.
    lacks_factor: bool
    has_activation: bool


def find_set_up(tx: ReadTransaction) -> SetUp:
    """Two statements, which read a row of each table."""
    first = tx.connection.execute(select(func.min(products.c.id))).scalar_one()
    return SetUp(first, *tx.which_exist(_QUESTIONS))
