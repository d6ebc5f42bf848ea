"""A call that was refused."""

import re
from datetime import datetime
from typing import NamedTuple

import msgspec

_TOKEN = re.compile("[0-9a-f]{40}")


def to_known_token(value: object) -> str | None:
    """The token that a call named, if an activation can have it."""
    return value if isinstance(value, str) and _TOKEN.fullmatch(value) else None


class NamedDevice(NamedTuple):
    """What a call said of its device; None was not said."""

    fingerprint: str | None = None
    device_name: str | None = None
    token: str | None = None


class RefusedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call about a license that was refused: ``times`` times for the same reason to the same device at the
    same address, the last time at ``refused_at``. ``reason`` is a problem code of v3 or a finding of its
    validation.
    """

    reason: str
    operation: str
    fingerprint: str | None = None
    device_name: str | None = None
    token: str | None = None
    ip_address: str
    times: int = 1
    refused_at: datetime

    @property
    def subject(self) -> tuple[str | None, ...]:
        """What calls that are counted together have in common."""
        return (
            self.reason,
            self.operation,
            self.fingerprint,
            self.device_name,
            self.token,
            self.ip_address,
        )
