"""Undo changes of a license: the last one from its message, older ones from the history."""

from datetime import UTC, datetime

from starlette.responses import Response

from keywright.core.errors import NotFound, Refusal, UnknownLicense
from keywright.http.admin.sections.licenses.forms import undo_path
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.inputs import require_id
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.licensing.licenses.commands import LicenseCommand
from keywright.licensing.undo.commands import UndoChanges, UndoEvent
from keywright.licensing.undo.model import Undone

#: After the last moment that a datetime can have.
_END = 253_402_300_800


class Undo:
    """Forms that undo changes."""

    @page("/{id:number}/undo/{at:number}", methods=("POST",), right=Right.CHANGE)
    def undo_changes(self, request: PageRequest) -> Response:
        """Undo what the user has changed at a moment, in seconds since 1970."""
        at = request.path_params["at"]
        if at >= _END:
            raise NotFound("change")
        moment = datetime.fromtimestamp(at, UTC)
        id = require_id(request.path_params["id"])
        return _undo(request, UndoChanges(context=request.context, license=id, changed_at=moment))

    @page("/{id:number}/history/{event:number}/undo", methods=("POST",), right=Right.CHANGE)
    def undo_event(self, request: PageRequest) -> Response:
        """Undo a change in the history."""
        id, event_id = (require_id(request.path_params[name]) for name in ("id", "event"))
        return _undo(request, UndoEvent(context=request.context, license=id, event_id=event_id))


def _undo(request: PageRequest, command: LicenseCommand) -> Response:
    back = f"/licenses/{command.license}"
    try:
        undone: Undone = request.change(command)
    except UnknownLicense:
        raise
    except Refusal as refusal:
        return request.redirect(back, message_for(refusal).sentence, is_error=True)
    if undone.is_deleted:
        return request.redirect("/licenses", "Undone: the new license is deleted.")
    return request.redirect(
        back, "Undone: the license is as it was before.", undo_path(request, undone.license_id)
    )
