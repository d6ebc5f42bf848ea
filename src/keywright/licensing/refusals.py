"""Recently refused calls about a license, for the support of its customer. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import replace

from keywright.core.command import Command, Cost
from keywright.core.parsing import is_storable

_TOKEN = re.compile("[0-9a-f]{40}")


def to_known_token(value: object) -> str | None:
    """Return the token that a call named, if it has the format of a token."""
    return value if isinstance(value, str) and _TOKEN.fullmatch(value) else None


class NamedDevice(NamedTuple):
    """What a call reported about its device; None for what it did not report."""

    fingerprint: str | None = None
    device_name: str | None = None
    token: str | None = None

    def without_unstorable(self) -> Self:
        """Return a copy without texts that no database can store: they may be why the call was refused."""
        return type(self)(*(one if one is None or is_storable(one) else None for one in self))


class RefusedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A refused call about a license: refused ``times`` times for the same reason, to the same device at the
    same address, most recently at ``refused_at``. ``reason`` is a problem code of v3 or a finding of its
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
        """The key by which calls are counted together."""
        return (
            self.reason,
            self.operation,
            self.fingerprint,
            self.device_name,
            self.token,
            self.ip_address,
        )


#: The most refused calls stored for a license; equal calls count as one.
MAX_KEPT = 20


def merge(calls: Iterable[RefusedCall]) -> list[RefusedCall]:
    """Return the latest of these calls, newest first; equal calls are counted together."""
    merged: dict[tuple[str | None, ...], RefusedCall] = {}
    for one in calls:
        merged[one.subject] = combine(one, merged.get(one.subject))
    return sorted(merged.values(), key=lambda one: one.refused_at, reverse=True)[:MAX_KEPT]


def combine(call: RefusedCall, same: RefusedCall | None) -> RefusedCall:
    """Combine two equal calls into one; ``same`` is None if there is only one."""
    if same is None:
        return call
    return replace(call, times=call.times + same.times, refused_at=max(call.refused_at, same.refused_at))


class SaveRefusals(Command, frozen=True, kw_only=True):
    """Store refused calls, by the license key that they named."""

    cost = Cost.ALONE
    is_internal = True

    refused: Mapping[str, Sequence[RefusedCall]]
