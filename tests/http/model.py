"""What a license server is, on a page: the contract's rules (§3, §4) without a database, a clock or a
network, to compare a server with.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PAST, FUTURE = "2020-01-01 00:00:00", "2999-12-31 23:59:59"


@dataclass
class Place:
    """An activation."""

    label: str | None
    is_active: bool = True


@dataclass
class License:
    """What was said of it, and its places by their tokens, oldest first."""

    limit: int | None = None
    status: str = "active"
    expires_at: str | None = None
    places: dict[str, Place] = field(default_factory=dict)

    def active(self) -> list[str]:
        return [token for token, place in self.places.items() if place.is_active]


Licenses = dict[str, License]


@dataclass(frozen=True)
class Wish:
    """What a call asks for; ``changes`` are those of create and update, as ``License`` has them."""

    call: str
    key: str
    token: str | None = None
    label: str | None = None
    new_key: str | None = None
    changes: tuple[tuple[str, Any], ...] = ()


class Refused(Exception):
    """The wish is not granted, for this reason."""


def create(sold: Licenses, wish: Wish, _: str) -> list[str]:
    require(wish.key not in sold, "taken")
    sold[wish.key] = License(**dict(wish.changes))
    return []


def activate(sold: Licenses, wish: Wish, new_token: str) -> list[str]:
    one = known(sold, wish)
    require(one.expires_at != PAST, "expired")
    require(one.status not in ("inactive", "disabled"), one.status)
    require(wish.token is None or wish.token in one.places, "no such token")
    require(wish.token not in one.active(), "already active")
    require(one.limit is None or len(one.active()) < one.limit, "full")
    one.places.setdefault(wish.token or new_token, Place(wish.label)).is_active = True
    return [wish.token or new_token]


def deactivate(sold: Licenses, wish: Wish, _: str) -> list[str]:
    one = known(sold, wish)
    require(wish.token is None or wish.token in one.active(), "not active")
    ended = [wish.token] if wish.token else one.active()
    require(bool(ended), "nothing active")
    for token in ended:
        one.places[token].is_active = False
    return ended


def validate(sold: Licenses, wish: Wish, _: str) -> list[str]:
    one = known(sold, wish)
    require(wish.token is None or wish.token in one.active(), "not active")
    return [wish.token] if wish.token else list(one.places)


def update(sold: Licenses, wish: Wish, _: str) -> list[str]:
    one = known(sold, wish)
    require(wish.new_key in (None, wish.key) or wish.new_key not in sold, "taken")
    sold[wish.new_key or wish.key] = sold.pop(wish.key)
    for name, value in wish.changes:
        setattr(one, name, value)
    return []


def delete(sold: Licenses, wish: Wish, _: str) -> list[str]:
    known(sold, wish)
    del sold[wish.key]
    return []


#: Each takes the licenses, the wish and the token of a new place, changes the licenses, and returns the
#: tokens that the answer is about; or raises ``Refused``.
CALLS: dict[str, Callable[[Licenses, Wish, str], list[str]]] = {
    "create": create,
    "activate": activate,
    "deactivate": deactivate,
    "validate": validate,
    "get": validate,
    "update": update,
    "delete": delete,
}


def known(sold: Licenses, wish: Wish) -> License:
    require(wish.key in sold, "unknown")
    return sold[wish.key]


def require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Refused(otherwise)
