"""The rules of activations. Pure: they take what is known, and return the new state or raise a refusal.

An invariant holds for every sequence of these calls: ``times_activated`` is the number of active records that
take a place, and it never rises above the limit at the time of the decision.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from keywright.core.errors import AlreadyActivated, NothingActive, TokenNotActive
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License

#: Every record given up within this time is kept, up to ``MAX_KEPT_RECORDS``.
KEPT_FOR = timedelta(hours=24)
#: The most records given up that a license keeps.
MAX_KEPT_RECORDS = 10_000
#: The approximate limit of bytes of records in one answer.
MAX_LISTED_BYTES = 1 << 20
#: The approximate size of a record in an answer, without its texts.
_RECORD_BYTES = 350


def activate(license: License, now: datetime) -> License:
    """Take a new place; the caller adds the activation record."""
    license_rules.require_usable(license, now)
    license_rules.require_free_place(license)
    return with_place_taken(license, now)


def reactivate(license: License, activation: Activation, now: datetime) -> tuple[License, Activation]:
    """Take back a place that was given up; it needs a free place like any other."""
    license_rules.require_usable(license, now)
    if activation.deactivated_at is None:
        raise AlreadyActivated(activation.token)
    license_rules.require_free_place(license)
    return take_back(license, activation, now)


def deactivate(license: License, activation: Activation, now: datetime) -> tuple[License, Activation]:
    """Give up one place. Raises ``TokenNotActive``; status and expiry do not matter."""
    if activation.deactivated_at is not None:
        raise TokenNotActive(activation.token)
    counted = int(activation.is_counted)
    return _with_places_given_up(license, counted, 1 - counted, now), _end(activation, now)


def deactivate_all(
    license: License, activations: Iterable[Activation], now: datetime
) -> tuple[License, tuple[Activation, ...]]:
    """Give up every place; returns the given records that this call ended. The license may have more records
    than these: its counters determine how many places it gives up. Raises ``NothingActive``.
    """
    if not license.active_count:
        raise NothingActive(license.key)
    ended = tuple(_end(one, now) for one in activations if one.deactivated_at is None)
    return _with_places_given_up(license, license.times_activated, license.uncounted_count, now), ended


def validate(activations: Iterable[Activation], token: str | None) -> tuple[Activation, ...]:
    """Return the records that a validation reports: all of these, or the active one with this token.

    Raises ``TokenNotActive`` if there is no such record. Status and expiry do not matter.
    """
    if token is None:
        return tuple(activations)
    found = tuple(one for one in activations if one.token == token and one.deactivated_at is None)
    if not found:
        raise TokenNotActive(token)
    return found


def surplus(license: License, kept: int) -> tuple[int, int]:
    """Return how many records that were given up must be deleted, oldest first: how many in any case, and how
    many more if they were given up more than ``KEPT_FOR`` ago.

    A license keeps ``kept`` of them, or twice its limit if that is more; never over ``MAX_KEPT_RECORDS``.
    """
    records = license.deactivated_count
    kept = min(max(kept, 2 * (license.times_activated_max or 0)), MAX_KEPT_RECORDS)
    at_once = max(0, records - MAX_KEPT_RECORDS)
    return at_once, max(0, records - at_once - kept)


def limit_listed(records: Iterable[Activation], most: int, most_bytes: int) -> list[Activation]:
    """Return the records that an answer lists, oldest first: at most ``most``, of about ``most_bytes`` in
    total. Active ones are chosen first, then those given up most recently.
    """
    chosen: list[Activation] = []
    for one in sorted(records, key=_by_interest, reverse=True)[:most]:
        most_bytes -= _size(one)
        if most_bytes < 0:
            break
        chosen.append(one)
    return sorted(chosen, key=by_age)


def take_back(
    license: License, activation: Activation, now: datetime, *, is_counted: bool = True
) -> tuple[License, Activation]:
    """Reactivate a record that was given up; the caller knows that a place is free."""
    kept = max(0, license.deactivated_count - 1)
    return (
        replace(with_place_taken(license, now, is_counted=is_counted), deactivated_count=kept),
        replace(activation, deactivated_at=None, updated_at=now, is_counted=is_counted),
    )


def with_place_taken(license: License, now: datetime, *, is_counted: bool = True) -> License:
    """Count one more active record; the caller knows that a place is free."""
    return replace(
        license,
        times_activated=license.times_activated + is_counted,
        uncounted_count=license.uncounted_count + (not is_counted),
        expires_at=license_rules.expiry_of_activated(license, now),
        updated_at=now,
    )


def _with_places_given_up(license: License, counted: int, uncounted: int, now: datetime) -> License:
    return replace(
        license,
        times_activated=license.times_activated - counted,
        uncounted_count=license.uncounted_count - uncounted,
        deactivated_count=license.deactivated_count + counted + uncounted,
        updated_at=now,
    )


def _end(activation: Activation, now: datetime) -> Activation:
    return replace(activation, deactivated_at=now, updated_at=now)


def by_age(activation: Activation) -> tuple[datetime, int]:
    """Sort key, oldest first; IDs alone are not in order if several servers assign them."""
    return (activation.created_at, activation.id)


def _by_interest(activation: Activation) -> tuple[bool, datetime, int]:
    since = activation.deactivated_at
    return (since is None, since or activation.created_at, activation.id)


def _size(activation: Activation) -> int:
    """Estimate the bytes that the record takes in an answer."""
    texts = [activation.user_agent, activation.label or ""]
    for name, value in (activation.meta_data or {}).items():
        # Over v3, values may be any JSON.
        texts += name, str(value)
    return _RECORD_BYTES + sum(len(text.encode()) for text in texts)
