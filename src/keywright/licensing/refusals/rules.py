"""Which refused calls of a license are kept. Pure."""

from collections.abc import Iterable

from msgspec.structs import replace

from keywright.licensing.refusals.model import RefusedCall

#: The most refused calls that are kept of a license; calls like each other are one.
MAX_KEPT = 20


def merge(calls: Iterable[RefusedCall]) -> list[RefusedCall]:
    """The latest of these calls, the last one first; those like each other are counted together."""
    merged: dict[tuple[str | None, ...], RefusedCall] = {}
    for one in calls:
        merged[one.subject] = combine(one, merged.get(one.subject))
    return sorted(merged.values(), key=lambda one: one.refused_at, reverse=True)[:MAX_KEPT]


def combine(call: RefusedCall, same: RefusedCall | None) -> RefusedCall:
    """One call for two that are like each other; None is none."""
    if same is None:
        return call
    return replace(call, times=call.times + same.times, refused_at=max(call.refused_at, same.refused_at))
