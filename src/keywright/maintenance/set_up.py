"""What of a new installation is set up, as measured."""

from typing import NamedTuple

from sqlalchemy import func, or_, select

from keywright.db import schema
from keywright.db.transaction import ReadTransaction
from keywright.identity.model import Role

_ADMINISTRATORS = (schema.users.c.role == Role.ADMINISTRATOR.value) & schema.users.c.disabled_at.is_(None)
_USERS = select(schema.users.c.id).where(schema.users.c.disabled_at.is_(None))
_QUESTIONS = (
    select(schema.policies.c.id).where(schema.policies.c.product_id.is_not(None)),
    select(schema.connections.c.id),
    select(schema.brand.c.id).where(or_(schema.brand.c.name.is_not(None), schema.brand.c.logo.is_not(None))),
    _USERS.offset(1),
    select(schema.users.c.id).where(
        _ADMINISTRATORS, schema.users.c.id.not_in(select(schema.second_factors.c.user_id))
    ),
    select(schema.activations.c.license_id),
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
    first = tx.connection.execute(select(func.min(schema.products.c.id))).scalar_one()
    return SetUp(first, *tx.which_exist(_QUESTIONS))
