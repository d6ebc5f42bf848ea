"""What the rules would say to a device now, without changing anything."""

from datetime import datetime

from keywright.core.errors import Refusal
from keywright.db import ReadTransaction
from keywright.licensing.activations import devices, store
from keywright.licensing.activations.model import Device, KnownRecords, PlaceChange
from keywright.licensing.licenses.model import License

#: Stands for a device that the license has never seen.
_NEW_DEVICE = Device(fingerprint="a device that was never seen")


def check_device(
    tx: ReadTransaction, license: License, fingerprint: str | None, now: datetime
) -> PlaceChange | Refusal:
    """What ``ActivateDevice`` would do for the device with this fingerprint, or for a new one without; or why
    it would refuse it.
    """
    device = _NEW_DEVICE if fingerprint is None else Device(fingerprint=fingerprint)
    own = [] if fingerprint is None else store.find_by_fingerprint(tx, [(license.id, fingerprint)])
    known = KnownRecords(own[0] if own else None, None)
    seen = store.list_new_devices(tx, [license.id]).get(license.id, ())
    try:
        return devices.activate_device(license, device, known, seen=seen, built_at=None, now=now).change
    except Refusal as refusal:
        return refusal
