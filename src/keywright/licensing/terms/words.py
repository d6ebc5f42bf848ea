"""Terms in words, for people. Pure."""

from collections.abc import Iterator

from keywright.core.parsing import format_count
from keywright.licensing.terms.model import AfterExpiry, Allowance, DeviceRule, Meter, Overage, Starts, Terms

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def describe_terms(terms: Terms) -> list[str]:
    """What the terms allow, one part each: ``3 devices``, ``365 days from the first activation`` …"""
    return [*_describe_places(terms), *_describe_life(terms), *_describe_device(terms), *_describe_use(terms)]


def _describe_places(terms: Terms) -> Iterator[str]:
    limit = terms.max_activations
    yield "any number of devices" if limit is None else format_count(limit, "device")
    if terms.max_leases is not None:
        yield f"{terms.max_leases:,} at the same time, for {format_seconds(terms.lease_seconds)} each"


def _describe_life(terms: Terms) -> Iterator[str]:
    days = terms.valid_for_days
    if days is None:
        yield "no end of its own"
    else:
        start = "first activation" if terms.starts is Starts.FIRST_ACTIVATION else "creation"
        yield f"{format_count(days, 'day')} from the {start}"
    if terms.grace_days:
        yield f"{format_count(terms.grace_days, 'day')} of grace"
    if terms.after_expiry is AfterExpiry.ALLOW:
        yield "stays valid after the expiry"
    elif terms.after_expiry is AfterExpiry.OLDER_VERSIONS:
        yield "valid for versions from before the expiry"


def _describe_device(terms: Terms) -> Iterator[str]:
    if terms.device is DeviceRule.REQUIRED:
        yield "a fingerprint is required"
    defaults = Terms()
    if terms.offline_days != defaults.offline_days:
        yield f"{format_count(terms.offline_days, 'day')} offline" if terms.offline_days else "never offline"
    if terms.next_check_seconds != defaults.next_check_seconds:
        yield f"next check after {format_seconds(terms.next_check_seconds)}"
    if terms.new_devices is not None:
        yield f"new devices: {describe_allowance(terms.new_devices)}"
    if terms.portal_releases is not None:
        allowed = describe_allowance(terms.portal_releases) if terms.portal_releases.count else "none"
        yield f"releases in the portal: {allowed}"


def _describe_use(terms: Terms) -> Iterator[str]:
    if terms.entitlements:
        yield f"entitlements: {', '.join(terms.entitlements)}"
    for name, meter in terms.meters.items():
        yield f"{name}: {describe_meter(meter)}"
    if terms.trial:
        yield "a trial: one per device"


def describe_allowance(allowance: Allowance) -> str:
    """``3 in 30 days``."""
    return f"{allowance.count:,} in {format_count(allowance.per_days, 'day')}"


def describe_meter(meter: Meter) -> str:
    """``100 per month``, and that more is allowed where it is."""
    return f"{meter.limit:,} per {meter.per}" + (
        ", more is allowed" if meter.overage is Overage.ALLOW else ""
    )


def format_seconds(seconds: int) -> str:
    """``10 minutes``: in the largest unit that divides it."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return format_count(seconds // size, unit)
