"""Transfers of a license to other customers: support views them, cancels offers and undoes transfers."""

from typing import NamedTuple

from starlette.responses import Response

from keywright.core.errors import Refusal
from keywright.db import ReadTransaction
from keywright.http.admin.sections.licenses.forms import get_license
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import require_id
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.licensing.licenses.model import License
from keywright.provisioning.ownership.model import (
    CancelTransfer,
    Transfer,
    TransferCommand,
    TransferState,
    UndoTransfer,
)
from keywright.provisioning.ownership.rules import state_of
from keywright.provisioning.ownership.store import list_transfers
from keywright.provisioning.store import find_titles

_STATES = {
    TransferState.OFFERED: N_("offered"),
    TransferState.ACCEPTED: N_("accepted"),
    TransferState.ENDED: N_("ended"),
    TransferState.UNDONE: N_("undone"),
}


class ShownTransfer(NamedTuple):
    """A transfer, with the names of its customers. Only the last accepted one can be undone."""

    transfer: Transfer
    owner: str
    other: str
    state: str
    can_cancel: bool
    can_undo: bool


def read_transfers(tx: ReadTransaction, request: PageRequest, license: License) -> list[ShownTransfer]:
    """The transfers of a license, the newest first."""
    found = list_transfers(tx, license.id)
    numbers = {number for one in found for number in (one.from_customer_id, one.to_customer_id)}
    names = find_titles(tx, numbers)
    shown = []
    for one in found:
        state = state_of(one, license.customer_id, request.now)
        owner, other = (names.get(n, str(n)) for n in (one.from_customer_id, one.to_customer_id))
        is_last = state is TransferState.ACCEPTED and license.customer_id == one.to_customer_id
        can_cancel = state is TransferState.OFFERED
        shown.append(ShownTransfer(one, owner, other, _(_STATES[state]), can_cancel, is_last))
    return shown


class Transferring:
    """Pages that cancel offers and undo transfers."""

    @page("/{id:number}/transfers/{transfer:number}/cancel", methods=("POST",), right=Right.CHANGE)
    def cancel_transfer(self, request: PageRequest) -> Response:
        """Cancel an offer."""
        return _decide(request, CancelTransfer, _("The offer was canceled."))

    @page("/{id:number}/transfers/{transfer:number}/undo", methods=("POST",), right=Right.CHANGE)
    def undo_transfer(self, request: PageRequest) -> Response:
        """Return the license to its former customer."""
        return _decide(
            request, UndoTransfer, _("The license went back to its former customer. It has a new key.")
        )


def _decide(request: PageRequest, kind: type[TransferCommand], message: str) -> Response:
    license = get_license(request)
    back = f"/licenses/{license.id}"
    number = require_id(request.path_params["transfer"])
    try:
        request.change(kind(context=request.context, license=license.id, transfer_id=number))
    except Refusal as refusal:
        return request.redirect(back, message_for(refusal).sentence, is_error=True)
    return request.redirect(back, message)
