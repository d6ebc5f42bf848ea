"""Compare the licenses of a source with those in Keywright."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from keywright.core.crypto import mask
from keywright.core.parsing import write_time
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses.model import License, Status
from keywright.provisioning.importers.model import ImportedLicense

_NONE = "none"


class Difference(NamedTuple):
    """A field of a license that differs: the values in the source (``there``) and in Keywright (``here``), as
    texts. ``license`` contains only a masked key.
    """

    license: str
    field: str
    there: str
    here: str


def compare(there: ImportedLicense, record: LicenseRecord | None) -> Iterator[Difference]:
    """Yield the differences between a license of the source and the one in Keywright with the same key. The
    source's counters may be wrong, so its active activations are counted.
    """
    name = _name(there.id, there.key)
    if record is None:
        yield Difference(name, "license", "exists", _NONE)
        return
    here = record.license
    tokens = {one.token for one in there.activations if one.deactivated_at is None}
    pairs = {
        "status": (Status(there.status).name.lower(), Status(here.status).name.lower()),
        "expires at": (_time(there.expires_at), _time(here.expires_at)),
        "valid for days": (_number(there.valid_for_days), _number(here.valid_for_days)),
        "limit": (_number(there.times_activated_max), _number(here.times_activated_max)),
        "activations": (str(len(tokens)), str(here.active_count)),
    }
    for field, (old, new) in pairs.items():
        if old != new:
            yield Difference(name, field, old, new)
    tokens_here = {one.token for one in record.activations if one.deactivated_at is None}
    # The record does not contain all activations of a license with very many.
    if len(tokens) == len(tokens_here) == here.active_count and tokens != tokens_here:
        amount = f"{len(tokens - tokens_here)} only on this side"
        yield Difference(name, "tokens", amount, amount)


def only_here(license: License) -> Difference:
    """The difference for a license that is missing in the source."""
    return Difference(_name(license.id, license.key), "license", _NONE, "exists")


def _name(number: int | None, key: str) -> str:
    return f"{number} ({mask(key)})"


def _time(moment: datetime | None) -> str:
    return _NONE if moment is None else write_time(moment)


def _number(number: int | None) -> str:
    return _NONE if number is None else str(number)
