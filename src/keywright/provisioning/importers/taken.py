"""What only one may have: an order line of all licenses, a device of a license's places."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from keywright.core.crypto import mask
from keywright.db.transaction import ReadTransaction
from keywright.licensing.activations.store import find_by_fingerprint
from keywright.licensing.licenses.model import License, order_line_hash, order_of
from keywright.licensing.licenses.store import find_by_order_lines
from keywright.provisioning.importers.model import ImportedActivation, ImportedLicense, Notice
from keywright.provisioning.importers.rules import Merged, to_license
from keywright.provisioning.policies.store import find_policy


class Taken:
    """What licenses here have that those of an import want, kept up with what the import brings."""

    def __init__(
        self, tx: ReadTransaction, pairs: Collection[tuple[ImportedLicense, License | None]]
    ) -> None:
        """``pairs`` are the licenses that come, each with the one that is it here."""
        wanted = {one.policy_id for one, _ in pairs if one.policy_id is not None}
        self._policies = {one for one in wanted if find_policy(tx, one) is not None}
        lines = {line for one, _ in pairs if (line := _line(one)) is not None}
        self._lines = {line: one.id for line, one in find_by_order_lines(tx, lines).items()} if lines else {}
        devices = {
            (here.id, place.fingerprint)
            for one, here in pairs
            if here is not None
            for place in one.activations
            if place.fingerprint is not None
        }
        found = find_by_fingerprint(tx, devices) if devices else ()
        self._devices = {(one.license_id, str(one.fingerprint)): one.token for one in found}

    def leave_out(
        self, new: ImportedLicense, here: License | None
    ) -> tuple[ImportedLicense, Sequence[Notice]]:
        """The license without what another one has, and what the report says of that."""
        license_id = 0 if here is None else here.id
        lost: list[tuple[str, str]] = []
        if new.policy_id is not None and new.policy_id not in self._policies:
            lost.append(("policy_missing", f"policy {new.policy_id}"))
            new = replace(new, policy_id=None)
        line = _line(new)
        if line is not None and self._lines.get(line, license_id) != license_id:
            lost.append(("order_line_taken", f"license {self._lines[line]} has it"))
            new = replace(new, order_details=None)
        kept = tuple(self._without_device(one, license_id, lost) for one in new.activations)
        if lost:
            new = replace(new, activations=kept)
        place = f"{new.place}, {mask(new.key)}".removeprefix(", ")
        return new, [Notice(code, place, what) for code, what in lost]

    def _without_device(
        self, one: ImportedActivation, license_id: int, lost: list[tuple[str, str]]
    ) -> ImportedActivation:
        if (
            one.fingerprint is None
            or self._devices.get((license_id, one.fingerprint), one.token) == one.token
        ):
            return one
        lost.append(("device_taken", one.label or ""))
        return replace(one, fingerprint=None)

    def add(self, merged: Merged) -> None:
        """Note what a license that was brought has."""
        line = order_line_hash(order_of(merged.license))
        if line is not None:
            self._lines[line] = merged.license.id
        for _, one in merged.activations:
            if one.fingerprint is not None:
                self._devices[merged.license.id, one.fingerprint] = one.token


def _line(new: ImportedLicense) -> bytes | None:
    return None if new.order_details is None else order_line_hash(order_of(to_license(new, 0)))
