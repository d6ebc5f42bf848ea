"""The rights of a user's role."""

from enum import StrEnum

from keywright.identity.model import Role


class Right(StrEnum):
    """The right that a page, or a button on it, needs."""

    LOOK = "look"
    CHANGE = "change"
    ADMINISTER = "administer"


_RIGHTS = {
    Role.READER: frozenset({Right.LOOK}),
    Role.SUPPORT: frozenset({Right.LOOK, Right.CHANGE}),
    Role.ADMINISTRATOR: frozenset(Right),
}


def may(role: Role, right: Right) -> bool:
    """Whether users with this role have the right."""
    return right in _RIGHTS[role]
