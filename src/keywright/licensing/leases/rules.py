"""The rules of leases. Pure.

A license's leases without ``ended_at`` are counted. Their number never rises above the limit at the time of
the decision. Call ``end_over`` first: a lease that is over is counted until then.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from keywright.core import errors as e
from keywright.licensing.activations.model import Activation
from keywright.licensing.leases.model import HeldLeases, Lease, Leased
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import require_activatable
from keywright.licensing.terms.model import DeviceRule, Terms

#: The most leases kept that ended without being released; a license with a higher limit keeps up to its
#: limit.
MAX_ENDED = 100


def is_over(lease: Lease, now: datetime) -> bool:
    """Whether a lease is over: it is held up to, not including, its ``expires_at``."""
    return lease.ended_at is not None or now >= lease.expires_at


def end_over(leases: Iterable[Lease], now: datetime) -> tuple[Lease, ...]:
    """End and return those of these leases that are over but still counted; each lowers the count."""
    return tuple(
        replace(one, ended_at=one.expires_at) for one in leases if one.ended_at is None and is_over(one, now)
    )


def require_leasable(
    license: License,
    terms: Terms,
    activation: Activation | None,
    *,
    is_device_named: bool,
    built_at: datetime | None,
    now: datetime,
) -> None:
    """Refuse leases that the license cannot grant now; ``activation`` is the device's record, if it has one.

    Raises what ``require_activatable`` raises, ``LeasesNotOffered``, and, if the terms require a device,
    ``FingerprintRequired`` and ``NotActivated``.
    """
    require_activatable(license, terms, now, built_at)
    if terms.max_leases is None:
        raise e.LeasesNotOffered
    if terms.device is DeviceRule.REQUIRED and (activation is None or activation.deactivated_at is not None):
        raise e.NotActivated if is_device_named else e.FingerprintRequired


def take(new: Lease, current: Lease | None, held: HeldLeases, terms: Terms, seconds: int | None) -> Leased:
    """Take ``new``, or renew ``current``, the lease that the same holder has on the same device.

    ``seconds`` is the requested duration; None means the longest that the terms allow. Raises
    ``NoFreeLease``. Call ``require_leasable`` before.
    """
    now = new.renewed_at
    if current is not None and not is_over(current, now):
        return Leased(_extend(current, terms, seconds, now), held.count)
    _require_free(held, terms, now)
    return Leased(_extend(new, terms, seconds, now), held.count + 1, is_new=True)


def renew(
    lease: Lease,
    current: Lease | None,
    held: HeldLeases,
    terms: Terms,
    *,
    seconds: int | None,
    now: datetime,
) -> Leased:
    """Renew a lease. If ``end_over`` has ended it, it needs a free place, unless its holder has taken another
    lease on the same device, ``current``, which is renewed instead.

    Raises ``NoFreeLease``. Call ``require_leasable`` before.
    """
    if lease.ended_at is None:
        return Leased(_extend(lease, terms, seconds, now), held.count)
    taken = take(replace(lease, renewed_at=now), current, held, terms, seconds)
    return replace(taken, is_new=False, was_lost=True)


def end(lease: Lease, now: datetime, barred_until: datetime | None = None) -> Lease:
    """End a counted lease early: its holder loses it, and gets no other before ``barred_until``."""
    return replace(lease, expires_at=min(lease.expires_at, now), ended_at=now, barred_until=barred_until)


def require_not_barred(barred_until: datetime | None, terms: Terms, now: datetime) -> None:
    """Raise ``LeaseEndedByCustomer`` for a holder who gets no lease before this moment; a moment further
    ahead than twice the terms' longest lease was set by a wrong clock, and is ignored.
    """
    longest = timedelta(seconds=terms.lease_seconds)
    if barred_until is not None and now < barred_until <= now + 2 * longest:
        raise e.LeaseEndedByCustomer(_seconds(barred_until - now))


def release(lease: Lease, count: int) -> int:
    """Return the number of counted leases after this one is deleted."""
    return count if lease.ended_at is not None else count - 1


def renew_at(lease: Lease) -> datetime:
    """Return the moment to renew: halfway to the expiry."""
    return lease.renewed_at + timedelta(seconds=_seconds(lease.expires_at - lease.renewed_at) // 2)


def kept_ended(terms: Terms) -> int:
    """Return how many of the leases that ended without being released are kept, the latest ones."""
    return max(MAX_ENDED, terms.max_leases or MAX_ENDED)


def places(held: int, limit: int | None, *, held_before: int, limit_before: int | None) -> int:
    """Return the most that may be held from now on: the limit, or the number held when it is lowered below
    that; no more than was allowed before.
    """
    return max(limit or 0, min(held, max(held_before, limit_before or 0)))


def device_number(activation: Activation | None, fingerprint: str | None) -> int | None:
    """Return the ID of a lease's device: that of its activation. A device without one gets a negative ID
    derived from its fingerprint, so that the same holder on two such devices has two leases.
    """
    if activation is not None:
        return activation.id
    if fingerprint is None:
        return None
    digest = hashlib.sha256(fingerprint.encode()).digest()
    return -1 - (int.from_bytes(digest[:8], "big") >> 1)


def _require_free(held: HeldLeases, terms: Terms, now: datetime) -> None:
    limit = terms.max_leases or 0
    if held.count >= limit:
        seconds = terms.lease_seconds if held.next_end is None else _seconds(held.next_end - now)
        raise e.NoFreeLease(limit, max(1, seconds))


def _extend(lease: Lease, terms: Terms, seconds: int | None, now: datetime) -> Lease:
    """Renew the lease. Its end never moves back, unless it is further ahead than twice the longest lease: the
    clock was wrong.
    """
    most = timedelta(seconds=terms.lease_seconds)
    life = most if seconds is None else min(timedelta(seconds=seconds), most)
    is_right = lease.expires_at <= now + 2 * most
    expires_at = max(now + life, lease.expires_at) if is_right else now + life
    return replace(lease, renewed_at=now, expires_at=expires_at, ended_at=None, barred_until=None)


def _seconds(duration: timedelta) -> int:
    return int(duration.total_seconds())
