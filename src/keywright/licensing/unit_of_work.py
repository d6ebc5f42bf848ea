"""The licenses and activations of a batch: loaded once, changed in memory by each command, saved once."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Any, get_args

from keywright.core.command import Command
from keywright.core.errors import UnknownLicense, UnknownLicenseId, UnknownToken
from keywright.db.transaction import WriteTransaction
from keywright.events.model import Event
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.activations import records, rules
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.device_work import DeviceWork, RemovalWork
from keywright.licensing.activations.model import (
    ActivateDevice,
    Activation,
    Deactivate,
    DeactivateAll,
    KeepOffline,
    ProgramCommand,
    Reactivate,
    RecordLimits,
    ReleaseActivation,
)
from keywright.licensing.leases.model import LeaseCommand
from keywright.licensing.leases.work import LeaseWork
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import (
    License,
    LicenseCommand,
    Renames,
    find_renames,
    with_former_names,
)
from keywright.licensing.licenses.rules import count_places, terms_of
from keywright.licensing.moments import REPLACES_UNSEEN
from keywright.licensing.removals import RemoveByCustomer
from keywright.licensing.store import mark
from keywright.licensing.undo import store as undo_store
from keywright.licensing.undo.rules import Deleted
from keywright.licensing.updates.rules import ends_tokens
from keywright.licensing.updates.store import end_tokens
from keywright.licensing.usage.model import ClosePeriods, MeterUsage, RecordUsage
from keywright.licensing.usage.work import UsageWork
from keywright.licensing.views_store import Names

#: Commands about some of a license's existing activations.
_ABOUT_SOME = (Reactivate, Deactivate, DeactivateAll, KeepOffline)
OnRestored = Callable[["LicenseWork", Any, License], None]
#: ``isinstance`` is faster with a tuple than with a union.
_ABOUT_LEASES = get_args(LeaseCommand)


class LicenseWork(UnitOfWork):
    """The licenses and activations that a batch of commands touches.

    Changes are found by comparing each license and activation with what was loaded.
    """

    def __init__(
        self,
        tx: WriteTransaction,
        commands: Iterable[Command],
        limits: RecordLimits,
        names: Names | None = None,
        on_restored: OnRestored = lambda *_: None,
    ) -> None:
        """Lock and load what these commands touch, with one query per table. ``on_restored`` is called with
        this, the command and the license that it restored.
        """
        super().__init__(tx)
        self.limits = limits
        self._on_restored = on_restored
        self.leases = LeaseWork(tx)
        self.usage = UsageWork(tx)
        self.removals = RemovalWork(tx)
        #: Licenses by ID: as they are now, and as they were loaded.
        self._licenses: dict[int, License] = {}
        self._loaded: dict[int, License] = {}
        self._ids: dict[str, int] = {}
        #: By ID and key: licenses that got and lost the key in this batch, as before and after the loss.
        self._replaced_keys: dict[tuple[int, str], tuple[License, License]] = {}
        #: By license and token: activations as they are now, and as they are in the database.
        self._activations: dict[int, dict[str, Activation]] = {}
        self._stored: dict[tuple[int, str], Activation] = {}
        #: By ID, in their last state.
        self._deleted: dict[int, Deleted] = {}
        #: New licenses by the hash of their order line.
        self.order_lines: dict[bytes, int] = {}
        #: Imported licenses, which may have more places taken than their limit.
        self._imported: set[int] = set()
        #: Licenses whose places were all given up, and when.
        self._emptied: dict[int, datetime] = {}
        #: The database's clock, if there are leases or usage to decide.
        self._clock: datetime | None = None
        self.devices = DeviceWork(tx, names)
        self._load([part for one in commands for part in one.parts])

    def _load(self, commands: Sequence[Command]) -> None:
        names = {name for one in commands for name in one.locks}
        if not names:
            return
        for license in license_store.lock_licenses(self.tx, names):
            self._licenses[license.id] = self._loaded[license.id] = license
            self._ids[license.key] = license.id
        renames = find_renames(commands)
        about_some = [one for one in commands if isinstance(one, _ABOUT_SOME)]
        if about_some:
            self._load_activations(about_some, renames)
        released = [one for one in commands if isinstance(one, ReleaseActivation)]
        if released:
            numbers = {(id, one.activation_id) for one in released for id in self._possible_ids(one, renames)}
            self._remember(activation_store.find_by_id(self.tx, numbers))
        chosen = [one for one in commands if isinstance(one, ActivateDevice) and one.remove is not None]
        if removing := [*chosen, *(one for one in commands if isinstance(one, RemoveByCustomer))]:
            self.removals.load({id for one in removing for id in self._possible_ids(one, renames)})
        of_programs = [one for one in commands if isinstance(one, ProgramCommand)]
        if of_programs:
            named = [(one, self._possible_ids(one, renames)) for one in of_programs]
            self._remember(self.devices.load(named, self._licenses))
        self._load_leases(commands, renames)

    def _load_leases(self, commands: Sequence[Command], renames: Renames) -> None:
        """Load leases and usage; the devices' activations must be loaded."""
        leasing = [one for one in commands if isinstance(one, _ABOUT_LEASES)]
        counting = [one for one in commands if type(one) is RecordUsage]
        closing = [one for one in commands if type(one) is ClosePeriods]
        if leasing or counting or closing:
            named = [(one, self._possible_ids(one, renames)) for one in leasing]
            clock = self.tx.read_clock()
            self._clock = clock and clock.replace(microsecond=0)
            moments = {self.now(one) for one in (*leasing, *counting, *closing)}
            self.leases.load(named, self._activations, max(moments))
            meters = {(number, one.meter) for one in counting for number in self._possible_ids(one, renames)}
            self.usage.load(meters, moments)
            if closing:
                self.usage.load_licenses({number for one in closing for number in one.license_ids})

    def _load_activations(
        self, commands: Sequence[Reactivate | Deactivate | DeactivateAll | KeepOffline], renames: Renames
    ) -> None:
        tokens, emptied = set[tuple[int, str]](), set[int]()
        for one in commands:
            ids = self._possible_ids(one, renames)
            if isinstance(one, DeactivateAll):
                emptied |= ids
            else:
                tokens |= {(license_id, one.token) for license_id in ids}
        if tokens:
            self._remember(activation_store.find_activations(self.tx, tokens))
        if emptied:
            licenses = [self._licenses[one] for one in emptied]
            for some in records.list_some_active(self.tx, licenses, self.limits.listed).values():
                self._remember(some)

    def _possible_ids(self, command: Command, renames: Renames) -> Set[int]:
        """Return the loaded licenses that a command may name, also after renames in the batch."""
        names = with_former_names(command.locks, renames) if renames else command.locks
        ids = {name if isinstance(name, int) else self._ids.get(name, 0) for name in names}
        return ids & self._licenses.keys()

    def _remember(self, loaded: Iterable[Activation]) -> None:
        for one in loaded:
            self._stored[one.license_id, one.token] = one
            self._activations.setdefault(one.license_id, {})[one.token] = one

    # --- what handlers read and change ------------------------------------------------------------

    def now(self, command: Command) -> datetime:
        """Return the moment at which a command about leases or usage is decided: by the database's clock, if
        there may be several servers.
        """
        return self._clock or command.context.now

    def get_license(self, command: LicenseCommand) -> License:
        """Return the license that the command names. Raises ``UnknownLicense`` or ``UnknownLicenseId``, and
        what its precondition raises.
        """
        name = command.license
        license = self.find_license(name)
        only = command.only_product_id
        if license is None or (only is not None and license.product_id != only):
            raise UnknownLicenseId(str(name)) if isinstance(name, int) else UnknownLicense(name)
        if command.precondition is not None:
            command.precondition(license)
        return license

    def find_license(self, name: str | int) -> License | None:
        """Return the license with this key or ID; only for names that a command of the batch locks."""
        return self._licenses.get(self._ids.get(name, 0) if isinstance(name, str) else name)

    def has_license(self, key: str) -> bool:
        """Whether a license has this key now; only for new keys, and those that a command locks."""
        return key in self._ids

    def get_activation(self, license: License, token: str) -> Activation:
        """Return the license's activation with this token. Raises ``UnknownToken``."""
        found = self._activations.get(license.id, {}).get(token)
        if found is None:
            raise UnknownToken(token)
        return found

    def load_activations(self, tokens: Iterable[tuple[int, str]]) -> None:
        """Load the activations with these licenses and tokens; for an import, which names very many."""
        self._remember(activation_store.find_activations(self.tx, tokens))

    def add_activations(self, found: Iterable[Activation]) -> None:
        """Add activations that were read from the database, unless they are already loaded."""
        self._remember(one for one in found if one.token not in self._activations.get(one.license_id, {}))

    def known_activations(self, license: License) -> Mapping[str, Activation]:
        """Return the license's loaded activations, by token."""
        return self._activations.get(license.id, {})

    def is_emptied(self, license: License) -> bool:
        """Whether this batch gives up all places of the license, and records in the database are outdated."""
        return license.id in self._emptied

    def list_active(self, license: License) -> list[Activation]:
        """Return the license's loaded active activations, oldest first: those that a command of this batch
        named or made, and as many as an answer lists; only for a license that a command empties.
        """
        known = self._activations.get(license.id, {}).values()
        return sorted((one for one in known if one.deactivated_at is None), key=rules.by_age)

    def set_license(self, license: License, now: datetime | None = None) -> None:
        """Store a new or changed license; it changed at ``now``, by default at its ``updated_at``."""
        before = self._licenses.get(license.id)
        if before is not None and before.terms != license.terms:
            self._mark_unseen(before, license, now or license.updated_at)
        if before is not None and before.key != license.key:
            # Renamed licenses are saved in the order of their renames: one may take the key of another.
            del self._ids[before.key], self._licenses[license.id]
            if before is not self._loaded.get(license.id):
                # This batch assigned the key and replaces it again: the loaded license does not have it.
                self._replaced_keys[license.id, before.key] = (before, license)
        self._licenses[license.id] = license
        self._ids[license.key] = license.id

    def _mark_unseen(self, before: License, after: License, now: datetime) -> None:
        """Record since when unseen devices are replaced, if the terms begin to require it or change it."""
        old, new = terms_of(before), terms_of(after)
        is_changed = (old.when_full, old.unseen_days) != (new.when_full, new.unseen_days)
        if new.unseen_days is not None and is_changed:
            mark(self.tx, after.id, REPLACES_UNSEEN, new.unseen_days, now, again_after=timedelta())

    def restore(self, license: License, command: Command) -> License:
        """Add a deleted license that was restored in the database; returns it as it is now."""
        self._loaded[license.id] = license
        self.set_license(license)
        self._on_restored(self, command, license)
        return self._licenses[license.id]

    def set_imported(self, license: License, now: datetime) -> None:
        """Store an imported license: more places may be taken than its limit allows."""
        self._imported.add(license.id)
        self.set_license(license, now)

    def delete_license(self, license: License, now: datetime) -> None:
        """Delete a license, with its activations."""
        del self._licenses[license.id], self._ids[license.key]
        known = self._activations.pop(license.id, {})
        self.leases.delete_license(license.id)
        self._deleted[license.id] = Deleted(license, known, self._emptied.get(license.id), now)

    def set_activation(self, activation: Activation) -> None:
        """Store a new or changed activation."""
        self._activations.setdefault(activation.license_id, {})[activation.token] = activation

    def deactivate_all(self, license: License, ended: Iterable[Activation], now: datetime) -> None:
        """Store a license whose places are all given up, and its loaded activations that this ends."""
        self._emptied.setdefault(license.id, now)
        self._licenses[license.id] = license
        for one in ended:
            self.set_activation(one)
            if (one.license_id, one.token) in self._stored:
                # One statement ends all of them in the database.
                self._stored[one.license_id, one.token] = one

    def record_license_event(
        self,
        name: str,
        license: License,
        command: Command,
        activation: Activation | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Record an event about a license; an event about a device names it, and contains the number of
        places taken after it.
        """
        activation_id = None
        if activation is not None:
            activation_id = activation.id
            counted = count_places(license) | records.describe_device(activation)
            details = counted if details is None else counted | dict(details)
        self.record_event(name, command, details, license_id=license.id, activation_id=activation_id)

    def record_closed(self, closed: Iterable[MeterUsage], now: datetime) -> None:
        """Record an event for each of these closed periods, with the server as the actor."""
        name, actor = "usage.period_closed", "keywright"
        self.events += [Event(now, name, one.license_id, None, actor, "", one.to_details()) for one in closed]

    # --- saving -----------------------------------------------------------------------------------

    def save(self) -> None:
        """Write all changes, with one statement per kind of change.

        The order matters, as the database checks constraints after each statement: deleting or renaming a
        license frees its key for a new license of the batch; a license exists before its activations; and all
        places of a license are given up before single ones are taken again.
        """
        tx = self.tx
        self._delete_licenses()
        changed = self._save_licenses()
        self._end_meters(changed)
        self._end_update_tokens(changed)
        for license_id, now in self._emptied.items():
            if license_id in self._licenses and license_id in self._loaded:
                activation_store.deactivate_all(tx, license_id, now)
        self._save_activations()
        self._prune()
        self.leases.save(self._licenses, changed)
        self.usage.save()
        self.devices.save(self._deleted.keys())
        self.removals.save(self._deleted.keys())
        super().save()
        tx.ids.save()

    def _delete_licenses(self) -> None:
        if not self._deleted:
            return
        self.usage.load_licenses(self._deleted.keys())
        for one in self._deleted.values():
            is_kept = self.limits.keeps_deleted and undo_store.is_kept(one.license)
            self.usage.detach(one.license, ends_at=None if is_kept else one.deleted_at)
        deleted = [one for one in self._deleted if one in self._loaded]
        if deleted:
            if self.limits.keeps_deleted:
                undo_store.keep_snapshots(self.tx, [self._deleted[one] for one in deleted])
            activation_store.delete_licenses(self.tx, deleted)

    def _end_update_tokens(self, changed: Iterable[tuple[License, License]]) -> None:
        """End the update tokens of licenses that were deleted or disabled, or got a new key."""
        ended = [after.id for before, after in changed if ends_tokens(before, after)]
        if ended or self._deleted:
            end_tokens(self.tx, [*ended, *self._deleted])

    def _end_meters(self, changed: Iterable[tuple[License, License]]) -> None:
        """Close the periods of meters that were removed or got another period."""
        for before, after in changed:
            if before.terms != after.terms and before.terms is not None:
                clock = self._clock or self.tx.read_clock()
                now = after.updated_at if clock is None else clock.replace(microsecond=0)
                self.record_closed(self.usage.end_meters(before, after, now), after.updated_at)

    def _save_licenses(self) -> list[tuple[License, License]]:
        """Save licenses; returns the changed ones, as they were loaded and as they are now."""
        new, changed = [], []
        for license_id, license in self._licenses.items():
            before = self._loaded.get(license_id)
            if before is None:
                new.append(license)
            elif license is not before:
                changed.append((before, license))
        if changed:
            license_store.save_licenses(self.tx, changed, imported=self._imported)
        if new:
            license_store.save_new_licenses(self.tx, new, imported=self._imported)
        if replaced := [one for one in self._replaced_keys.values() if one[1].id in self._licenses]:
            license_store.save_rotated_keys(self.tx, replaced)
        return changed

    def _save_activations(self) -> None:
        new, changed = [], []
        for some in self._activations.values():
            for one in some.values():
                before = self._stored.get((one.license_id, one.token))
                if before is None:
                    new.append(one)
                elif one is not before:
                    changed.append((before, one))
        # In this order: a new record may have the former fingerprint of another.
        if changed:
            activation_store.save_activations(self.tx, changed)
        if new:
            activation_store.save_new_activations(self.tx, new)

    def _prune(self) -> None:
        """Delete surplus records of licenses that have more records given up than before."""
        grown = []
        for license_id, license in self._licenses.items():
            if license.deactivated_count:
                before = self._loaded.get(license_id)
                if before is None or license.deactivated_count > before.deactivated_count:
                    grown.append(license)
        if grown:
            records.prune(self.tx, grown, self.limits.kept)
