"""Rules of a license. Pure: they take what is known, and return the new state or raise a refusal."""

from calendar import monthrange
from collections.abc import Mapping
from datetime import MAXYEAR, UTC, datetime, timedelta, tzinfo
from typing import Any

from keywright.core import errors as e
from keywright.core.parsing import MAX_COUNT
from keywright.licensing.licenses.model import License, State, Status
from keywright.licensing.terms import rules as terms_rules
from keywright.licensing.terms.model import AfterExpiry, DeviceRule, Starts, Terms

#: The last moment that the wire format can express with its four-digit year.
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

#: The life of a signed answer that cannot be kept: a refusal, or any answer if the terms require that.
CHECK_SECONDS = 300

#: The ID of no product: represents a product code that is unknown.
NO_PRODUCT = -1


def is_expired(license: License, now: datetime) -> bool:
    """A license is good up to, not including, its ``expires_at``."""
    return license.expires_at is not None and now >= license.expires_at


def terms_of(license: License) -> Terms:
    """Return the license's terms; cheap, as they are cached by their text."""
    return terms_rules.parse_terms(license.terms, license.times_activated_max, license.valid_for_days)


def grace_until(license: License) -> datetime | None:
    """Return the end of the days of grace; None for a license that never expires."""
    expires_at = license.expires_at
    return None if expires_at is None else expiry_after(expires_at, terms_of(license).grace_days)


def is_covered(license: License, built_at: datetime | None) -> bool:
    """Whether this build was made before the license expired."""
    return license.expires_at is None or (built_at is not None and built_at < license.expires_at)


def valid_until(license: License, terms: Terms, built_at: datetime | None = None) -> datetime | None:
    """Return the moment from which the terms refuse the license to this build; None for never.

    Days of grace count if the terms refuse expired licenses; with ``older_versions``, builds that are not
    covered are refused from the expiry on.
    """
    expires_at = license.expires_at
    if expires_at is None or terms.after_expiry is AfterExpiry.ALLOW:
        return None
    if terms.after_expiry is AfterExpiry.OLDER_VERSIONS:
        return None if is_covered(license, built_at) else expires_at
    return expiry_after(expires_at, terms.grace_days)


def signed_until(
    license: License,
    now: datetime,
    *,
    days: int | None = None,
    built_at: datetime | None = None,
    lease_ends_at: datetime | None = None,
    is_file: bool = False,
    ends_at: datetime | None = None,
) -> datetime:
    """Return the moment from which a signed positive answer is invalid. ``days`` is the requested life; None
    means the longest that the terms allow. A license file (``is_file``) is kept without a lease. ``ends_at``
    is an end that the vendor chose, instead of the days.
    """
    terms = terms_of(license)
    days = terms.offline_days if days is None else min(days, terms.offline_days)
    check = now + timedelta(seconds=CHECK_SECONDS)
    ends = [ends_at or (expiry_after(now, days) if days else check)]
    until = valid_until(license, terms, built_at)
    if until is not None:
        ends.append(until)
    if lease_ends_at is not None:
        ends.append(lease_ends_at)
    elif terms.max_leases is not None and not is_file:
        # Answers about a floating license are kept only with a lease.
        ends.append(check)
    return min(ends)


def state(license: License, now: datetime) -> State:
    """Return the state of the license; the status takes precedence over the expiry."""
    if license.status == Status.DISABLED:
        return State.DISABLED
    if license.status == Status.INACTIVE:
        return State.INACTIVE
    if not is_expired(license, now):
        return State.VALID
    terms = terms_of(license)
    until = valid_until(license, terms)
    if until is None:
        return State.VALID
    return State.GRACE if now < until else State.EXPIRED


def require_usable(license: License, now: datetime) -> None:
    """Raise what ``require_in_force`` raises, and ``LicenseInactive`` if the terms require a device or a
    lease: for activations over v2, which knows neither.
    """
    require_in_force(license, now)
    # Most licenses of v2 have no terms; this runs for every activation.
    if license.terms is not None:
        require_no_device(license)


def require_in_force(license: License, now: datetime) -> None:
    """Raise ``LicenseExpired``, ``LicenseInactive`` or ``LicenseDisabled``, checked in this order: for v2,
    which knows no builds.
    """
    expires_at = license.expires_at
    if expires_at is not None and now >= expires_at:
        until = valid_until(license, terms_of(license))
        if until is not None and now >= until:
            raise e.LicenseExpired(expires_at)
    if license.status == Status.INACTIVE:
        raise e.LicenseInactive(license.key)
    if license.status == Status.DISABLED:
        raise e.LicenseDisabled(license.key)


def require_no_device(license: License) -> None:
    """Raise ``LicenseInactive`` if the terms require a device, or bound the use by leases alone: for
    activations over v2.
    """
    terms = terms_of(license)
    if terms.device is DeviceRule.REQUIRED or is_bounded_by_leases(terms):
        raise e.LicenseInactive(license.key)


def is_bounded_by_leases(terms: Terms) -> bool:
    """Whether leases alone bound the use of a license."""
    return terms.max_leases is not None and terms.max_activations is None


def allows_files(terms: Terms) -> bool:
    """Whether these terms permit license files: a device with a file holds no lease."""
    return terms.offline_days > 0 and not is_bounded_by_leases(terms)


def require_activatable(license: License, terms: Terms, now: datetime, built_at: datetime | None) -> None:
    """Raise ``LicenseDisabled``, ``LicenseInactive``, ``LicenseExpired``, or ``VersionNotCovered`` if the
    terms cover only builds older than this one.
    """
    if license.status == Status.DISABLED:
        raise e.LicenseDisabled(license.key)
    if license.status == Status.INACTIVE:
        raise e.LicenseInactive(license.key)
    until = valid_until(license, terms, built_at)
    if license.expires_at is not None and until is not None and now >= until:
        covers_others = terms.after_expiry is AfterExpiry.OLDER_VERSIONS
        raise (e.VersionNotCovered if covers_others else e.LicenseExpired)(license.expires_at)


def is_other_product(license: License, product_id: int | None) -> bool:
    """Whether the program named another product than the license's. None: it named no product;
    ``NO_PRODUCT``: its code is unknown.
    """
    return product_id is not None and product_id != license.product_id


def require_free_place(license: License) -> None:
    """Raise ``LimitReached`` when every place is taken."""
    limit = license.times_activated_max
    if limit is not None and license.times_activated >= limit:
        raise e.LimitReached(license.key, limit, license.times_activated)


def is_over_limit(license: License) -> bool:
    """Whether more places are taken than the limit allows, as after it was lowered or after an import."""
    limit = license.times_activated_max
    return limit is not None and license.times_activated > limit


def remaining_activations(license: License) -> int | None:
    """Return the free places, or None without a limit; negative if more are taken than the limit allows."""
    limit = license.times_activated_max
    return None if limit is None else limit - license.times_activated


def count_places(license: License) -> dict[str, int]:
    """Return the activation count and, if there is one, the limit, for the details of events."""
    count, limit = license.times_activated, license.times_activated_max
    counted = {"activation_count": count}
    return counted if limit is None else counted | {"max_activations": limit}


def expiry_after(now: datetime, days: int) -> datetime:
    """Return ``now`` plus this many days, but no later than the end of time."""
    if not days:
        return now
    return END_OF_TIME if days > (END_OF_TIME - now).days else now + timedelta(days=days)


def add_months(moment: datetime, months: int) -> datetime:
    """Move a moment by this many months, to the last day of a month that is too short. Years outside the
    calendar become its first or last year.
    """
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    year = min(max(year, 1), MAXYEAR)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def extended(
    license: License,
    now: datetime,
    *,
    days: int = 0,
    months: int = 0,
    zone: tzinfo = UTC,
    is_from_now: bool = False,
    is_from_later: bool = False,
) -> datetime:
    """Return the expiry after an extension, with the options of ``ExtendLicense``. Months are those of the
    time zone: an expiry at the end of a day stays at the end of a day.
    """
    begin = license.expires_at
    if begin is None or is_from_now or (is_from_later and now > begin):
        begin = now
    until = expiry_after(begin, days)
    if not months:
        return until
    if 12 * until.year + until.month + months >= 12 * MAXYEAR:
        return END_OF_TIME
    return add_months(until.astimezone(zone), months).astimezone(UTC)


def require_later(license: License, expires_at: datetime, field: str = "days") -> datetime:
    """Return the new expiry. Raises ``NeverExpires``, or ``ExpiresLater`` (naming this field) unless it is
    later than the license's.
    """
    if license.expires_at is None:
        raise e.NeverExpires(license.key)
    if expires_at <= license.expires_at:
        raise e.ExpiresLater(license.key, field)
    return expires_at


def is_renewed(before: License, after: License) -> bool:
    """Whether the license had an expiry and got a later one."""
    return (
        before.expires_at is not None
        and after.expires_at is not None
        and after.expires_at > before.expires_at
    )


def raised_limit(license: License, places: int) -> int:
    """Return the limit with this many more places. Raises ``NoLimit``, ``InvalidParameters``."""
    if license.times_activated_max is None:
        raise e.NoLimit(license.key)
    limit = license.times_activated_max + places
    if limit > MAX_COUNT:
        raise e.InvalidParameters({"places": f"the limit would be over {MAX_COUNT}"})
    return limit


def expiry_of_new(terms: Terms, now: datetime) -> datetime | None:
    """The expiry of a license made now; None for never, and if its days start with the first activation."""
    if terms.valid_for_days is None or terms.starts is Starts.FIRST_ACTIVATION:
        return None
    return expiry_after(now, terms.valid_for_days)


def apply_members(
    license: License, members: Mapping[str, Any], *, is_forced: bool = False
) -> terms_rules.Written:
    """Let a rule set these members of a policy's terms, for the license's quantity. Raises ``InvalidTerms``
    beyond the highest limits.
    """
    wanted = multiply_members(members, license.quantity)
    return terms_rules.write_by_rule(terms_of(license), license.rule_terms, wanted, is_forced=is_forced)


def multiply_members(members: Mapping[str, Any], quantity: int) -> dict[str, Any]:
    """Multiply the limits among these members of terms by a quantity. Raises as ``apply_members``."""
    limits = terms_rules.copy_terms(
        Terms(), {name: one for name, one in members.items() if name in terms_rules.LIMITS}
    )
    for_all = terms_rules.select_terms(terms_rules.multiply_terms(limits, quantity), terms_rules.LIMITS)
    return {name: for_all.get(name, one) for name, one in members.items()}


def expiry_of_applied(license: License, terms: Terms) -> datetime | None:
    """Return the license's expiry under other terms: an existing one stays. Days from the creation set one if
    the license has none.
    """
    return license.expires_at or expiry_of_new(terms, license.created_at)


def expiry_of_activated(license: License, now: datetime) -> datetime | None:
    """Return the license's expiry after a place is taken now: the first place starts the license's days, if
    its terms count from there.
    """
    days = license.valid_for_days
    if license.expires_at is not None or days is None:
        return license.expires_at
    return expiry_after(now, days) if terms_of(license).starts is Starts.FIRST_ACTIVATION else None
