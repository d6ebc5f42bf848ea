"""The handlers of the commands of imports; ``rules`` decides what is done with each license."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Any

from msgspec.structs import asdict, replace

from keywright.core.command import Command
from keywright.core.crypto import mask
from keywright.core.errors import AlreadyExists
from keywright.db.transaction import ReadTransaction
from keywright.identity.api_keys import issue
from keywright.identity.model import IssueApiKey, Permissions
from keywright.licensing.activations.store import find_by_fingerprint
from keywright.licensing.licenses.model import License, order_line_hash, order_of
from keywright.licensing.licenses.store import find_by_order_lines
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import merge_terms
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning import handlers
from keywright.provisioning.customers import CustomerFields, NewCustomer, fold_email
from keywright.provisioning.handlers import find_or_make_customer as find_or_make
from keywright.provisioning.handlers import give_email, make_customer
from keywright.provisioning.importers import model, store
from keywright.provisioning.importers.rules import Merged, merge, to_license
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.rules import terms_from_first_activation
from keywright.provisioning.policies.store import find_policy
from keywright.provisioning.products import NameKind, SaveName
from keywright.provisioning.store import find_by_emails, find_customers, names_of


class Taken:
    """Looks up the policies that exist, and the order lines and devices that other licenses have."""

    def __init__(
        self, tx: ReadTransaction, pairs: Collection[tuple[model.ImportedLicense, License | None]]
    ) -> None:
        """``pairs`` are the imported licenses, each with the one that it matches here."""
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
        self, new: model.ImportedLicense, here: License | None
    ) -> tuple[model.ImportedLicense, Sequence[model.Notice]]:
        """Remove a missing policy, and a taken order line or device; return notices about them."""
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
        return new, [model.Notice(code, place, what) for code, what in lost]

    def _without_device(
        self, one: model.ImportedActivation, license_id: int, lost: list[tuple[str, str]]
    ) -> model.ImportedActivation:
        if (
            one.fingerprint is None
            or self._devices.get((license_id, one.fingerprint), one.token) == one.token
        ):
            return one
        lost.append(("device_taken", one.label or ""))
        return replace(one, fingerprint=None)

    def add(self, merged: Merged) -> None:
        """Add the order line and the devices of an imported license."""
        line = order_line_hash(order_of(merged.license))
        if line is not None:
            self._lines[line] = merged.license.id
        for _, one in merged.activations:
            if one.fingerprint is not None:
                self._devices[merged.license.id, one.fingerprint] = one.token


def _line(new: model.ImportedLicense) -> bytes | None:
    return None if new.order_details is None else order_line_hash(order_of(to_license(new, 0)))


class People:
    """The customers of imported licenses: found by e-mail address, else by ID, or made."""

    def __init__(self, work: LicenseWork, command: model.ImportLicenses) -> None:
        self._work, self._command = work, command
        emails = {fold_email(one.customer_email) for one in command.licenses if one.customer_email}
        self._found: dict[str | int, int] = dict(find_by_emails(work.tx, emails).items())
        numbers = {one.customer_id for one in command.licenses if one.customer_id is not None}
        #: The customers that existed before.
        self._known = find_customers(work.tx, numbers)

    def add_to(
        self, new: model.ImportedLicense, here: License | None
    ) -> tuple[model.ImportedLicense, list[model.Outcome]]:
        """Set the customer of a license. No customer is made for a license that is not changed here."""
        is_kept = here is not None and new.updated_at <= here.updated_at
        who = fold_email(new.customer_email) if new.customer_email else new.customer_id
        if is_kept or who is None or not (new.customer_email or new.customer_name):
            return new, []
        made: list[model.Outcome] = []
        if who not in self._found:
            self._found[who], is_new = self._find_or_make(new)
            made = [model.Outcome("customer", model.Verdict.NEW, who=who)] if is_new else []
        fields = None if new.fields is None else new.fields | {"customer_id"}
        return replace(new, customer_id=self._found[who], fields=fields), made

    def _find_or_make(self, new: model.ImportedLicense) -> tuple[int, bool]:
        """Return the customer's ID, and whether the customer is new. The ID in the table is used if it is
        free, or belongs to a customer without an address.
        """
        person: dict[str, Any] = {
            "email": new.customer_email,
            "name": new.customer_name,
            "language": new.customer_language,
        }
        number = new.customer_id
        known = self._known.get(number)
        if known is not None and new.customer_email is None:
            return known.id, False
        is_dry_run = self._command.is_dry_run
        if known is not None and known.email is None:
            if not is_dry_run:
                given = {name: one for name, one in person.items() if one is not None}
                give_email(self._work, self._command, known, CustomerFields(**given))
            self._known[number] = replace(known, email=new.customer_email)
            return known.id, False
        if is_dry_run:
            return number or 0, True
        free = None if known is not None else number
        try:
            made = make_customer(self._work, self._command, NewCustomer(id=free, **person))
        except AlreadyExists:
            # Another transaction has made the customer in the meantime.
            return find_or_make(self._work, self._command, **person).id, False
        self._known[made.id] = made
        return made.id, True


#: The event of a license that was imported, or changed by an import.
IMPORTED = "license.imported"


def import_licenses(work: LicenseWork, command: model.ImportLicenses) -> model.Imported:
    """Import licenses and their activations; merge those that exist here."""
    unknown = {one.id for one in command.licenses if one.id and work.find_license(one.key) is None}
    past = store.list_event_names(work.tx, unknown)
    if unknown and not command.is_dry_run:
        work.tx.ids.skip("license", max(unknown))
    work.load_activations(
        (here.id, activation.token)
        for one in command.licenses
        if (here := _find_here(work, one, past)) is not None
        for activation in one.activations
    )
    outcomes: list[model.Outcome] = []
    notices: list[model.Notice] = []
    people = People(work, command)
    taken = Taken(work.tx, [(one, _find_here(work, one, past)) for one in command.licenses])
    for one in command.licenses:
        here = _find_here(work, one, past)
        if here is None and {IMPORTED, "license.deleted"} <= past.get(one.id or 0, set()):
            outcomes.append(model.Outcome("license", model.Verdict.DELETED_HERE))
            continue
        new, made = people.add_to(one, here)
        outcomes += made
        new, lost = taken.leave_out(new, here)
        notices += lost
        merged = _merge(work, command, new, here, is_id_free=one.id not in past)
        taken.add(merged)
        if not command.is_dry_run:
            _save(work, command, merged)
        outcomes += _outcomes(new, merged)
        notices += merged.notices
    return model.Imported(tuple(outcomes), tuple(notices))


def _find_here(work: LicenseWork, new: model.ImportedLicense, past: Mapping[int, Set[str]]) -> License | None:
    """Find the license with this key, or the one that was imported with this ID and has another key now."""
    here = work.find_license(new.key)
    if here is not None or new.id is None or IMPORTED not in past.get(new.id, ()):
        return here
    other = work.find_license(new.id)
    return other if other is not None and other.created_at == new.created_at else None


def _merge(
    work: LicenseWork,
    command: model.Import,
    new: model.ImportedLicense,
    here: License | None,
    *,
    is_id_free: bool,
) -> Merged:
    if here is not None:
        license_id = here.id
    elif new.id is not None and is_id_free and work.find_license(new.id) is None:
        license_id = new.id
    else:
        license_id = 0 if command.is_dry_run else work.tx.ids.next("license")
    return merge(
        new,
        here,
        {} if here is None else work.known_activations(here),
        license_id=license_id,
        now=command.context.now,
        kept_records=work.limits.kept,
    )


def _save(work: LicenseWork, command: model.ImportLicenses, merged: Merged) -> None:
    if merged.verdict not in (model.Verdict.NEW, model.Verdict.NEWER_THERE):
        return
    work.set_imported(merged.license, command.context.now)
    for _, one in merged.activations:
        work.set_activation(one if one.id else replace(one, id=work.tx.ids.next("activation")))
    details = {"from": command.source, "activations": len(merged.activations)} | merged.differences
    if merged.verdict is model.Verdict.NEW:
        details["created_at"] = int(merged.license.created_at.timestamp())
    work.record_license_event(IMPORTED, merged.license, command, details=details)


def _outcomes(new: model.ImportedLicense, merged: Merged) -> list[model.Outcome]:
    added = sum(before is None for before, _ in merged.activations)
    changed = len(merged.activations) - added
    same = len(new.activations) - added - changed
    counted = [(model.Verdict.NEW, added), (model.Verdict.NEWER_THERE, changed), (model.Verdict.SAME, same)]
    found = [] if new.is_rest else [model.Outcome("license", merged.verdict)]
    return found + [model.Outcome("activation", verdict, amount) for verdict, amount in counted if amount]


def import_generators(work: LicenseWork, command: model.ImportGenerators) -> model.Imported:
    """Import generators. If one exists with the same ID and creation time, the newer version is kept."""
    stored = {one.id: one for one in policy_store.list_policies(work.tx)}
    verdicts = [_import_generator(work, command, one, stored) for one in command.generators]
    return model.Imported(tuple(model.Outcome("generator", one) for one in verdicts))


def _import_generator(
    work: LicenseWork, command: model.Import, new: model.ImportedGenerator, stored: dict[int, Policy]
) -> model.Verdict:
    fields = asdict(new)
    del fields["place"]
    terms = terms_from_first_activation(fields.pop("times_activated_max"), fields.pop("expires_in_days"))
    one = Policy(**fields | {"id": new.id or 0, "terms": merge_terms(Terms(), terms)})
    here = stored.get(one.id)
    if here == one or any(replace(other, id=one.id) == one for other in stored.values()):
        return model.Verdict.SAME
    if here is not None and here.created_at == one.created_at:
        if one.updated_at <= here.updated_at:
            return model.Verdict.NEWER_HERE
        if not command.is_dry_run:
            policy_store.save_policy(work.tx, one)
        stored[one.id] = one
        return model.Verdict.NEWER_THERE
    if not command.is_dry_run:
        number = store.save_policy(work.tx, one if here is None else replace(one, id=0))
        stored[number] = replace(one, id=number)
        details = {"policy_id": number, "policy": one.name}
        work.record_event("policy.created", command, details)
    return model.Verdict.NEW


def import_api_keys(work: LicenseWork, command: model.ImportApiKeys) -> model.Imported:
    """Import API keys; one that was revoked here stays revoked."""
    outcomes = []
    for one in command.api_keys:
        is_here = store.has_api_key(work.tx, one.consumer_key_hash)
        outcomes.append(model.Outcome("API key", model.Verdict.SAME if is_here else model.Verdict.NEW))
        if not is_here and not command.is_dry_run:
            fields = asdict(one) | {"permissions": Permissions(one.permissions)}
            del fields["place"]
            issue(work, IssueApiKey(context=command.context, **fields))
    return model.Imported(tuple(outcomes))


def import_names(work: LicenseWork, command: model.ImportNames) -> model.Imported:
    """Import the names of IDs that have none here."""
    kind, names = NameKind(command.names.kind), command.names.names
    known = names_of(work.tx, kind, names)
    new = {number: name for number, name in names.items() if number not in known}
    if not command.is_dry_run:
        for number, name in new.items():
            save = SaveName(context=command.context, kind=kind, number=number, name=name)
            handlers.NAME_HANDLERS[SaveName](work, save)
    what = f"name of a {kind}"
    outcomes = [
        model.Outcome(what, model.Verdict.NEW, len(new)),
        model.Outcome(what, model.Verdict.SAME, len(known)),
    ]
    return model.Imported(tuple(one for one in outcomes if one.amount))


def reserve_ids(work: LicenseWork, command: model.ReserveIds) -> tuple[int, int]:
    """Reserve the IDs of an import."""
    return store.reserve_ids(work.tx, command.license_id, command.activation_id)


#: The handler of each command.
HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    model.ImportLicenses: import_licenses,
    model.ImportGenerators: import_generators,
    model.ImportApiKeys: import_api_keys,
    model.ImportNames: import_names,
    model.ReserveIds: reserve_ids,
}
