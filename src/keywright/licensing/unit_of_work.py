"""What a batch works on: loaded once for all its commands, changed in memory by one after the other,
saved once.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from keywright.core.command import Command
from keywright.core.errors import UnknownLicense, UnknownToken
from keywright.db import WriteTransaction
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.licensing.activations import records, rules
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.commands import DeactivateAll
from keywright.licensing.activations.model import Activation, RecordLimits
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.commands import LicenseCommand, UpdateLicense, license_commands
from keywright.licensing.licenses.model import License

_LIMITS = RecordLimits()


class UnitOfWork:
    """The licenses and activations that a batch of commands touches."""

    def __init__(
        self, tx: WriteTransaction, commands: Iterable[Command], limits: RecordLimits = _LIMITS
    ) -> None:
        """Lock and load what these commands touch: one query per table."""
        self.tx = tx
        self.limits = limits
        self._licenses: dict[str, License] = {}
        self._records: dict[int, dict[str, Activation]] = {}
        self._before: dict[int, License] = {}
        self._new_licenses: set[int] = set()
        self._deleted: set[int] = set()
        self._new_activations: set[str] = set()
        self._changed_activations: set[str] = set()
        #: Licenses all of whose places were given up, and when.
        self._emptied: dict[int, datetime] = {}
        self._events: list[Event] = []
        self._load([one for command in commands for one in license_commands(command)])

    def _load(self, commands: list[LicenseCommand]) -> None:
        renames = [one for one in commands if type(one) is UpdateLicense and "key" in one.changes]
        keys = {one.key for one in commands} | {one.changes["key"] for one in renames}
        if not keys:
            return
        self._licenses = license_store.lock_licenses(self.tx, keys)
        self._before = {one.id: one for one in self._licenses.values()}
        bearers = self._bearers(renames)
        tokens, emptied = set(), set()
        for one in commands:
            token = getattr(one, "token", None)
            for license_id in bearers.get(one.key, ()):
                if token is not None:
                    tokens.add((license_id, token))
                elif type(one) is DeactivateAll:
                    emptied.add(license_id)
        for record in activation_store.find_activations(self.tx, tokens):
            self._records.setdefault(record.license_id, {})[record.token] = record
        whole = [one for one in self._licenses.values() if one.id in emptied]
        for license_id, some in records.list_some_active(self.tx, whole, self.limits.listed).items():
            self._records.setdefault(license_id, {}).update({one.token: one for one in some})

    def _bearers(self, renames: Iterable[UpdateLicense]) -> dict[str, set[int]]:
        """By key, the licenses that have it now or may have it after some of the renames."""
        bearers = {key: {license.id} for key, license in self._licenses.items()}
        for one in renames:
            new_key = one.changes["key"]
            bearers[new_key] = bearers.get(new_key, set()) | bearers.get(one.key, set())
        return bearers

    def get_license(self, command: LicenseCommand) -> License:
        """The license that the command is about. Raises ``UnknownLicense``."""
        license = self._licenses.get(command.key)
        only = command.only_product_id
        if license is None or (only is not None and license.product_id != only):
            raise UnknownLicense(command.key)
        return license

    def has_license(self, key: str) -> bool:
        """Whether a license with this key exists now, as far as this batch knows: only for keys that a
        command named or that are new.
        """
        return key in self._licenses

    def get_activation(self, license: License, token: str) -> Activation:
        """The license's record with this token. Raises ``UnknownToken``."""
        record = self._records.get(license.id, {}).get(token)
        if record is None:
            raise UnknownToken(token)
        return record

    def active_records(self, license: License) -> list[Activation]:
        """The license's active records that are known here, oldest first: those that a command of this batch
        named or made, and as many as an answer lists; only for a license that a command empties.
        """
        known = self._records.get(license.id, {}).values()
        return sorted((one for one in known if one.deactivated_at is None), key=rules.by_age)

    def add_license(self, license: License) -> None:
        """A new license."""
        self._licenses[license.key] = license
        self._new_licenses.add(license.id)

    def change_license(self, license: License, *, old_key: str | None = None) -> None:
        """A license in its new state."""
        if old_key is not None:
            del self._licenses[old_key]
        self._licenses[license.key] = license

    def delete_license(self, license: License) -> None:
        """A license is gone, with its activations."""
        del self._licenses[license.key]
        self._new_activations -= self._records.pop(license.id, {}).keys()
        self._deleted.add(license.id)

    def add_activation(self, activation: Activation) -> None:
        """A new record."""
        self._records.setdefault(activation.license_id, {})[activation.token] = activation
        self._new_activations.add(activation.token)

    def change_activation(self, activation: Activation) -> None:
        """A record in its new state."""
        self._records[activation.license_id][activation.token] = activation
        self._changed_activations.add(activation.token)

    def deactivate_all(self, license: License, ended: Iterable[Activation], now: datetime) -> None:
        """The license has given up every place; these are the records known here that it ends."""
        self._emptied.setdefault(license.id, now)
        self._licenses[license.key] = license
        for one in ended:
            # What is in the database is ended there, all at once.
            self._records[license.id][one.token] = one

    def announce(
        self,
        name: str,
        license: License,
        command: Command,
        activation: Activation | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Something happened to the license."""
        self._events.append(
            Event(
                command.now,
                name,
                license.id,
                None if activation is None else activation.id,
                command.origin.actor,
                command.origin.ip_address,
                details,
            )
        )

    def note(self, name: str, command: Command, details: Mapping[str, Any] | None = None) -> None:
        """Something happened that is not about a license."""
        origin = command.origin
        self._events.append(Event(command.now, name, 0, None, origin.actor, origin.ip_address, details))

    def save(self) -> None:
        """Write everything that changed, one statement per kind of change.

        The order matters: a license that is deleted or renamed sets a key free, which a new one of the same
        batch may have. The database looks at each statement.
        """
        tx = self.tx
        activation_store.delete_licenses(tx, self._deleted - self._new_licenses)
        now = [one for one in self._licenses.values() if one.id not in self._deleted]
        self._save_changed([one for one in now if one.id in self._before])
        license_store.save_new_licenses(tx, [one for one in now if one.id in self._new_licenses])
        for license_id, at in self._emptied.items():
            # Before single records, which may have been taken again since.
            if license_id not in self._deleted | self._new_licenses:
                activation_store.deactivate_all(tx, license_id, at)
        known = [one for some in self._records.values() for one in some.values()]
        activation_store.save_new_activations(
            tx, [one for one in known if one.token in self._new_activations]
        )
        changed = self._changed_activations - self._new_activations
        activation_store.save_activations(tx, [one for one in known if one.token in changed])
        records.prune(tx, [one for one in now if self._has_given_up(one)], self.limits.kept)
        event_store.save_events(tx, self._events)
        tx.save_numbers()

    def _has_given_up(self, license: License) -> bool:
        before = self._before.get(license.id)
        return license.deactivated_records > (0 if before is None else before.deactivated_records)

    def _save_changed(self, licenses: list[License]) -> None:
        rewritten, taken, taken_back, first_taken, given_up = [], [], [], [], []
        for license in licenses:
            before = self._before[license.id]
            if license is before:
                continue
            if _is_rewritten(before, license):
                rewritten.append(license)
            elif license.expires_at != before.expires_at:
                first_taken.append(license)
            elif license.times_activated <= before.times_activated:
                given_up.append(license)
            elif license.deactivated_records == before.deactivated_records:
                taken.append(license)
            else:
                taken_back.append(license)
        license_store.save_licenses(self.tx, rewritten, self._before)
        license_store.save_places_taken(self.tx, taken)
        license_store.save_places_taken_back(self.tx, taken_back)
        license_store.save_first_places_taken(self.tx, first_taken)
        license_store.save_places_given_up(self.tx, given_up, self._before)


def _is_rewritten(before: License, after: License) -> bool:
    """Whether more changed than taking and giving up places changes."""
    return (
        before.key != after.key
        or before.status != after.status
        or before.times_activated_max != after.times_activated_max
        or before.valid_for_days != after.valid_for_days
        or before.updated_by != after.updated_by
        or before.order_id != after.order_id
        or before.product_id != after.product_id
        or before.customer_id != after.customer_id
        or (before.expires_at != after.expires_at and not _is_begun(before, after))
    )


def _is_begun(before: License, after: License) -> bool:
    """Whether the license's time has begun with a place that was taken."""
    return before.expires_at is None and after.times_activated > before.times_activated
