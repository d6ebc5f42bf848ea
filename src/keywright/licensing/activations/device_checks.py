"""How the rules would decide about a device now, without changing anything."""

from collections.abc import Mapping
from datetime import datetime

from keywright.core.errors import Refusal
from keywright.db import ReadTransaction
from keywright.db.rows import to_datetime
from keywright.events.store import find_newest_moment
from keywright.licensing.activations import devices, records, store
from keywright.licensing.activations.model import Activation, Device, KnownRecords, PlaceChange
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.moments import REPLACES_UNSEEN
from keywright.licensing.store import find_marks
from keywright.licensing.terms.model import WhenFull

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
        return devices.activate_device(
            license,
            device,
            known,
            seen=seen,
            built_at=None,
            now=now,
            find_room=lambda: find_unseen(tx, license, {}, now),
        ).change
    except Refusal as refusal:
        return refusal


def find_unseen(
    tx: ReadTransaction, license: License, known: Mapping[str, Activation], now: datetime
) -> Activation | None:
    """The device that gives its place to a new one, by its terms; ``known`` as in ``list_holders``."""
    terms = terms_of(license)
    if terms.when_full is not WhenFull.REPLACE_UNSEEN:
        return None
    # A clock that is ahead makes no device unseen.
    now = min(now, find_newest_moment(tx) or license.updated_at)
    mark = find_marks(tx, [license.id]).get((license.id, REPLACES_UNSEEN))
    changed_at = None if mark is None else to_datetime(mark[1])
    holders = records.list_holders(tx, license, known)
    return devices.find_unseen(terms, holders, changed_at=changed_at, now=now)
