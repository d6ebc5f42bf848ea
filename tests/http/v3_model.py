"""One license over v3 and v2 on a page: the contract's rules without a database, to compare a server with.

A call takes the license and the words of the call, changes it, and returns what the answer says; or raises
``Refused`` with the problem code.
"""

from dataclasses import dataclass, field
from typing import Any

MAX_LEASES, MAX_USED = 2, 5


class Refused(Exception):
    """The call is refused, for this reason."""


@dataclass
class Place:
    """The place of a device, or one that was taken over v2."""

    token: str
    is_active: bool = True


@dataclass
class License:
    """What was sold, and who has it; places are by fingerprint, those of v2 by their tokens."""

    limit: int | None = 2
    is_expired: bool = False
    is_disabled: bool = False
    places: dict[str, Place] = field(default_factory=dict)
    holders: set[str] = field(default_factory=set)
    used: int = 0

    @property
    def taken(self) -> int:
        return sum(one.is_active for one in self.places.values())


def activate(one: License, device: str, replaces: str | None, token: str) -> dict[str, Any]:
    """``token`` is the server's choice for a new place."""
    _require_usable(one)
    own, other = one.places.get(device), one.places.get(replaces or "")
    if other is own or other is None or not other.is_active:
        other = None
    is_new = False
    if other is not None:
        if own is None:
            one.places[device] = one.places.pop(replaces or "")
        else:
            own.is_active, other.is_active = True, False
    elif own is None or not own.is_active:
        _require_free(one)
        is_new = own is None
        one.places.setdefault(device, Place(token)).is_active = True
    return {"is_new": is_new, "token": one.places[device].token, "activations": one.taken}


def deactivate(one: License, device: str) -> dict[str, Any]:
    if device not in one.places:
        raise Refused("unknown_device")
    was_active, one.places[device].is_active = one.places[device].is_active, False
    return {"was_active": was_active, "activations": one.taken}


def validate(one: License, device: str | None, holder: str) -> dict[str, Any]:
    is_there = device is None or (device in one.places and one.places[device].is_active)
    findings = {
        "disabled": one.is_disabled,
        "expired": one.is_expired,
        "not_activated": not is_there,
        "lease_required": holder not in one.holders,
        "over_limit": one.limit is not None and one.taken > one.limit,
        "usage_exceeded": one.used >= MAX_USED,
    }
    codes = [code for code, is_found in findings.items() if is_found] or ["valid"]
    valid = not {"disabled", "expired", "not_activated", "lease_required"} & set(codes)
    return {"valid": valid, "codes": codes, "activations": one.taken, "limit": one.limit}


def take_lease(one: License, holder: str) -> dict[str, Any]:
    _require_usable(one)
    is_new = holder not in one.holders
    if is_new and len(one.holders) >= MAX_LEASES:
        raise Refused("no_free_lease")
    one.holders.add(holder)
    return {"is_new": is_new, "leases": len(one.holders)}


def release_lease(one: License, holder: str) -> dict[str, Any]:
    one.holders.remove(holder)
    return {"leases": len(one.holders)}


def use(one: License, amount: int) -> dict[str, Any]:
    _require_usable(one)
    if one.used + amount > MAX_USED:
        raise Refused("usage_exceeded")
    one.used += amount
    return {"used": one.used}


def activate_v2(one: License, token: str, *, is_new: bool) -> int:
    """Take a new place or, by its token, one that was given up; returns the number of places taken."""
    if one.is_expired:
        raise Refused("expired")
    _require_usable(one)
    if one.limit is None:  # Bound by leases alone, which v2 does not know.
        raise Refused("disabled")
    known = [place for place in one.places.values() if place.token == token]
    if not is_new and (not known or known[0].is_active):
        raise Refused("already active")
    _require_free(one)
    place = known[0] if known else one.places.setdefault(token, Place(token))
    place.is_active = True
    return one.taken


def deactivate_v2(one: License, token: str | None) -> int:
    """Give up the place with this token, or all."""
    ended = [place for place in one.places.values() if place.is_active and token in (None, place.token)]
    if not ended:
        raise Refused("not active")
    for place in ended:
        place.is_active = False
    return one.taken


#: The codes of v2 for refusals; all others have the one below.
V2_REFUSALS: dict[str, str] = {
    "expired": "lmfwc_rest_license_expired",
    "disabled": "lmfwc_rest_license_inactive",
}
OTHER_V2_REFUSAL = "lmfwc_rest_data_error"


def _require_usable(one: License) -> None:
    if one.is_disabled:
        raise Refused("disabled")
    if one.is_expired:
        raise Refused("expired")


def _require_free(one: License) -> None:
    if one.limit is not None and one.taken >= one.limit:
        raise Refused("limit_reached")
