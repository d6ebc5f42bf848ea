"""Decide what an import does with each license. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from keywright.core.crypto import mask
from keywright.core.fields import copy_as
from keywright.licensing.activations import rules as activation_rules
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import OWN_FIELDS, License
from keywright.provisioning.importers.model import ImportedActivation, ImportedLicense, Notice, Verdict

#: The fields of a license that are taken from the newer side.
_FIELDS = (
    *("key", "order_id", "product_id", "customer_id", "expires_at", "valid_for_days", "status"),
    *("times_activated_max", "metadata"),
)
#: The same, if the source has them: those of other systems do not.
_OWN_FIELDS = ("policy_id", "terms", "order_details", "quantity", "rule_terms", *OWN_FIELDS)
#: The fields that are copied to a new license.
_COMING = {*License.__struct_fields__} & {*ImportedLicense.__struct_fields__}


class Merged(NamedTuple):
    """The merged license; the activations that change, each as it is here (None: new) and as it should be,
    with ID 0 until it gets one; and notices for the report.
    """

    verdict: Verdict
    license: License
    activations: list[tuple[Activation | None, Activation]]
    notices: list[Notice]
    #: The fields of the license that change, as [before, after].
    differences: dict[str, list[Any]]


def merge(
    new: ImportedLicense,
    here: License | None,
    known: Mapping[str, Activation],
    *,
    license_id: int,
    now: datetime,
    kept_records: int,
) -> Merged:
    """Merge a license of the source with the one here: of the license, and of each token, the version that
    was updated last wins. ``known`` are the activations here with tokens of ``new``.

    If both sides took places, the limit may be exceeded: all are kept, and no new place can be taken.
    """
    start = here or to_license(new, license_id)
    license = start if here is None else _newest(new, here)
    differences = _differences(start, license)
    merged = (_merge_activation(one, known.get(one.token), license.id) for one in new.activations)
    changes = _drop_surplus([one for one in merged if one is not None], license, now, kept_records)
    license = _with_counters(license, changes)
    if changes:
        latest = max(_stamp(after) for _, after in changes)
        license = replace(license, updated_at=max(license.updated_at, min(latest, now)))
    notices = list(_odd(new, start, license))
    return Merged(_verdict(new, here, license), license, changes, notices, differences)


def _differences(before: License, after: License) -> dict[str, list[Any]]:
    """Return the fields that change, as [before, after], with keys masked, and without metadata."""
    if before is after:
        return {}
    found = {name: [getattr(before, name), getattr(after, name)] for name in _FIELDS if name != "metadata"}
    found["key"] = [mask(before.key), mask(after.key)] if before.key != after.key else []
    return {name: pair for name, pair in found.items() if pair and pair[0] != pair[1]}


def _verdict(new: ImportedLicense, here: License | None, license: License) -> Verdict:
    if here is None:
        return Verdict.NEW
    if license != here:
        return Verdict.NEWER_THERE
    is_different = any(value != getattr(here, name) for name, value in _known_fields(new).items())
    return Verdict.NEWER_HERE if is_different and new.updated_at <= here.updated_at else Verdict.SAME


def _newest(new: ImportedLicense, here: License) -> License:
    """Return the license with the fields of the side that was updated last. An expiry that the first
    activation has set here is kept, as the source does not have it.
    """
    if new.updated_at <= here.updated_at:
        return here
    fields = _known_fields(new)
    if fields.get("expires_at") is None and fields.get("valid_for_days") is not None:
        fields["expires_at"] = here.expires_at
    if fields.get("metadata") is None:
        fields["metadata"] = here.metadata
    if all(getattr(here, name) == value for name, value in fields.items()):
        return here
    if fields.get("order_id", here.order_id) != here.order_id:
        # The details of the former order do not apply to the new one.
        fields = {"order_details": None} | fields
    return replace(here, **fields, updated_at=new.updated_at, updated_by=new.updated_by)


def _known_fields(new: ImportedLicense) -> dict[str, Any]:
    names = _FIELDS if new.fields is None else (*_FIELDS, *_OWN_FIELDS)
    return {name: getattr(new, name) for name in names if new.fields is None or name in new.fields}


def to_license(new: ImportedLicense, license_id: int) -> License:
    """Convert a license of the source, without its activations."""
    fields = {name: getattr(new, name) for name in _COMING}
    return License(**fields | {"id": license_id, "times_activated": 0})


def _merge_activation(
    new: ImportedActivation, here: Activation | None, license_id: int
) -> tuple[Activation | None, Activation] | None:
    """Return the activation as it is here and as it should be; None if nothing changes."""
    of_here = {"source": new.source, "created_at": new.created_at, "offline_until": None}
    if here is not None:
        of_here = {name: getattr(here, name) for name in of_here}
    id = (new.id or 0) if here is None else here.id
    after = copy_as(Activation, new, id=id, license_id=license_id, **of_here)
    if here is not None and (after == here or _stamp(after) <= _stamp(here)):
        return None
    return here, after


def _stamp(activation: Activation) -> datetime:
    """Return when the activation changed last."""
    times = (activation.created_at, activation.updated_at, activation.deactivated_at)
    return max(one for one in times if one is not None)


def _drop_surplus(
    changes: list[tuple[Activation | None, Activation]], license: License, now: datetime, kept: int
) -> list[tuple[Activation | None, Activation]]:
    """Remove the oldest new records of deactivated places that the license would not keep: they would be
    deleted at once, and imported again each time.
    """
    if not changes:
        return changes
    after = _with_counters(license, changes)
    at_once, if_old = activation_rules.surplus(after, kept)
    ended = sorted(
        (one.deactivated_at, one.token) for before, one in changes if before is None and one.deactivated_at
    )
    old = now - activation_rules.KEPT_FOR
    dropped = ended[:at_once] + [one for one in ended[at_once : at_once + if_old] if one[0] <= old]
    tokens = {token for _, token in dropped}
    return [one for one in changes if one[1].token not in tokens] if tokens else changes


def _with_counters(license: License, changes: Iterable[tuple[Activation | None, Activation]]) -> License:
    counts = Counter(
        times_activated=license.times_activated,
        uncounted_count=license.uncounted_count,
        deactivated_count=license.deactivated_count,
    )
    for before, after in changes:
        counts[_counter_of(after)] += 1
        if before is not None:
            counts[_counter_of(before)] -= 1
    return replace(license, **counts)


def _counter_of(one: Activation) -> str:
    """Return the field of a license that counts this activation."""
    if one.deactivated_at is not None:
        return "deactivated_count"
    return "times_activated" if one.is_counted else "uncounted_count"


def _odd(new: ImportedLicense, before: License, after: License) -> Iterable[Notice]:
    found = []
    if license_rules.is_over_limit(after) and not license_rules.is_over_limit(before):
        found.append(("over_limit", f"{after.times_activated} places of {after.times_activated_max}"))
    if new.key != before.key or before.key != after.key:
        found.append(("key_changed", "newer there" if after.key == new.key else "newer here"))
    if new.id not in (None, after.id) and before.id != new.id and not new.is_rest:
        found.append(("id_changed", f"{new.id} there"))
    if new.customer_name and not new.customer_email and new.customer_id is None:
        found.append(("customer_unnamed", ""))
    if found:
        place = f"{new.place}, license {after.id} ({mask(after.key)})".removeprefix(", ")
        yield from (Notice(code, place, what) for code, what in found)
