"""The leases that a batch of commands touches: loaded once, changed in memory, saved once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime

from msgspec.structs import replace

from keywright.db.transaction import WriteTransaction
from keywright.licensing.activations.devices import find_own
from keywright.licensing.activations.model import Activation
from keywright.licensing.leases import rules, store
from keywright.licensing.leases.model import HeldLeases, Lease, LeaseCommand, LeaseCounter, Leased, TakeLease
from keywright.licensing.leases.store import Holding
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.terms.model import Terms

#: A license and the ID of a lease.
_Name = tuple[int, str]
#: Each command, and the IDs of the licenses that it may name.
_Named = Sequence[tuple[LeaseCommand, Set[int]]]


class LeaseWork:
    """The leases of a batch and their counters. Licenses are locked before their leases are loaded."""

    def __init__(self, tx: WriteTransaction) -> None:
        self._tx = tx
        #: The leases as they are now, by license and ID (None once released); and as they are in the
        #: database.
        self._leases: dict[int, dict[str, Lease | None]] = {}
        self._stored: dict[_Name, Lease] = {}
        #: The numbers of counted leases as they are now, and the counters as they are in the database.
        self._counts: dict[int, int] = {}
        self._counters: dict[int, LeaseCounter] = {}
        #: The leases that may be over for a command of the batch, by license.
        self._maybe_over: dict[int, list[str]] = {}
        #: The counted lease of each holder that was looked up.
        self._ids: dict[Holding, str | None] = {}
        #: By license, the leases that end first, as they are in the database.
        self._next_ends: dict[int, list[Lease]] = {}
        #: The licenses that have leases which ended without being released.
        self._pruned: set[int] = set()
        #: The number of commands.
        self._size = 0

    def load(
        self, named: _Named, activations: Mapping[int, Mapping[str, Activation]], latest: datetime
    ) -> None:
        """Load what these commands need, which are decided at this moment or earlier. ``activations`` has
        those of the devices that they name, by license and token.
        """
        if not named:
            return
        self._size = len(named)
        self._counters = store.find_counters(self._tx, {number for _, ids in named for number in ids})
        # A license without a counter has no leases.
        named = [(one, ids & self._counters.keys()) for one, ids in named]
        counted = {number for _, ids in named for number in ids}
        if not counted:
            return
        for lease in store.list_over(self._tx, counted, latest):
            self._remember(lease)
            self._maybe_over.setdefault(lease.license_id, []).append(lease.lease_id)
        names = {(i, one.lease_id) for one, ids in named if not isinstance(one, TakeLease) for i in ids}
        for lease in store.find_leases(self._tx, names) if names else ():
            self._remember(lease)
        takes = [(one, i) for one, ids in named if isinstance(one, TakeLease) for i in ids]
        if takes:
            self._load_holders({_holding(one, i, activations.get(i, {})) for one, i in takes})

    def _load_holders(self, holdings: Set[Holding]) -> None:
        """Load the counted leases of these holders."""
        self._ids |= dict.fromkeys(holdings - self._ids.keys())
        for one in store.find_held_by(self._tx, holdings):
            self._remember(one)
            self._ids[_holding_of(one)] = one.lease_id

    def _remember(self, lease: Lease) -> None:
        if (lease.license_id, lease.lease_id) not in self._stored:
            self._stored[lease.license_id, lease.lease_id] = lease
            self._leases.setdefault(lease.license_id, {})[lease.lease_id] = lease

    # --- what handlers read and change ------------------------------------------------------------

    def find_lease(self, license: License, lease_id: str) -> Lease | None:
        """Return a lease that a command of the batch names."""
        return self._leases.get(license.id, {}).get(lease_id)

    def find_current(self, license: License, activation_id: int | None, holder: str) -> Lease | None:
        """Return the counted lease of a holder on a device."""
        holding = (license.id, activation_id or 0, holder)
        if holding not in self._ids and license.id in self._counters:
            # Needed only if the device's record changed in this batch.
            self._load_holders({holding})
        lease_id = self._ids.get(holding)
        lease = None if lease_id is None else self._leases[license.id][lease_id]
        return lease if lease is not None and lease.ended_at is None else None

    def find_barred_until(self, new: Lease) -> datetime | None:
        """Return until when the holder of a new lease gets none, because the customer ended one."""
        counter = self._counters.get(new.license_id)
        if counter is None or counter.barred_until is None or counter.barred_until <= new.created_at:
            return None
        return store.find_barred_until(self._tx, _holding_of(new))

    def has_any(self, license_id: int) -> bool:
        """Whether the license grants leases, or ever granted one."""
        return license_id in self._counts or bool(store.find_counters(self._tx, [license_id]))

    def count(self, license: License) -> int:
        """Return the number of the license's counted leases."""
        counter = self._counters.get(license.id)
        return self._counts.get(license.id, 0 if counter is None else counter.held)

    def end_over(self, license: License, now: datetime) -> Sequence[Lease]:
        """End the license's leases that are over, and stop counting them; returns them."""
        candidates = self._maybe_over.get(license.id)
        if not candidates:
            return []
        known = self._leases[license.id]
        present = [one for lease_id in candidates if (one := known[lease_id]) is not None]
        ended = rules.end_over(present, now)
        for one in ended:
            self._set(one)
        if ended:
            self._counts[license.id] = self.count(license) - len(ended)
            self._pruned.add(license.id)
            gone = {one.lease_id for one in ended}
            self._maybe_over[license.id] = [one for one in candidates if one not in gone]
        return ended

    def held(self, license: License, terms: Terms, *, is_place_needed: bool) -> HeldLeases:
        """Return the number of the license's counted leases; if a place is needed and none is free, also the
        next end.
        """
        count = self.count(license)
        if not is_place_needed or count < (terms.max_leases or 0):
            return HeldLeases(count)
        return HeldLeases(count, self._find_next_end(license.id))

    def _find_next_end(self, license_id: int) -> datetime | None:
        known = self._leases.get(license_id, {})
        if license_id not in self._next_ends:
            # Each later command of the batch adds at most one of these leases to the known ones.
            most = len(known) + self._size
            self._next_ends[license_id] = store.list_next_ends(self._tx, license_id, most)
        ends = [one.expires_at for one in known.values() if one is not None and one.ended_at is None]
        ends += [one.expires_at for one in self._next_ends[license_id] if one.lease_id not in known]
        return min(ends, default=None)

    def set_leased(self, leased: Leased) -> None:
        """Store a lease that was taken or renewed, and the number of counted leases."""
        self._counts[leased.lease.license_id] = leased.count
        self._set(leased.lease)

    def end(
        self, license: License, lease: Lease, now: datetime, *, barred_until: datetime | None = None
    ) -> None:
        """End a counted lease early; its holder gets no other before ``barred_until``."""
        self._counts[license.id] = self.count(license) - 1
        self._set(rules.end(lease, now, barred_until))
        if barred_until is not None:
            store.save_bar(self._tx, license.id, barred_until)
        self._pruned.add(license.id)

    def release(self, license: License, lease: Lease) -> None:
        """Delete a lease, and stop counting it."""
        self._counts[license.id] = rules.release(lease, self.count(license))
        self._leases[license.id][lease.lease_id] = None
        self._forget_holder(lease)

    def _set(self, lease: Lease) -> None:
        self._leases.setdefault(lease.license_id, {})[lease.lease_id] = lease
        if lease.ended_at is None:
            self._ids[_holding_of(lease)] = lease.lease_id
        else:
            self._forget_holder(lease)

    def _forget_holder(self, lease: Lease) -> None:
        if self._ids.get(_holding_of(lease)) == lease.lease_id:
            self._ids[_holding_of(lease)] = None

    def delete_license(self, license_id: int) -> None:
        """Forget the leases of a license that is deleted."""
        self._leases.pop(license_id, None)
        self._counts.pop(license_id, None)
        self._pruned.discard(license_id)

    # --- saving -----------------------------------------------------------------------------------

    def save(self, licenses: Mapping[int, License], changed: Iterable[tuple[License, License]]) -> None:
        """Write the changes. ``licenses`` are those of the batch as they are now, ``changed`` those whose row
        has changed, each as loaded and as it is now.
        """
        if self._leases:
            self._save_leases()
        limits = {
            after.id: limit
            for before, after in changed
            if before.terms != after.terms
            and (limit := terms_of(before).max_leases) != terms_of(after).max_leases
        }
        if self._counts or limits:
            self._save_counters(licenses, limits)
        if self._pruned:
            kept = {number: rules.kept_ended(terms_of(licenses[number])) for number in self._pruned}
            store.prune(self._tx, kept)

    def _save_leases(self) -> None:
        released = [(number, lease_id) for number, lease_id, one in self._list_known() if one is None]
        if released:
            store.delete_leases(self._tx, released)
        new, changed = [], []
        for license_id, lease_id, one in self._list_known():
            before = self._stored.get((license_id, lease_id))
            if one is not None and before is None:
                new.append(one)
            elif one is not None and before is not None and one is not before:
                changed.append((before, one))
        if changed:
            store.save_leases(self._tx, changed)
        if new:
            store.save_new_leases(self._tx, new)

    def _list_known(self) -> Iterator[tuple[int, str, Lease | None]]:
        for license_id, some in self._leases.items():
            for lease_id, one in some.items():
                yield license_id, lease_id, one

    def _save_counters(self, licenses: Mapping[int, License], limits: Mapping[int, int | None]) -> None:
        """Write the counters. ``limits`` are the former limits of licenses whose limit has changed."""
        if unknown := limits.keys() - self._counters.keys():
            self._counters |= store.find_counters(self._tx, unknown)
        new, changed = [], []
        for number in self._counts.keys() | (limits.keys() & self._counters.keys()):
            license, before = licenses[number], self._counters.get(number)
            limit, held = terms_of(license).max_leases, self.count(license)
            if before is None:
                places = rules.places(held, limit, held_before=0, limit_before=limits.get(number, limit))
                new.append(LeaseCounter(number, held, places))
                continue
            after = replace(before, held=held)
            if number in limits:
                places = rules.places(held, limit, held_before=before.held, limit_before=limits[number])
                after = replace(before, held=held, places=places)
            if after != before:
                changed.append((before, after))
        if new:
            store.save_new_counters(self._tx, new)
        if changed:
            store.save_counters(self._tx, changed)


def _holding_of(lease: Lease) -> Holding:
    return lease.license_id, lease.activation_id or 0, lease.holder


def _holding(command: TakeLease, license_id: int, activations: Mapping[str, Activation]) -> Holding:
    """Return the holder that a command names, on the license with this ID."""
    fingerprint = command.device.fingerprint
    own = find_own(activations.values(), fingerprint, command.token)
    return license_id, rules.device_number(own, fingerprint) or 0, command.holder
