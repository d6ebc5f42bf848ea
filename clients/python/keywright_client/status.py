"""What a program is told about its license."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

VALID_STATES = ("valid", "grace", "unreachable_but_valid_until")
_OTHER_STATES = (
    "expired disabled not_activated limit_reached no_lease unreachable_too_long tampered clock_moved_back"
    " no_storage"
)
STATES = (*VALID_STATES, *_OTHER_STATES.split())
#: The codes that each state tells; the others are told as ``not_activated``.
_CODES = {
    "disabled": ("disabled", "inactive"),
    "expired": ("expired", "version_not_covered"),
    "limit_reached": ("limit_reached", "too_many_new_devices", "no_removal_left", "no_free_lease"),
    "no_lease": ("lease_required", "lease_lost"),
}
#: What the customer is told at ``no_lease``.
_NO_LEASE = (
    "This program has no place in the shared license. "
    "Start the program again; where every place is taken, end it on another device first."
)


class Status(NamedTuple):
    """``valid`` decides, ``state`` (one of ``STATES``) says what to tell the user, ``detail`` is a sentence.

    ``code`` and ``codes`` are the server's. ``is_offline``: the server was asked and gave no answer; the kept
    one lasts until ``valid_until``. Times are in UTC. ``devices``: those of a full license, to choose from.
    ``notices`` are about this version: each has ``severity``, ``title``, ``url`` and ``fixed_in``.
    """

    valid: bool
    state: str
    code: str
    codes: list[str]
    detail: str
    is_offline: bool
    entitlements: list[str]
    license: dict[str, Any] | None
    activation: dict[str, Any] | None
    devices: list[dict[str, Any]]
    expires_at: datetime | None
    grace_until: datetime | None
    checked_at: datetime | None
    next_check_at: datetime | None
    valid_until: datetime | None
    notices: list[dict[str, Any]]

    def has(self, entitlement: str) -> bool:
        """Whether the license is valid and has this entitlement."""
        return self.valid and entitlement in self.entitlements


def build_status(state: str, found: Any = None, detail: str = "", is_offline: bool = False) -> Status:
    """The status that the claims of an answer lead to, or the error in place of one."""
    claims = found if isinstance(found, dict) else {}
    is_valid, view = state in VALID_STATES, claims.get("license") or {}
    code = str(claims.get("code") or getattr(found, "code", state))
    no = _NO_LEASE if state == "no_lease" else f"The license is not valid: {code}."
    said = str(found) if found and not claims else "" if is_valid else no
    moments = (view.get(name) for name in ("expires_at", "grace_until"))
    times = (claims.get(name) for name in ("iat", "next_check_at", "exp"))
    head = (is_valid, state, code, claims.get("codes") or [code], detail or said, is_offline)
    devices = getattr(found, "devices", [])
    tail = (claims.get("entitlements") or [], view or None, claims.get("activation"), devices)
    every: list[Any] = [*head, *tail, *map(parse_time, (*moments, *times)), claims.get("notices") or []]
    return Status(*every)


def state_of(claims: dict[str, Any]) -> str:
    """The state that an answer tells by itself, or a refusal with its ``code``."""
    if claims.get("valid"):
        return "grace" if "grace" in (claims.get("codes") or ()) else "valid"
    return next((state for state, codes in _CODES.items() if claims.get("code") in codes), "not_activated")


def is_verdict(claims: dict[str, Any]) -> bool:
    """Whether an answer is about the license, and may be kept: ``no_lease`` is about this program alone."""
    return state_of(claims) != "no_lease"


def parse_time(value: Any) -> datetime | None:
    """A moment of an answer, RFC 3339 or seconds since 1970; None for what is none."""
    try:
        if isinstance(value, int):
            return datetime.fromtimestamp(value, timezone.utc)
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except (AttributeError, ValueError, OverflowError, OSError):
        return None
