"""Undo changes of a license: the latest one from its message, older ones from the history."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_type_hints

from msgspec import convert, to_builtins
from starlette.responses import Response

from keywright.core.errors import LicenseKeyTaken, NotFound, OrderLineTaken, Refusal, UnknownLicense
from keywright.db import ReadTransaction
from keywright.events.model import Event
from keywright.events.store import find_event, list_events
from keywright.http.admin.sections.licenses import filter as license_filter
from keywright.http.admin.sections.licenses.forms import undo_path
from keywright.http.admin.undo import ONLY_ADMINISTRATORS, Past, may_undo, read_past
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import _
from keywright.http.pages.forms import parse_number, require_id
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.licensing.licenses.model import License, LicenseCommand, UpdateLicense
from keywright.licensing.undo.rules import RestoreLicense, UndoChanges, UndoEvent, Undone
from keywright.licensing.undo.store import list_deleted

#: The end of the range of datetime, in seconds since 1970.
_END = 253_402_300_800


_PAGE_SIZE = 50


class Undo:
    """Forms that undo changes, and the list of deleted licenses."""

    @page("/deleted", right=Right.CHANGE)
    def list_deleted(self, request: PageRequest) -> Response:
        """Deleted licenses that can be restored, the latest first."""
        before = [parse_number(request.query.get(name, "")) for name in ("at", "before")]
        position = (before[0], before[1]) if before[0] is not None and before[1] is not None else None
        return request.render("licenses/deleted.html", **request.ask(partial(_read_deleted, position)))

    @page("/{id:number}/restore", methods=("POST",), right=Right.CHANGE)
    def restore(self, request: PageRequest) -> Response:
        """Restore a license that was deleted."""
        id = require_id(request.path_params["id"])
        command = RestoreLicense(context=request.context, license=id)
        if not _may_undo(request, lambda tx: next(iter(list_events(tx, id, limit=1)), None)):
            return request.redirect("/licenses/deleted", _(ONLY_ADMINISTRATORS), is_error=True)
        try:
            request.change(command)
        except Refusal as refusal:
            return request.redirect("/licenses/deleted", message_for(refusal).sentence, is_error=True)
        return request.redirect(f"/licenses/{id}", _("The license was restored."), undo_path(request, id))

    @page("/{id:number}/undo/{at:number}", methods=("POST",), right=Right.CHANGE)
    def undo_changes(self, request: PageRequest) -> Response:
        """Undo the changes that the user made at a time, in seconds since 1970."""
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
        if not _may_undo(request, lambda tx: find_event(tx, event_id)):
            return request.redirect(f"/licenses/{id}", _(ONLY_ADMINISTRATORS), is_error=True)
        return _undo(request, UndoEvent(context=request.context, license=id, event_id=event_id))

    @page("/{id:number}/undo", methods=("POST",), right=Right.CHANGE)
    def undo_key(self, request: PageRequest) -> Response:
        """Undo a change of the key, and of the fields changed with it."""
        id = require_id(request.path_params["id"])
        back = f"/licenses/{id}"
        try:
            request.change(_to_undo(request, id, read_past(request, back)))
        except UnknownLicense:
            raise
        except Refusal as refusal:
            return request.redirect(back, message_for(refusal).sentence, is_error=True)
        return request.redirect(back, _("Undone: the license is as it was before."))


def _may_undo(request: PageRequest, find: Callable[[ReadTransaction], Event | None]) -> bool:
    event = request.ask(find)
    kind, _, number = ("" if event is None else event.actor).partition(":")
    return may_undo(request, int(number) if kind == "user" else None)


def _to_undo(request: PageRequest, id: int, past: Past) -> UpdateLicense:
    fields, types = past.fields, get_type_hints(License)

    def require_unchanged(license: License) -> None:
        past.require_unchanged(to_builtins({name: getattr(license, name) for name in fields}))

    return UpdateLicense(
        context=request.context,
        license=id,
        changes={name: convert(value, types[name]) for name, value in fields.items()},
        precondition=require_unchanged,
    )


def _read_deleted(before: tuple[int, int] | None, tx: ReadTransaction) -> dict[str, Any]:
    found = list_deleted(tx, before=before, limit=_PAGE_SIZE + 1)
    shown, last = found[:_PAGE_SIZE], found[:_PAGE_SIZE][-1:]
    has_more = len(found) > _PAGE_SIZE
    return {
        "deleted": shown,
        "names": license_filter.find_names(tx, [one.license for one in shown]),
        "is_first": before is None,
        "next": (int(last[0].deleted_at.timestamp()), last[0].license.id) if has_more else None,
    }


def _undo(request: PageRequest, command: LicenseCommand) -> Response:
    back = f"/licenses/{command.license}"
    try:
        undone: Undone = request.change(command)
    except UnknownLicense:
        raise
    except (LicenseKeyTaken, OrderLineTaken) as refusal:
        # The license stays deleted.
        return request.redirect("/licenses/deleted", message_for(refusal).sentence, is_error=True)
    except Refusal as refusal:
        return request.redirect(back, message_for(refusal).sentence, is_error=True)
    if undone.is_deleted:
        return request.redirect("/licenses", _("Undone: the new license was deleted."))
    return request.redirect(
        back, _("Undone: the license is as it was before."), undo_path(request, undone.license_id)
    )
