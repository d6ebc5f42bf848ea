"""What is done with a license: make, edit, extend, disable, delete it, and take its places back."""

from typing import Any

from starlette.responses import Response

from keywright.core import crypto
from keywright.core.command import Command
from keywright.core.errors import LicenseKeyTaken, Refusal, UnknownLicense
from keywright.core.parsing import write_time
from keywright.http.admin.sections.licenses import forms
from keywright.http.admin.sections.licenses.filter import offered_names
from keywright.http.admin.sections.licenses.forms import get_license
from keywright.http.pages.error_messages import counted, message_for
from keywright.http.pages.once import Landing, change_once
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.licensing.activations.commands import Deactivate, DeactivateAll
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.commands import CreateLicense, DeleteLicense, ExtendLicense, UpdateLicense
from keywright.licensing.licenses.model import License, Status
from keywright.search import license_details
from keywright.search.license_details import LicenseDetails

_UNCHANGED = "Nothing was changed."
_ACTIVATED_MEANWHILE = "Its activations have changed since you were asked, so please look once more."


class Changes:
    """Pages of the area of licenses that change one."""

    @page("/new", methods=("GET", "POST"), right=Right.CHANGE)
    def create(self, request: PageRequest) -> Response:
        """Make a license by hand."""
        if not request.is_post:
            return _form(request, forms.new_texts(keys.new_license_key()), {})
        texts = forms.sent_texts(request.form)
        values, errors = request.ask(lambda tx: forms.parse(tx, texts, needed=("key", "status")))
        if not errors:
            try:
                return change_once(request, CreateLicense(context=request.context, **values), _made)
            except LicenseKeyTaken as refusal:
                errors["key"] = message_for(refusal).sentence
        return _form(request, texts, errors)

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.CHANGE)
    def edit(self, request: PageRequest) -> Response:
        """Change what is known of a license."""
        license = get_license(request)
        shown = forms.texts_of(license)
        if not request.is_post:
            return _form(request, shown, {}, license=license)
        texts, changed = forms.sent_texts(request.form), forms.changed_names(request.form)
        values, errors = request.ask(lambda tx: forms.parse(tx, texts, needed=("status",)))
        if not errors:
            changes = forms.changes_of(values, changed)
            try:
                return _update(request, license, changes, "The license is changed.")
            except LicenseKeyTaken as refusal:
                errors["key"] = message_for(refusal).sentence
        return _form(request, texts, errors, license=license)

    @page("/{id:number}/extend", methods=("GET", "POST"), right=Right.CHANGE)
    def extend(self, request: PageRequest) -> Response:
        """Put the end of a license off."""
        license = get_license(request)
        errors: dict[str, str] = {}
        if request.is_post:
            is_from_now = request.form.get("begin", "") == "now"
            try:
                days = forms.parse_positive(request.form.get("days", ""))
                command = ExtendLicense(
                    context=request.context, license=license.id, days=days, is_from_now=is_from_now
                )
                return change_once(request, command, _extended)
            except Refusal as refusal:
                errors["days"] = message_for(refusal).sentence
            except ValueError as reason:
                errors["days"] = f"It {reason}."
        return request.render(
            "licenses/extend.html", status=422 if errors else 200, license=license, errors=errors
        )

    @page("/{id:number}/limit", methods=("GET", "POST"), right=Right.CHANGE)
    def change_limit(self, request: PageRequest) -> Response:
        """Allow more places, or fewer."""
        license = get_license(request)
        errors: dict[str, str] = {}
        if request.is_post:
            texts = {"times_activated_max": request.form.get("times_activated_max", "")}
            values, errors = request.ask(lambda tx: forms.parse(tx, texts))
            if not errors:
                return _update(request, license, values, _of_limit(license, values["times_activated_max"]))
        return request.render(
            "licenses/limit.html", status=422 if errors else 200, license=license, errors=errors
        )

    @page("/{id:number}/disable", methods=("POST",), right=Right.CHANGE)
    def disable(self, request: PageRequest) -> Response:
        """No program may use the license any more."""
        said = "The license is disabled. Programs notice it at their next validation."
        return _update(request, get_license(request), {"status": Status.DISABLED}, said)

    @page("/{id:number}/enable", methods=("POST",), right=Right.CHANGE)
    def enable(self, request: PageRequest) -> Response:
        """Programs may use the license again."""
        return _update(request, get_license(request), {"status": Status.ACTIVE}, "The license is active.")

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.CHANGE)
    def delete(self, request: PageRequest) -> Response:
        """Ask, and delete the license and its activations."""
        found = _details(request)
        places = f"{found.active}/{found.total}"
        is_as_said = request.form.get("places", places) == places
        if request.is_post and is_as_said:
            request.change(DeleteLicense(context=request.context, license=found.license.id))
            return request.redirect("/licenses", "The license is deleted.")
        return request.confirm(
            f"Delete the license {crypto.mask(found.license.key)}?",
            _what_goes(found) if is_as_said else [_ACTIVATED_MEANWHILE, *_what_goes(found)],
            button="Delete it for good",
            back=f"/licenses/{found.license.id}",
            hidden=[("places", places)],
        )

    @page("/{id:number}/deactivate", methods=("POST",), right=Right.CHANGE)
    def deactivate(self, request: PageRequest) -> Response:
        """Give up one place."""
        license = get_license(request)
        token = request.form.get("token", "")
        command = Deactivate(context=request.context, license=license.id, token=token)
        return _done(request, license, command, "The place is free again.")

    @page("/{id:number}/deactivate-all", methods=("GET", "POST"), right=Right.CHANGE)
    def deactivate_all(self, request: PageRequest) -> Response:
        """Ask, and give up every place."""
        found = _details(request)
        license = found.license
        if request.is_post:
            command = DeactivateAll(context=request.context, license=license.id)
            return _done(request, license, command, "All places are free again.")
        return request.confirm(
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
    request: PageRequest, texts: dict[str, str], errors: dict[str, str], license: License | None = None
) -> Response:
    before = {name: request.form.get(f"before_{name}", text) for name, text in texts.items()}
    return request.render(
        "licenses/new.html" if license is None else "licenses/edit.html",
        status=422 if errors else 200,
        license=license,
        texts=texts,
        before=before,
        errors=errors,
        offered=request.ask(offered_names),
        statuses=[(one.name.lower(), one.name.capitalize()) for one in Status],
    )


def _update(request: PageRequest, license: License, changes: dict[str, Any], said: str) -> Response:
    back = f"/licenses/{license.id}"
    if all(getattr(license, name) == value for name, value in changes.items()):
        return request.redirect(back, _UNCHANGED)
    request.change(UpdateLicense(context=request.context, license=license.id, changes=changes))
    return request.redirect(back, said)


def _done(request: PageRequest, license: License, command: Command, said: str) -> Response:
    """Do it; what is refused is said on the license's page."""
    try:
        return change_once(request, command, lambda _: Landing(f"/licenses/{license.id}", said))
    except UnknownLicense:
        raise
    except Refusal as refusal:
        return request.redirect(f"/licenses/{license.id}", message_for(refusal).sentence, is_error=True)


def _details(request: PageRequest) -> LicenseDetails:
    found = request.ask(lambda tx: license_details.get_license(tx, request.path_params["id"]))
    if found is None:
        raise UnknownLicense(str(request.path_params["id"]))
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
