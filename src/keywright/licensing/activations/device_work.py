"""The state of a batch besides licenses and activations: new devices, and removals by customers."""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta

from keywright.core.errors import UnknownLicense
from keywright.db.transaction import WriteTransaction
from keywright.licensing import store
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import ActivateDevice, Activation, ProgramCommand, SeenDevice
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.store import Outdated
from keywright.licensing.terms.model import Allowance
from keywright.licensing.views_store import Names, Views

#: Each command, and the IDs of the licenses that it may name.
_Named = Sequence[tuple[ProgramCommand, Set[int]]]


class DeviceWork:
    """Licenses whose key was replaced, devices new to licenses, and views of licenses."""

    def __init__(self, tx: WriteTransaction, names: Names | None) -> None:
        self.views = Views(tx, names)
        self._tx = tx
        #: By the old key.
        self._rotated: dict[str, License] = {}
        #: By license: as many as the terms need.
        self._seen: dict[int, list[SeenDevice]] = {}
        self._added: list[tuple[int, SeenDevice]] = []
        #: By license: devices seen up to this moment no longer count.
        self._old_until: dict[int, datetime] = {}

    def load(self, commands: _Named, licenses: Mapping[int, License]) -> Iterable[Activation]:
        """Load what these commands need, and return the activations that they name."""
        unknown = [one.license for one, ids in commands if not ids and isinstance(one.license, str)]
        if unknown:
            self._rotated = license_store.find_rotated(self._tx, unknown)
        named = {number for _, ids in commands for number in ids}
        self.views.load([*(licenses[number] for number in named), *self._rotated.values()])
        limited = {
            number
            for one, ids in commands
            if isinstance(one, ActivateDevice)
            for number in ids
            if _allowance_of(licenses[number]) is not None
        }
        if limited:
            self._seen = activation_store.list_new_devices(self._tx, limited)
        return self._find_activations(commands)

    def _find_activations(self, commands: _Named) -> Iterable[Activation]:
        tokens, devices = set[tuple[int, str]](), set[tuple[int, str]]()
        for one, ids in commands:
            for number in ids:
                if one.token is not None:
                    tokens.add((number, one.token))
                replaced = one.replaces if isinstance(one, ActivateDevice) else None
                for fingerprint in (one.device.fingerprint, replaced):
                    if fingerprint is not None:
                        devices.add((number, fingerprint))
        found = activation_store.find_by_fingerprint(self._tx, devices) if devices else []
        if tokens:
            found += activation_store.find_activations(self._tx, tokens)
        return found

    def get_rotated(self, command: ProgramCommand) -> License:
        """Return the license whose old key the command names. Raises ``UnknownLicense``."""
        license = self._rotated.get(str(command.license))
        if license is None:
            raise UnknownLicense(str(command.license))
        return license

    def list_seen(self, license: License) -> Sequence[SeenDevice]:
        """Return the devices that were new to a license, if its terms limit them."""
        return self._seen.get(license.id, ())

    def add_seen(self, license: License, device: SeenDevice) -> None:
        """Store a device that is new to a license."""
        self._seen.setdefault(license.id, []).append(device)
        self._added.append((license.id, device))
        allowance = _allowance_of(license)
        if allowance is not None:
            self._old_until[license.id] = device.seen_at - timedelta(days=allowance.per_days)

    def save(self, deleted: Set[int]) -> None:
        """Write the new devices, except those of deleted licenses."""
        added = [(number, one) for number, one in self._added if number not in deleted]
        if added:
            activation_store.save_new_devices(self._tx, added, self._old_until)


def _allowance_of(license: License) -> Allowance | None:
    return None if license.terms is None else license_rules.terms_of(license).new_devices


class RemovalWork:
    """The times at which customers removed devices. Licenses are locked before their removals are loaded."""

    def __init__(self, tx: WriteTransaction) -> None:
        self._tx = tx
        self._removed: dict[int, list[datetime]] = {}
        #: By license and activation: removals that this batch adds.
        self._added: dict[tuple[int, int], datetime] = {}
        #: By license: which removals no longer count.
        self._outdated: dict[int, Outdated] = {}

    def load(self, license_ids: Iterable[int]) -> None:
        """Load the removals of these licenses."""
        self._removed = store.list_removals(self._tx, license_ids)

    def list_removals(self, license: License) -> Sequence[datetime]:
        """Return when customers removed devices of a license, as far back as its terms count."""
        return self._removed.get(license.id, ())

    def add(self, license: License, activation_id: int, now: datetime) -> None:
        """Store that a customer or their program removed a device, if the terms count removals."""
        allowance = terms_of(license).portal_removals
        if allowance is not None and allowance.count:
            self._removed.setdefault(license.id, []).append(now)
            self._added[license.id, activation_id] = now
            self._outdated[license.id] = Outdated(now - timedelta(days=allowance.per_days), allowance.count)

    def save(self, deleted: Set[int]) -> None:
        """Write the new removals, except those of deleted licenses."""
        added = [(id, at, number) for (id, number), at in self._added.items() if id not in deleted]
        if added:
            store.save_removals(self._tx, added, self._outdated)
