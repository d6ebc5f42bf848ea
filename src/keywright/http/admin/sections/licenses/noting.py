"""The form for the note and the tags of a license."""

from msgspec import convert, to_builtins
from starlette.responses import Response

from keywright.core.errors import Refusal
from keywright.http.admin.sections.licenses.forms import get_license
from keywright.http.admin.undo_forms import read_past, undo_form
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.inputs import Inputs
from keywright.http.pages.languages import _
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.licensing import notes as rules
from keywright.licensing.notes import Notes, SaveNotes
from keywright.licensing.store import find_notes


class Noting:
    """The page that changes what is written about a license."""

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
                return request.redirect(f"/licenses/{license.id}", _("The note is saved."), undo)
        return request.render("licenses/note.html", license=license, notes=notes, errors=inputs.errors)

    @page("/{id:number}/note/undo", methods=("POST",), right=Right.CHANGE)
    def undo_note(self, request: PageRequest) -> Response:
        """Give the license the note and the tags of before."""
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
