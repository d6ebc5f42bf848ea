"""The meters that a batch of commands uses: loaded once, counted in memory, saved once."""

from collections.abc import Collection, Iterable
from datetime import datetime

from msgspec.structs import replace

from keywright.db.transaction import WriteTransaction
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.terms.model import Meter
from keywright.licensing.usage import rules, store
from keywright.licensing.usage.model import MeterUsage
from keywright.licensing.usage.store import MeterName, PeriodName


class UsageWork:
    """The usage of the meters of a batch. Its licenses are locked."""

    def __init__(self, tx: WriteTransaction) -> None:
        self._tx = tx
        #: In the newest period of each meter: as it is now, and as it was loaded.
        self._usage: dict[MeterName, MeterUsage] = {}
        self._stored: dict[MeterName, MeterUsage] = {}
        #: In earlier periods that are not closed: as it is now, and as it was loaded.
        self._past: dict[PeriodName, MeterUsage] = {}
        self._stored_past: dict[PeriodName, MeterUsage] = {}
        #: The end of the last of these earlier periods.
        self._ends: dict[MeterName, datetime] = {}

    def load(self, meters: Iterable[MeterName], moments: Collection[datetime]) -> None:
        """Load the usage of these meters, which is counted at these moments."""
        # No database can store NUL, so no meter has such a name.
        possible = {one for one in meters if "\0" not in one[1]}
        if not possible:
            return
        found = store.find_usage(self._tx, possible)
        self._usage |= found
        self._stored |= found
        if edge := [one for one in possible if not _is_within(found.get(one), moments)]:
            self._remember_past(store.find_past(self._tx, edge))
            self._ends |= store.find_ends(self._tx, edge)

    def load_licenses(self, license_ids: Collection[int]) -> None:
        """Load the usage of all meters of these licenses, except what is already loaded."""
        for one in (one for some in store.list_usage(self._tx, license_ids).values() for one in some):
            self._stored.setdefault((one.license_id, one.meter), one)
            self._usage.setdefault((one.license_id, one.meter), one)
        self._remember_past(store.list_past(self._tx, license_ids))

    def _remember_past(self, found: Iterable[MeterUsage]) -> None:
        for one in found:
            self._stored_past.setdefault(_name_of(one), one)
            self._past.setdefault(_name_of(one), one)

    def find_period(self, license: License, name: str, meter: Meter, now: datetime) -> MeterUsage:
        """Return the usage of a meter, of a license that is new or was loaded, in the period that ``now`` is
        in, or if that is closed, in the one after it.
        """
        key = license.id, name
        newest = self._usage.get(key)
        if newest is not None:
            newest = self._usage[key] = rules.complete(newest, meter)
        known = [one for one in self._past.values() if (one.license_id, one.meter) == key]
        ended_at = self._ends.get(key)
        moment = now if ended_at is None else max(now, ended_at)
        for one in (one for at in (now, moment) for one in (newest, *known) if one and rules.is_in(one, at)):
            return one
        return rules.begin(license, name, meter.per, moment, ended_at)

    def set_usage(self, usage: MeterUsage) -> None:
        """Store the new usage of a meter. That of the previous period is kept; if a clock was ahead, the
        newest period remains the newest.
        """
        key = usage.license_id, usage.meter
        newest = self._usage.get(key, usage)
        if usage.period_start < newest.period_start or _name_of(usage) in self._past:
            self._past[_name_of(usage)] = usage
            return
        if usage.period_start > newest.period_start:
            self._past[_name_of(newest)] = newest
            self._ends[key] = newest.period_end
        self._usage[key] = usage

    def close_over(self, license_id: int, license: License | None, now: datetime) -> list[MeterUsage]:
        """Close the periods of a license, whose usage is loaded, that ended long enough ago."""
        meters, closed = {} if license is None else terms_of(license).meters, []
        for one in self._list_open(license_id):
            meter = meters.get(one.meter)
            known = one if meter is None else rules.complete(one, meter)
            if known.period_end <= now - rules.CLOSES_AFTER:
                closed.append(rules.close(rules.detach(known, license, meter), known.period_end, now))
                self._replace(one, closed[-1])
            elif known is not one:
                self.set_usage(known)
        return closed

    def end_meters(self, before: License, after: License, now: datetime) -> list[MeterUsage]:
        """Close the periods of meters that were removed or got another period."""
        terms = terms_of(before)
        ended = rules.ended_meters(terms, terms_of(after))
        if not ended:
            return []
        self.load_licenses([after.id])
        closed = []
        for one in [one for one in self._list_open(after.id) if one.meter in ended]:
            meter = terms.meters[one.meter]
            detached = rules.detach(rules.complete(one, meter), after, meter)
            closed.append(rules.close(detached, min(detached.period_end, now), now))
            self._replace(one, closed[-1])
        return closed

    def detach(self, license: License, *, ends_at: datetime | None) -> None:
        """Keep the usage of a deleted license, which is loaded, until its periods are closed. A period
        without an end ends at ``ends_at``; with None, it waits for the license to be restored.
        """
        meters = terms_of(license).meters
        for one in self._list_open(license.id):
            meter = meters.get(one.meter)
            detached = rules.detach(one if meter is None else rules.complete(one, meter), license, meter)
            is_over = ends_at is not None and rules.resets_at(detached) is None
            self._replace(one, replace(detached, period_end=ends_at) if is_over else detached)

    def _list_open(self, license_id: int) -> list[MeterUsage]:
        known = (*self._usage.values(), *self._past.values())
        return [one for one in known if one.license_id == license_id and one.closed_at is None]

    def _replace(self, one: MeterUsage, past: MeterUsage) -> None:
        """Replace the usage of a period in which nothing more is counted."""
        key = one.license_id, one.meter
        if self._usage.get(key) is one:
            del self._usage[key]
        self._past[_name_of(past)] = past

    def has_any(self, license_id: int) -> bool:
        """Whether any meter of the license was used."""
        return any(one[0] == license_id for one in self._usage) or store.has_any(self._tx, license_id)

    def save(self) -> None:
        """Write the changes."""
        if not self._usage and not self._stored and not self._past:
            return
        tx, stored = self._tx, self._stored
        changed = {key: one for key, one in self._usage.items() if one != stored.get(key)}
        store.save_new_usage(tx, [one for key, one in changed.items() if key not in stored])
        store.save_usage(tx, [one for key, one in changed.items() if key in stored])
        store.delete_usage(tx, [key for key in stored if key not in self._usage])
        past = {name: one for name, one in self._past.items() if one != self._stored_past.get(name)}
        store.save_new_past(tx, [one for name, one in past.items() if name not in self._stored_past])
        store.save_past(tx, [one for name, one in past.items() if name in self._stored_past])


def _is_within(usage: MeterUsage | None, moments: Collection[datetime]) -> bool:
    """Whether all of these moments are in the period."""
    return usage is not None and all(rules.is_in(usage, one) for one in moments)


def _name_of(one: MeterUsage) -> PeriodName:
    return one.license_id, one.meter, one.period_start
