"""What is done with a license: make, edit, extend, disable, delete it, and take its places back."""

from typing import Any

from starlette.responses import Response

from keywright import search
from keywright.core import crypto
from keywright.core.command import Command
from keywright.core.errors import LicenseKeyTaken, Refusal, UnknownLicense
from keywright.core.parsing import write_time
from keywright.http.admin.sections.licenses import forms
from keywright.http.admin.sections.licenses.filter import offered_names
from keywright.http.admin.sections.licenses.forms import get_license
from keywright.http.pages.error_messages import counted, say
from keywright.http.pages.once import Landing, change_once
from keywright.http.pages.page import Visit, page
from keywright.identity.rights import Right
from keywright.licensing.activations.commands import Deactivate, DeactivateAll
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.commands import CreateLicense, DeleteLicense, ExtendLicense, UpdateLicense
from keywright.licensing.licenses.model import License, Status
from keywright.search import LicenseDetails

_UNCHANGED = "Nothing was changed."
_ACTIVATED_MEANWHILE = "Its activations have changed since you were asked, so please look once more."


class Changes:
    """Pages of the area of licenses that change one."""

    @page("/new", methods=("GET", "POST"), right=Right.CHANGE)
    def create(self, visit: Visit) -> Response:
        """Make a license by hand."""
        if not visit.is_post:
            return _form(visit, forms.new_texts(keys.new_license_key()), {})
        texts = forms.sent_texts(visit.form)
        values, errors = visit.ask(lambda tx: forms.parse(tx, texts, needed=("key", "status")))
        if not errors:
            try:
                return change_once(visit, CreateLicense(**visit.command_fields(), **values), _made)
            except LicenseKeyTaken as refusal:
                errors["key"] = say(refusal).sentence
        return _form(visit, texts, errors)

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.CHANGE)
    def edit(self, visit: Visit) -> Response:
        """Change what is known of a license."""
        license = get_license(visit)
        shown = forms.texts_of(license)
        if not visit.is_post:
            return _form(visit, shown, {}, license=license)
        texts, changed = forms.sent_texts(visit.form), forms.changed_names(visit.form)
        values, errors = visit.ask(lambda tx: forms.parse(tx, texts, needed=("status",)))
        if not errors:
            changes = forms.changes_of(values, changed)
            try:
                return _update(visit, license, changes, "The license is changed.")
            except LicenseKeyTaken as refusal:
                errors["key"] = say(refusal).sentence
        return _form(visit, texts, errors, license=license)

    @page("/{id:number}/extend", methods=("GET", "POST"), right=Right.CHANGE)
    def extend(self, visit: Visit) -> Response:
        """Put the end of a license off."""
        license = get_license(visit)
        errors: dict[str, str] = {}
        if visit.is_post:
            is_from_now = visit.form.get("begin", "") == "now"
            try:
                days = forms.parse_positive(visit.form.get("days", ""))
                command = ExtendLicense(
                    **visit.command_fields(), key=license.key, days=days, is_from_now=is_from_now
                )
                return change_once(visit, command, _extended)
            except Refusal as refusal:
                errors["days"] = say(refusal).sentence
            except ValueError as reason:
                errors["days"] = f"It {reason}."
        return visit.page(
            "licenses/extend.html", status=422 if errors else 200, license=license, errors=errors
        )

    @page("/{id:number}/limit", methods=("GET", "POST"), right=Right.CHANGE)
    def change_limit(self, visit: Visit) -> Response:
        """Allow more places, or fewer."""
        license = get_license(visit)
        errors: dict[str, str] = {}
        if visit.is_post:
            texts = {"times_activated_max": visit.form.get("times_activated_max", "")}
            values, errors = visit.ask(lambda tx: forms.parse(tx, texts))
            if not errors:
                return _update(visit, license, values, _of_limit(license, values["times_activated_max"]))
        return visit.page(
            "licenses/limit.html", status=422 if errors else 200, license=license, errors=errors
        )

    @page("/{id:number}/disable", methods=("POST",), right=Right.CHANGE)
    def disable(self, visit: Visit) -> Response:
        """No program may use the license any more."""
        said = "The license is disabled. Programs notice it at their next validation."
        return _update(visit, get_license(visit), {"status": Status.DISABLED}, said)

    @page("/{id:number}/enable", methods=("POST",), right=Right.CHANGE)
    def enable(self, visit: Visit) -> Response:
        """Programs may use the license again."""
        return _update(visit, get_license(visit), {"status": Status.ACTIVE}, "The license is active.")

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.CHANGE)
    def delete(self, visit: Visit) -> Response:
        """Ask, and delete the license and its activations."""
        found = _details(visit)
        places = f"{found.active}/{found.total}"
        is_as_said = visit.form.get("places", places) == places
        if visit.is_post and is_as_said:
            visit.change(DeleteLicense(**visit.command_fields(), key=found.license.key))
            return visit.back("/licenses", "The license is deleted.")
        return visit.confirm(
            f"Delete the license {crypto.mask(found.license.key)}?",
            _what_goes(found) if is_as_said else [_ACTIVATED_MEANWHILE, *_what_goes(found)],
            button="Delete it for good",
            back=f"/licenses/{found.license.id}",
            hidden=[("places", places)],
        )

    @page("/{id:number}/deactivate", methods=("POST",), right=Right.CHANGE)
    def deactivate(self, visit: Visit) -> Response:
        """Give up one place."""
        license = get_license(visit)
        token = visit.form.get("token", "")
        command = Deactivate(**visit.command_fields(), key=license.key, token=token)
        return _done(visit, license, command, "The place is free again.")

    @page("/{id:number}/deactivate-all", methods=("GET", "POST"), right=Right.CHANGE)
    def deactivate_all(self, visit: Visit) -> Response:
        """Ask, and give up every place."""
        found = _details(visit)
        license = found.license
        if visit.is_post:
            command = DeactivateAll(**visit.command_fields(), key=license.key)
            return _done(visit, license, command, "All places are free again.")
        return visit.confirm(
            "Deactivate all?",
            [
                f"The license {crypto.mask(license.key)} has {counted(found.active, 'active place')}; all of "
                "them are given up.",
                "Programs that run with it stop at their next validation; they may take a place again.",
            ],
            button="Deactivate all",
            back=f"/licenses/{license.id}",
        )


def _made(record: LicenseRecord) -> Landing:
    return Landing(f"/licenses/{record.license.id}", "The license is made.")


def _extended(record: LicenseRecord) -> Landing:
    until = record.license.expires_at
    said = "" if until is None else f"The license is good until {write_time(until)} UTC."
    return Landing(f"/licenses/{record.license.id}", said)


def _form(
    visit: Visit, texts: dict[str, str], errors: dict[str, str], license: License | None = None
) -> Response:
    before = {name: visit.form.get(f"before_{name}", text) for name, text in texts.items()}
    return visit.page(
        "licenses/new.html" if license is None else "licenses/edit.html",
        status=422 if errors else 200,
        license=license,
        texts=texts,
        before=before,
        errors=errors,
        offered=visit.ask(offered_names),
        statuses=[(one.name.lower(), one.name.capitalize()) for one in Status],
    )


def _update(visit: Visit, license: License, changes: dict[str, Any], said: str) -> Response:
    back = f"/licenses/{license.id}"
    if all(getattr(license, name) == value for name, value in changes.items()):
        return visit.back(back, _UNCHANGED)
    visit.change(UpdateLicense(**visit.command_fields(), key=license.key, changes=changes))
    return visit.back(back, said)


def _done(visit: Visit, license: License, command: Command, said: str) -> Response:
    """Do it; what is refused is said on the license's page."""
    try:
        return change_once(visit, command, lambda _: Landing(f"/licenses/{license.id}", said))
    except UnknownLicense:
        raise
    except Refusal as refusal:
        return visit.back(f"/licenses/{license.id}", say(refusal).sentence, is_bad=True)


def _details(visit: Visit) -> LicenseDetails:
    found = visit.ask(lambda tx: search.get_license(tx, visit.path["id"]))
    if found is None:
        raise UnknownLicense(str(visit.path["id"]))
    return found


def _of_limit(license: License, limit: int | None) -> str:
    if limit is None:
        return "The license has no limit."
    if limit < license.times_activated:
        taken = counted(license.times_activated, "place")
        verbs = ("is", "stays") if license.times_activated == 1 else ("are", "stay")
        return f"The limit is {limit:,}. The {taken} that {verbs[0]} taken {verbs[1]} taken."
    return f"The limit is {limit:,}."


def _what_goes(found: LicenseDetails) -> list[str]:
    said = [f"The license {crypto.mask(found.license.key)} goes for good. This cannot be undone."]
    if found.total:
        active = f", {found.active:,} of them active" if found.active else ", none of them active"
        said.append(f"{counted(found.total, 'activation')}{active}, go with it.")
    if found.active:
        said.append("Programs that run with it stop at their next validation.")
    said.append("To keep it and only refuse it to programs, disable it instead.")
    return said
