"""The form for the note and the tags of a license."""

from starlette.responses import Response

from keywright.http.admin.sections.licenses.forms import get_license
from keywright.http.pages.inputs import Inputs
from keywright.http.pages.languages import _
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.licensing.notes import rules
from keywright.licensing.notes.commands import SaveNotes
from keywright.licensing.notes.model import Notes
from keywright.licensing.notes.store import find_notes


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
                return request.redirect(f"/licenses/{license.id}", _("The note is saved."))
        return request.render("licenses/note.html", license=license, notes=notes, errors=inputs.errors)
