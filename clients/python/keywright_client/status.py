"""What a program is told about its license."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

VALID_STATES = ("valid", "grace", "unreachable_but_valid_until")
_OTHER_STATES = "expired disabled not_activated limit_reached unreachable_too_long tampered clock_moved_back"
STATES = (*VALID_STATES, *_OTHER_STATES.split())
_STATE_OF_CODE = {
    **dict.fromkeys(("disabled", "inactive"), "disabled"),
    **dict.fromkeys(("expired", "version_not_covered"), "expired"),
    **dict.fromkeys(
        ("limit_reached", "too_many_new_devices", "no_free_lease", "lease_lost"), "limit_reached"
    ),
}


class Status(NamedTuple):
    """``valid`` decides, ``state`` (one of ``STATES``) says what to tell the user, ``detail`` is a sentence.

    ``code`` and ``codes`` are the server's. ``is_offline``: the server was asked and gave no answer; the kept
    one lasts until ``valid_until``. Times are in UTC.
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
    expires_at: datetime | None
    grace_until: datetime | None
    checked_at: datetime | None
    next_check_at: datetime | None
    valid_until: datetime | None

    def has(self, entitlement: str) -> bool:
        """Whether the license is valid and has this entitlement."""
        return self.valid and entitlement in self.entitlements


def build_status(
    state: str, detail: str, claims: Any = None, code: str = "", is_offline: bool = False
) -> Status:
    """The status that the claims of an answer lead to, where there is one."""
    claims = claims or {}
    view = claims.get("license") or {}
    moments = (
        view.get("expires_at"),
        view.get("grace_until"),
        claims.get("iat"),
        claims.get("next_check_at"),
    )
    code = code or claims.get("code") or state
    codes, entitlements = claims.get("codes") or [code], claims.get("entitlements") or []
    return Status(
        *(state in VALID_STATES, state, code, codes, detail, is_offline, entitlements),
        *(view or None, claims.get("activation"), *map(parse_time, (*moments, claims.get("exp")))),
    )


def state_of(claims: dict[str, Any]) -> str:
    """The state that an answer tells by itself."""
    if claims["valid"]:
        return "grace" if "grace" in claims.get("codes", ()) else "valid"
    return state_of_code(str(claims.get("code")))


def state_of_code(code: str) -> str:
    """The state of an answer or a refusal with this code."""
    return _STATE_OF_CODE.get(code, "not_activated")


def parse_time(value: Any) -> datetime | None:
    """A moment of an answer, RFC 3339 or seconds since 1970; None for what is none."""
    try:
        if isinstance(value, int):
            return datetime.fromtimestamp(value, timezone.utc)
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except (AttributeError, ValueError, OverflowError, OSError):
        return None
