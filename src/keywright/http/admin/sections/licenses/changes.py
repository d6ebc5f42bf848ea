"""Change a license: its fields, its terms, its note and tags."""

from functools import partial
from typing import Any

from msgspec import convert, to_builtins
from starlette.responses import Response

from keywright.core import crypto
from keywright.core.command import Command
from keywright.core.errors import LicenseKeyTaken, NothingToChange, Refusal, UnknownLicense
from keywright.http.admin import terms_form
from keywright.http.admin.event_views import reader_zone
from keywright.http.admin.name_suggestions import suggest_names
from keywright.http.admin.sections.licenses import forms
from keywright.http.admin.sections.licenses.forms import get_details, get_license, keeps_deleted, undo_path
from keywright.http.admin.undo import read_past, undo_form
from keywright.http.pages.error_messages import explain, message_for
from keywright.http.pages.formats import N_, _, ngettext, write_moment, write_number
from keywright.http.pages.forms import Inputs, parse_number, parse_positive
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.licensing import notes as rules
from keywright.licensing.activations.model import Deactivate, DeactivateAll, LicenseRecord
from keywright.licensing.leases.model import EndLease
from keywright.licensing.licenses.model import (
    DeleteLicense,
    ExtendLicense,
    License,
    RaiseLimit,
    Status,
    UpdateLicense,
)
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.notes import Notes, SaveNotes
from keywright.licensing.store import find_notes
from keywright.licensing.terms.rules import set_by_hand
from keywright.licensing.undo.rules import EnableLicense
from keywright.provisioning.licenses import MoveLicense, RotateKey
from keywright.provisioning.policies import store as policy_store
from keywright.search.license_pages import LicenseDetails

_UNCHANGED = N_("Nothing was changed.")
_PLACES_CHANGED = N_("The activations have just changed. Please check again.")


class Changes:
    """Pages that change one license."""

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.CHANGE)
    def edit(self, request: PageRequest) -> Response:
        """Change the fields of a license."""
        license, zone = get_license(request), reader_zone(request)
        original = request.ask(lambda tx: forms.texts_of(tx, license, zone))
        if not request.is_post:
            return _render_form(request, original, {}, license)
        texts, changed = forms.texts_from(request.form), forms.find_changes(request.form)
        required = ("status", "times_activated_max")
        values, errors = request.ask(lambda tx: forms.parse(tx, texts, zone, required=required))
        if not errors:
            changes = forms.changes_of(values, changed)
            try:
                return _update(request, license, changes, _("The license was changed."))
            except LicenseKeyTaken as refusal:
                errors["key"] = message_for(refusal).sentence
        return _render_form(request, texts, errors, license)

    @page("/{id:number}/extend", methods=("GET", "POST"), right=Right.CHANGE)
    def extend(self, request: PageRequest) -> Response:
        """Extend a license."""
        license = get_license(request)
        errors: dict[str, str] = {}
        if request.is_post:
            try:
                by = forms.read_extension(request, parse_positive(request.form.get("days", "")))
                command = ExtendLicense(context=request.context, license=license.id, **by.extension())
                return change_once(request, command, partial(_to_extended_license, request))
            except Refusal as refusal:
                errors["days"] = message_for(refusal).sentence
            except ValueError as reason:
                errors["days"] = explain(reason)
        return request.render("licenses/extend.html", license=license, errors=errors)

    @page("/{id:number}/limit", methods=("GET", "POST"), right=Right.CHANGE)
    def change_limit(self, request: PageRequest) -> Response:
        """Change the limit of a license."""
        license, zone, name = get_license(request), reader_zone(request), "times_activated_max"
        texts = {name: forms.write_limit(license.times_activated_max)}
        errors: dict[str, str] = {}
        if request.is_post:
            texts = {name: forms.texts_from(request.form)[name]}
            values, errors = request.ask(lambda tx: forms.parse(tx, texts, zone, required=texts))
            if not errors:
                return _update(
                    request, license, values, _limit_message(license, values["times_activated_max"])
                )
        return request.render("licenses/limit.html", license=license, text=texts[name], errors=errors)

    @page("/{id:number}/allow-one-more", methods=("POST",), right=Right.CHANGE)
    def allow_one_more(self, request: PageRequest) -> Response:
        """Raise the limit of a license by one."""
        license = get_license(request)
        command = RaiseLimit(context=request.context, license=license.id, places=1)
        return _change(request, license, command, _("One more device is allowed."))

    @page("/{id:number}/disable", methods=("POST",), right=Right.CHANGE)
    def disable(self, request: PageRequest) -> Response:
        """Disable a license."""
        message = _(
            "The license was disabled: it can no longer be activated. Programs that check its status notice "
            "this at their next validation."
        )
        return _update(request, get_license(request), {"status": Status.DISABLED}, message)

    @page("/{id:number}/enable", methods=("POST",), right=Right.CHANGE)
    def enable(self, request: PageRequest) -> Response:
        """Restore the status that a license had before it was disabled."""
        license = get_license(request)
        command = EnableLicense(context=request.context, license=license.id)
        message = _("The license was enabled, and has its previous status again.")
        return _change(request, license, command, message)

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.CHANGE)
    def delete(self, request: PageRequest) -> Response:
        """Delete a license and its activations, after confirmation."""
        details = get_details(request)
        places = f"{details.active}/{details.total}"
        is_unchanged = request.form.get("places", places) == places
        if request.is_post and is_unchanged:
            request.change(DeleteLicense(context=request.context, license=details.license.id))
            undo = undo_path(request, details.license.id) if keeps_deleted(request, details.license) else ""
            return request.redirect("/licenses", _("The license was deleted."), undo)
        return request.confirm(
            _("Delete the license %(key)s?", key=crypto.mask(details.license.key)),
            [*([] if is_unchanged else [_(_PLACES_CHANGED)]), *_deletion_text(request, details)],
            button=_("Delete the license"),
            back=f"/licenses/{details.license.id}",
            hidden=[("places", places)],
        )

    @page("/{id:number}/new-key", methods=("GET", "POST"), right=Right.CHANGE)
    def rotate_key(self, request: PageRequest) -> Response:
        """Give a license a new key, after confirmation."""
        license = get_license(request)
        here = f"/licenses/{license.id}"
        if not request.is_post:
            sentences = [_("The old key is refused from now on. Devices stay activated.")]
            title = _("Give the license %(key)s a new key?", key=crypto.mask(license.key))
            return request.confirm(title, sentences, button=_("New license key"), back=here)
        command = RotateKey(context=request.context, license=license.id)
        done = Redirect(here, _("The license has a new key. Copy it here for the customer."))
        try:
            return change_once(request, command, lambda _record: done)
        except Refusal as refusal:
            return request.redirect(here, message_for(refusal).sentence, is_error=True)

    @page("/{id:number}/end-lease", methods=("POST",), right=Right.CHANGE)
    def end_lease(self, request: PageRequest) -> Response:
        """End a lease for its holder."""
        number = get_license(request).id
        lease_id = request.form.get("lease_id", "")
        request.change(EndLease(context=request.context, license=number, lease_id=lease_id))
        return request.redirect(f"/licenses/{number}", _("The lease was ended."))

    @page("/{id:number}/deactivate", methods=("POST",), right=Right.CHANGE)
    def deactivate(self, request: PageRequest) -> Response:
        """Deactivate one activation."""
        license = get_license(request)
        token = request.form.get("token", "")
        command = Deactivate(context=request.context, license=license.id, token=token)
        return _change(request, license, command, _("The place is free again."))

    @page("/{id:number}/deactivate-all", methods=("GET", "POST"), right=Right.CHANGE)
    def deactivate_all(self, request: PageRequest) -> Response:
        """Deactivate all activations, after confirmation."""
        details = get_details(request)
        license = details.license
        if request.is_post:
            command = DeactivateAll(context=request.context, license=license.id)
            return _change(request, license, command, _("All places are free again."))
        return request.confirm(
            _("Free all devices?"),
            [
                ngettext(
                    "The license %(key)s has %(num)s active place, which becomes free.",
                    "The license %(key)s has %(num)s active places; all of them become free.",
                    details.active,
                    key=crypto.mask(license.key),
                ),
                _(
                    "Programs that validate their token notice this at their next validation. They may "
                    "activate again."
                ),
            ],
            button=_("Free all"),
            back=f"/licenses/{license.id}",
        )


def _to_extended_license(request: PageRequest, record: LicenseRecord) -> Redirect:
    until = record.license.expires_at
    message = N_("The license is valid until %(time)s.")
    if until is not None and until <= request.now:
        message = N_("The license was extended until %(time)s, so it is still expired.")
    message = "" if until is None else _(message, time=write_moment(until))
    return Redirect(f"/licenses/{record.license.id}", message, undo_path(request, record.license.id))


def _render_form(
    request: PageRequest, texts: dict[str, str], errors: dict[str, str], license: License
) -> Response:
    before = {name: request.form.get(f"before_{name}", text) for name, text in texts.items()}
    return request.render(
        "licenses/edit.html",
        license=license,
        texts=texts,
        own=forms.list_own_fields(texts),
        before=before,
        errors=errors,
        zone=reader_zone(request),
        suggestions=request.ask(suggest_names),
        statuses=forms.list_statuses(),
    )


def _update(request: PageRequest, license: License, changes: dict[str, Any], message: str) -> Response:
    back = f"/licenses/{license.id}"
    if all(getattr(license, name) == value for name, value in changes.items()):
        return request.redirect(back, _(_UNCHANGED))
    request.change(UpdateLicense(context=request.context, license=license.id, changes=changes))
    undo = undo_path(request, license.id)
    if "key" in changes:
        # The history does not contain full keys.
        before = {name: getattr(license, name) for name in changes}
        undo = undo_form(request, back, to_builtins(before), to_builtins(changes))
    return request.redirect(back, message, undo)


def _change(request: PageRequest, license: License, command: Command, message: str) -> Response:
    """Submit the command; the license's page shows the message, or the refusal."""
    try:
        back = Redirect(f"/licenses/{license.id}", message, undo_path(request, license.id))
        return change_once(request, command, lambda _record: back)
    except UnknownLicense:
        raise
    except NothingToChange:
        return request.redirect(f"/licenses/{license.id}", _(_UNCHANGED))
    except Refusal as refusal:
        return request.redirect(f"/licenses/{license.id}", message_for(refusal).sentence, is_error=True)


def _limit_message(license: License, limit: int | None) -> str:
    if limit is None:
        return _("The license has no limit.")
    if limit < license.times_activated:
        return ngettext(
            "The limit is %(limit)s. The %(num)s place in use stays taken.",
            "The limit is %(limit)s. The %(num)s places in use stay taken.",
            license.times_activated,
            limit=write_number(limit),
        )
    return _("The limit is %(limit)s.", limit=write_number(limit))


def _deletion_text(request: PageRequest, details: LicenseDetails) -> list[str]:
    key = crypto.mask(details.license.key)
    sentences = [
        ngettext(
            "The license %(key)s stops working for every program at once. You can restore it for %(num)s "
            "day.",
            "The license %(key)s stops working for every program at once. You can restore it for %(num)s "
            "days.",
            request.site.settings.keep_deleted_days,
            key=key,
        )
        if keeps_deleted(request, details.license)
        else _("The license %(key)s is deleted permanently. This cannot be undone.", key=key)
    ]
    if details.total:
        sentences.append(
            ngettext(
                "%(num)s activation is deleted with it (active: %(active)s).",
                "%(num)s activations are deleted with it (active: %(active)s).",
                details.total,
                active=write_number(details.active),
            )
        )
    if details.active:
        sentences.append(_("Programs notice this at their next validation."))
    sentences.append(_("To keep the license but refuse new activations, disable it instead."))
    return sentences


class LicenseTerms:
    """The page that changes the terms of a license."""

    @page("/{id:number}/terms", methods=("GET", "POST"), right=Right.CHANGE)
    def change_terms(self, request: PageRequest) -> Response:
        """Change the terms; ``policy`` in the address fills the form with those of a policy. A form with
        ``policy`` moves the license to that policy.
        """
        license, inputs = get_license(request), Inputs(request.form)
        before = terms = terms_of(license)
        policies = request.ask(policy_store.list_policies)
        number = parse_number(request.query.get("policy", ""))
        policy = next((one for one in policies if one.id == number), None)
        if policy is not None:
            terms = policy.terms
        moved = parse_number(request.form.get("policy", ""))
        if request.is_post and moved is not None:
            overwrite = inputs.is_checked("overwrite")
            request.change(
                MoveLicense(context=request.context, license=license.id, policy_id=moved, overwrite=overwrite)
            )
            back = f"/licenses/{license.id}"
            return request.redirect(back, _("The policy was changed."), undo_path(request, license.id))
        kept = {*before.entitlements, *(() if policy is None else policy.terms.entitlements)}
        features = request.ask(lambda tx: terms_form.list_features(tx, license.product_id, sorted(kept)))
        if request.is_post:
            terms = terms_form.read_terms(inputs, request.form, features)
            back = f"/licenses/{license.id}"
            if not inputs.errors:
                patch = terms_form.terms_patch(before, terms)
                if not patch:
                    return request.redirect(back, _("Nothing was changed."))
                request.change(UpdateLicense(context=request.context, license=license.id, terms=patch))
                return request.redirect(back, _("The terms were changed."), undo_path(request, license.id))
        values = terms_form.write_terms(terms)
        if inputs.errors:
            values = terms_form.texts_from(request.form)
        return request.render(
            "licenses/terms.html",
            license=license,
            policies=policies,
            policy=policy,
            values=values,
            changed=terms_form.find_changed(values, inputs.errors),
            features=features,
            choices=terms_form.translate_choices(),
            kept=sorted(set_by_hand(license.rule_terms)),
            errors=inputs.errors,
        )


class Noting:
    """The page that changes the note and tags of a license."""

    @page("/{id:number}/note", methods=("GET", "POST"), right=Right.CHANGE)
    def write_note(self, request: PageRequest) -> Response:
        """Change the note and the tags."""
        license, inputs = get_license(request), Inputs(request.form)
        notes = request.ask(lambda tx: find_notes(tx, [license.id]))[license.id]
        if request.is_post:
            note = inputs.read("note", rules.parse_note) or ""
            tags = inputs.read("tags", rules.parse_tags) or ()
            if not inputs.errors:
                new = Notes(note, tags)
                request.change(SaveNotes(context=request.context, license=license.id, notes=new))
                path = f"/licenses/{license.id}/note"
                undo = undo_form(request, path, to_builtins(notes), to_builtins(new))
                return request.redirect(f"/licenses/{license.id}", _("The note was saved."), undo)
        return request.render("licenses/note.html", license=license, notes=notes, errors=inputs.errors)

    @page("/{id:number}/note/undo", methods=("POST",), right=Right.CHANGE)
    def undo_note(self, request: PageRequest) -> Response:
        """Restore the note and tags from before a change."""
        id = get_license(request).id
        back = f"/licenses/{id}"
        notes = request.ask(lambda tx: find_notes(tx, [id]))[id]
        try:
            past = read_past(request, f"{back}/note")
            past.require_unchanged(to_builtins(notes))
            before = convert(to_builtins(notes) | past.fields, Notes)
            request.change(SaveNotes(context=request.context, license=id, notes=before, instead_of=notes))
        except Refusal as refusal:
            return request.redirect(back, message_for(refusal).sentence, is_error=True)
        return request.redirect(back, _("Undone: the note is as before."))
