"""Forms that undo changes and deletions: they contain the earlier values, encrypted."""

import zlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import to_builtins
from starlette.responses import Response

from keywright.core.errors import AlreadyExists, CannotUndo, ChangedSince, NotFound, Refusal, UnknownReference
from keywright.http.admin.terms_form import terms_patch
from keywright.http.admin.texts import seal_text, unseal_text
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import N_, _
from keywright.http.pages.request import PageRequest
from keywright.identity import model
from keywright.identity.model import Right, Role
from keywright.identity.store import find_user_by_id
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import copy_terms
from keywright.provisioning.policies.handlers import get_policy
from keywright.provisioning.policies.model import CreatePolicy, Policy, UpdatePolicy

_PURPOSE = b"the values before a change in the pages: "
#: The right that is needed to undo a change made by a user with this role.
_RIGHT_OF = {Role.READER: Right.CHANGE, Role.SUPPORT: Right.CHANGE, Role.ADMINISTRATOR: Right.ADMINISTER}
ONLY_ADMINISTRATORS = N_("Only administrators may undo this.")
#: The longest encrypted text in an address, in characters: the message's cookie contains the address, and may
#: have 4 KB.
_MAX_LENGTH = 1_800


class Past(msgspec.Struct, frozen=True, array_like=True):
    """The values of the changed fields before a change, compressed, and a digest of those after it; None for
    a deletion.
    """

    compressed: bytes
    digest: bytes | None

    @property
    def fields(self) -> dict[str, Any]:
        """The values before the change, as JSON values."""
        return msgspec.json.decode(zlib.decompress(self.compressed), type=dict[str, Any])

    @property
    def is_deletion(self) -> bool:
        """Whether the change was a deletion."""
        return self.digest is None

    def require_unchanged(self, fields: Mapping[str, Any]) -> None:
        """Raise ``ChangedSince`` if these current fields differ from those that the change left."""
        names = sorted(self.fields)
        if self.digest != _digest({name: fields[name] for name in names}):
            raise ChangedSince(tuple(names))


def undo_form(
    request: PageRequest, path: str, before: Mapping[str, Any], after: Mapping[str, Any] | None
) -> str:
    """The path of the form that undoes a change of the record with this page (``/customers/7``), given its
    fields before and after the change; ``after`` is None for a deletion. "" if the values are too long.
    """
    names = sorted(name for name in before if after is None or before[name] != after[name])
    fields = msgspec.json.encode({name: before[name] for name in names})
    digest = None if after is None else _digest({name: after[name] for name in names})
    past = Past(zlib.compress(fields, 9), digest)
    text = request.ask(lambda tx: seal_text(tx, past, _purpose(path)))
    return f"{path}/undo?was={text}" if len(text) <= _MAX_LENGTH else ""


def read_past(request: PageRequest, path: str) -> Past:
    """Read the values in a form of ``undo_form`` for this page's record. Raises ``CannotUndo``."""
    text = request.query.get("was", "")
    try:
        return request.ask(lambda tx: unseal_text(tx, text, Past, _purpose(path)))
    except (ValueError, msgspec.MsgspecError):
        raise CannotUndo from None


def may_undo(request: PageRequest, user_id: int | None) -> bool:
    """Whether the signed-in user may undo a change by the user with this ID: only administrators may undo
    changes by administrators.
    """
    made_by = None if user_id is None else request.ask(lambda tx: find_user_by_id(tx, user_id))
    return made_by is None or model.may(request.user.role, _RIGHT_OF[made_by.role])


def explain_undo(undo: str) -> str:
    """A sentence for the page that confirms a deletion; ``undo`` is what ``undo_form`` returned."""
    return _("You can undo this right afterwards.") if undo else _("This cannot be undone.")


def refuse_undo(request: PageRequest, back: str, refusal: Refusal) -> Response:
    """Redirect with the reason why nothing was undone: to the record's page ``back``; to the list if there is
    none, or if a deleted record cannot be restored.
    """
    is_gone = isinstance(refusal, NotFound | AlreadyExists | UnknownReference)
    path = back.rpartition("/")[0] if is_gone else back
    return request.redirect(path, message_for(refusal).sentence, is_error=True)


def _purpose(path: str) -> bytes:
    return _PURPOSE + path.encode()


def _digest(fields: Mapping[str, Any]) -> bytes:
    return sha256(msgspec.json.encode(fields, order="sorted")).digest()


#: The fields of ``Policy`` that can be changed, besides its terms.
FIELDS = ("name", "charset", "chunks", "chunk_length", "separator", "prefix", "suffix", "product_id")


def fields_of(policy: Policy) -> dict[str, Any]:
    """The fields of a policy that can be changed, as JSON values."""
    fields: dict[str, Any] = {name: getattr(policy, name) for name in FIELDS}
    terms: dict[str, Any] = to_builtins(policy.terms)
    return fields | {"is_archived": policy.archived_at is not None} | terms


def to_undo(request: PageRequest, number: int, past: Past) -> CreatePolicy | UpdatePolicy:
    """The command that restores a policy's earlier values, or a deleted policy with its ID. Keys that were
    weak may be weak again. Raises ``UnknownPolicy``.
    """
    fields = past.fields
    before = Terms() if past.is_deletion else request.ask(lambda tx: get_policy(tx, number)).terms
    members = {name: fields[name] for name in to_builtins(before).keys() & fields}
    terms = terms_patch(before, copy_terms(before, members))
    values = {name: fields[name] for name in fields.keys() & {*FIELDS}}
    if past.is_deletion:
        return CreatePolicy(
            context=request.context,
            id=number,
            terms=terms,
            is_archived=fields["is_archived"],
            is_weak_allowed=True,
            **values,
        )
    return UpdatePolicy(
        context=request.context,
        policy_id=number,
        changes=values,
        terms=terms,
        is_archived=fields.get("is_archived"),
        is_weak_allowed=True,
        precondition=lambda one: past.require_unchanged(fields_of(one)),
    )
