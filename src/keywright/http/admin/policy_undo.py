"""Undo of changes of policies, and of deletions."""

from typing import Any

from msgspec import to_builtins

from keywright.http.admin.terms_form import terms_patch
from keywright.http.admin.undo_forms import Past
from keywright.http.pages.request import PageRequest
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import copy_terms
from keywright.provisioning.policies.handlers import get_policy
from keywright.provisioning.policies.model import CreatePolicy, Policy, UpdatePolicy

#: What can be changed beside the terms, by the names of the fields of ``Policy``.
FIELDS = ("name", "charset", "chunks", "chunk_length", "separator", "prefix", "suffix", "product_id")


def fields_of(policy: Policy) -> dict[str, Any]:
    """The fields of a policy that can be changed, as JSON."""
    fields: dict[str, Any] = {name: getattr(policy, name) for name in FIELDS}
    terms: dict[str, Any] = to_builtins(policy.terms)
    return fields | {"is_archived": policy.archived_at is not None} | terms


def to_undo(request: PageRequest, number: int, past: Past) -> CreatePolicy | UpdatePolicy:
    """The command that gives a policy its values of before, or brings it back with its id; its keys may be as
    weak as they were. Raises ``UnknownPolicy``.
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
