"""Handlers of the commands about licenses; see ``activations.handlers``."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from keywright.core import crypto
from keywright.core import errors as e
from keywright.core.command import Command
from keywright.core.metadata import merge_metadata
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import model, rules
from keywright.licensing.licenses.store import find_by_order_lines
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import Written, merge_terms, to_text, write_by_hand
from keywright.licensing.unit_of_work import LicenseWork

#: Fields kept in the event of a deleted license, besides its order and status.
_KEPT = ("product_id", "policy_id", "customer_id", *model.OWN_FIELDS, "expires_at", "times_activated_max")


def show_key(work: LicenseWork, command: model.ShowKey) -> model.License:
    """Return the license whose key is to be shown, and record an event."""
    license = work.get_license(command)
    work.record_license_event("license.key_shown", license, command)
    return license


def create(work: LicenseWork, command: model.CreateLicense) -> LicenseRecord:
    """Make a license with a key. Raises ``LicenseKeyTaken``."""
    if work.has_license(command.key):
        raise e.LicenseKeyTaken
    license = new_license(
        work,
        command,
        command.key,
        model.LicenseSource.API,
        expires_at=command.expires_at,
        valid_for_days=command.valid_for_days,
        times_activated_max=command.times_activated_max,
    )
    return LicenseRecord(license)


def new_license(
    work: LicenseWork,
    command: model.NewLicenseCommand,
    key: str,
    source: model.LicenseSource,
    *,
    order_id: int | None = None,
    **fields: Any,
) -> model.License:
    """Add a license to the unit of work, with the values of the command and other ``fields``, its expiry and
    limit among them. ``order_id`` overrides the command's.
    """
    context = command.context
    license = model.License(
        id=work.tx.ids.next("license"),
        key=key,
        order_id=command.order_id if order_id is None else order_id,
        product_id=command.product_id,
        customer_id=command.customer_id,
        source=source,
        status=command.status,
        times_activated=0,
        created_at=context.now,
        created_by=context.api_key_id,
        updated_at=context.now,
        updated_by=None,
        **{**command.fields, **fields},
    )
    work.set_license(license)
    work.record_license_event("license.created", license, command)
    return license


def update(work: LicenseWork, command: model.UpdateLicense) -> LicenseRecord:
    """Change the given fields of a license. Raises ``LicenseKeyTaken``, ``InvalidTerms``, ``OrderLineTaken``,
    or ``InvalidParameters`` for metadata that would be too large.
    """
    license = work.get_license(command)
    new_key = command.changes.get("key", license.key)
    if new_key != license.key and work.has_license(new_key):
        raise e.LicenseKeyTaken
    changes = dict(command.changes)
    if command.terms:
        changes |= fields_of(merge_terms(rules.terms_of(license), command.terms))
    if command.order:
        changes |= model.order_fields(_change_order(work, license, command.order))
    if command.metadata is not UNSET:
        changes["metadata"] = merge_metadata(license.metadata, command.metadata)
    record = apply_changes(work, command, license, changes)
    _record_renewal(work, command, license, record.license)
    return record


def apply_terms(work: LicenseWork, command: model.ApplyTerms) -> LicenseRecord:
    """Change members of a license's terms, for its quantity. Raises ``NothingToChange`` if none differs,
    ``SetByHand`` if all that differ are set by hand.
    """
    license = work.get_license(command)
    written = rules.apply_members(license, command.terms, is_forced=command.overwrite)
    changes = list_rule_changes(license, {}, written)
    if not changes and written.kept:
        raise e.SetByHand(written.kept)
    if not changes:
        raise e.NothingToChange
    expires_at = rules.expiry_of_applied(license, written.terms)
    return change_by_rule(work, command, license, {**changes, "expires_at": expires_at})


def list_rule_changes(
    license: model.License, changes: Mapping[str, Any], written: Written | None
) -> dict[str, Any]:
    """Return the fields of a license that differ after these changes and those that a rule has written."""
    fields = {} if written is None else fields_of(written.terms) | {"rule_terms": written.rule_terms}
    return {name: one for name, one in {**fields, **changes}.items() if getattr(license, name) != one}


def change_by_rule(
    work: LicenseWork, command: model.LicenseCommand, license: model.License, changes: Mapping[str, Any]
) -> LicenseRecord:
    """Change these fields by a rule (a sale, a policy), not by hand, and record events."""
    if not changes:
        return LicenseRecord(license)
    record = apply_changes(work, command, license, {"rule_terms": license.rule_terms, **changes})
    after = record.license
    if {"quantity", "policy_id"} & changes.keys():
        pairs = {name: [getattr(one, name) for one in (license, after)] for name in ("policy_id", "quantity")}
        pairs["terms"] = [msgspec.to_builtins(rules.terms_of(one)) for one in (license, after)]
        work.record_license_event("license.changed", after, command, details=pairs)
    _record_renewal(work, command, license, after)
    return record


def _record_renewal(
    work: LicenseWork, command: model.LicenseCommand, before: model.License, after: model.License
) -> None:
    if rules.is_renewed(before, after):
        details = {"expires_at": after.expires_at}
        work.record_license_event("license.renewed", after, command, details=details)


def apply_changes(
    work: LicenseWork, command: model.LicenseCommand, license: model.License, changes: Mapping[str, Any]
) -> LicenseRecord:
    """Change these fields of a license, by hand unless they include ``rule_terms``, and record an event."""
    if "order_id" in changes:
        # A new ID invalidates the details of the former order.
        changes = {"order_details": None, **changes}
    changed = replace(
        license, **changes, updated_at=command.context.now, updated_by=command.context.api_key_id
    )
    if "rule_terms" not in changes:
        before, after = rules.terms_of(license), rules.terms_of(changed)
        changed = replace(changed, rule_terms=write_by_hand(before, after, license.rule_terms))
    work.set_license(changed)
    details = _differences(license, changed, changes)
    work.record_license_event("license.updated", changed, command, details=details)
    return LicenseRecord(changed)


def _change_order(work: LicenseWork, license: model.License, patch: Mapping[str, Any]) -> model.Order:
    """Apply a merge patch to the license's order. Raises ``OrderLineTaken``."""
    order = replace(model.order_of(license), **{name: one for name, one in patch.items() if one is not None})
    usual = {name: getattr(model.Order(), name) for name, one in patch.items() if one is None}
    order = replace(order, **usual)
    line = model.order_line_hash(order)
    if line is not None:
        other = find_by_order_lines(work.tx, [line]).get(line)
        if other is not None and other.id != license.id:
            raise e.OrderLineTaken
    return order


def fields_of(terms: Terms) -> dict[str, Any]:
    """Return the fields of ``License`` that store these terms."""
    return {
        "times_activated_max": terms.max_activations,
        "valid_for_days": terms.valid_for_days,
        "terms": to_text(terms),
    }


def delete(work: LicenseWork, command: model.DeleteLicense) -> None:
    """Delete a license and its activations."""
    license = work.get_license(command)
    work.delete_license(license, command.context.now)
    # API keys for one product see its events even after the license is deleted.
    kept = {name: getattr(license, name) for name in _KEPT if getattr(license, name) is not None}
    details = {
        "key": crypto.mask(license.key),
        "times_activated": license.times_activated,
        "status": model.Status(license.status).name.lower(),
        "order": model.order_of(license),
    }
    work.record_license_event("license.deleted", license, command, details=details | kept)


def _differences(before: model.License, after: model.License, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed fields, as [before, after]: keys masked, each term separately; of metadata and an
    order's details, only that they changed.
    """
    pairs = {name: [getattr(before, name), getattr(after, name)] for name in sorted(names)}
    changed: dict[str, Any] = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    for name in ("quantity", "rule_terms"):
        changed.pop(name, None)
    if "key" in changed:
        changed["key"] = [crypto.mask(key) for key in changed["key"]]
    if "metadata" in changed:
        changed["metadata"] = "changed"
    if changed.pop("terms", None) is not None:
        changed |= _different_terms(rules.terms_of(before), rules.terms_of(after))
    if changed.pop("order_details", None) is not None and before.order_details is not None:
        changed["order"] = "changed"
    return changed


def _different_terms(before: Terms, after: Terms) -> dict[str, Any]:
    """Return the terms that differ, as [before, after], except those that are fields of ``License``."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    pairs = {name: [old[name], new[name]] for name in old.keys() - {"max_activations", "valid_for_days"}}
    return {name: pair for name, pair in sorted(pairs.items()) if pair[0] != pair[1]}


def extend(work: LicenseWork, command: model.ExtendLicense) -> LicenseRecord:
    """Move the expiry to a later moment. Raises ``NeverExpires``, ``ExpiresLater``."""
    license = work.get_license(command)
    given = ("days", "months", "zone", "is_from_now", "is_from_later")
    by = {name: getattr(command, name) for name in given}
    expires_at = command.until or rules.extended(license, command.context.now, **by)
    later = rules.require_later(license, expires_at, "until" if command.until else "days")
    return update(work, _update(command, expires_at=later))


def raise_limit(work: LicenseWork, command: model.RaiseLimit) -> LicenseRecord:
    """Allow more places. Raises ``NoLimit``, ``InvalidParameters``."""
    limit = rules.raised_limit(work.get_license(command), command.places)
    return update(work, _update(command, times_activated_max=limit))


def _update(command: model.LicenseCommand, **changes: Any) -> model.UpdateLicense:
    return model.UpdateLicense(
        context=command.context,
        license=command.license,
        only_product_id=command.only_product_id,
        changes=changes,
    )


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    model.CreateLicense: create,
    model.UpdateLicense: update,
    model.ApplyTerms: apply_terms,
    model.DeleteLicense: delete,
    model.ExtendLicense: extend,
    model.RaiseLimit: raise_limit,
    model.ShowKey: show_key,
}
