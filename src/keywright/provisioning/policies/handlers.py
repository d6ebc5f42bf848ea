"""The handlers of the commands and queries about policies."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import asdict, replace

from keywright.core import errors as e
from keywright.core.command import Command
from keywright.core.nouns import ItemPage
from keywright.db.transaction import ReadTransaction
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import keys
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.handlers import fields_of, new_license
from keywright.licensing.licenses.model import License, LicenseSource
from keywright.licensing.licenses.rules import expiry_of_new, multiply_members
from keywright.licensing.terms import rules as terms_rules
from keywright.licensing.terms.model import Terms
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.policies import model, rules
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.store import require_product

#: The largest average number of draws per key: a key that exists is drawn again.
_DRAWS_PER_KEY = 10


def create_policy(work: LicenseWork, command: model.CreatePolicy) -> model.Policy:
    """Make a policy. Raises ``AlreadyExists`` if the ID of the policy to restore is taken."""
    if command.id is not None and policy_store.find_policy(work.tx, command.id) is not None:
        raise e.AlreadyExists("policy", "id")
    policy = model.Policy(
        id=command.id or 0,
        name=command.name,
        charset=command.charset,
        chunks=command.chunks,
        chunk_length=command.chunk_length,
        separator=command.separator,
        prefix=command.prefix,
        suffix=command.suffix,
        created_at=command.context.now,
        created_by=command.context.api_key_id,
        updated_at=command.context.now,
        updated_by=None,
        product_id=_own_product(work, command, command.product_id),
        terms=terms_rules.merge_terms(Terms(), command.terms),
        archived_at=command.context.now if command.is_archived else None,
    )
    require_sound(policy, is_weak_allowed=command.is_weak_allowed, path=command.key_path)
    policy = replace(policy, id=policy_store.save_new_policy(work.tx, policy))
    work.record_event("policy.created", command, _of(policy))
    return policy


def update_policy(work: LicenseWork, command: model.UpdatePolicy) -> model.Policy:
    """Change the given fields of a policy."""
    policy = _lock_policy(work, command)
    if "product_id" in command.changes:
        _own_product(work, command, command.changes["product_id"])
    changed = replace(
        policy,
        **command.changes,
        terms=terms_rules.merge_terms(policy.terms, command.terms),
        archived_at=_archive(policy, command),
        updated_at=command.context.now,
        updated_by=command.context.api_key_id,
    )
    require_sound(changed, is_weak_allowed=command.is_weak_allowed, path=command.key_path)
    policy_store.save_policy(work.tx, changed)
    before, after = (asdict(one) | asdict(one.terms) for one in (policy, changed))
    names = sorted({*command.changes, *command.terms, "archived_at"})
    pairs = {name: [before[name], after[name]] for name in names}
    different = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    work.record_event("policy.updated", command, _of(changed) | different)
    return changed


def delete_policy(work: LicenseWork, command: model.DeletePolicy) -> None:
    """Delete a policy; its licenses stay. Raises ``StillInUse`` if it has any and must have none."""
    policy = _lock_policy(work, command)
    if command.is_unused and policy_store.has_licenses(work.tx, policy.id):
        raise e.StillInUse(f"policy {policy.id}", "licenses")
    policy_store.delete_policy(work.tx, command.policy_id)
    work.record_event("policy.deleted", command, _of(policy))


def generate(work: LicenseWork, command: model.GenerateLicenses) -> tuple[LicenseRecord, ...]:
    """Make licenses with new keys, all or none."""
    policy = get_policy(work.tx, command.policy_id, command.only_product_id)
    if policy.archived_at is not None:
        raise e.PolicyArchived(policy.id)
    expires_at = expiry_of_new(policy.terms, command.context.now)
    chosen = {} if command.claimable is None else {"claimable": command.claimable}
    terms = terms_rules.merge_terms(policy.terms, chosen)
    if command.product_id is None and policy.product_id is not None:
        command = replace(command, product_id=policy.product_id)
    return tuple(
        LicenseRecord(
            new_license(
                work,
                command,
                key,
                LicenseSource.GENERATOR,
                expires_at=expires_at,
                policy_id=policy.id,
                rule_terms=terms_rules.write_by_hand(policy.terms, terms, None),
                **fields_of(terms),
            )
        )
        for key in draw_keys(work, policy, command.amount)
    )


def get_policy(tx: ReadTransaction, policy_id: int, only_product_id: int | None = None) -> model.Policy:
    """Return the policy with this ID. Raises ``UnknownPolicy``."""
    policy = policy_store.find_policy(tx, policy_id)
    if policy is None or only_product_id not in (None, policy.product_id):
        raise e.UnknownPolicy(policy_id)
    return policy


def _lock_policy(work: LicenseWork, command: model.UpdatePolicy | model.DeletePolicy) -> model.Policy:
    policy, only = policy_store.lock_policy(work.tx, command.policy_id), command.only_product_id
    if policy is None or (only is not None and policy.product_id != only):
        raise e.UnknownPolicy(command.policy_id)
    if command.precondition is not None:
        command.precondition(policy)
    return policy


def _own_product(
    work: LicenseWork, command: model.CreatePolicy | model.UpdatePolicy, product_id: int | None
) -> int | None:
    """Return the product of a policy, if its caller may choose it. Raises ``UnknownReference``."""
    only = command.only_product_id
    require_product(work.tx, product_id, only)
    if only is not None and product_id is None and isinstance(command, model.UpdatePolicy):
        raise e.UnknownReference("policy without a product for this API key", "/product_id")
    return only or product_id


def _archive(policy: model.Policy, command: model.UpdatePolicy) -> datetime | None:
    if command.is_archived is None:
        return policy.archived_at
    return (policy.archived_at or command.context.now) if command.is_archived else None


def _of(policy: model.Policy) -> dict[str, Any]:
    of_product = {} if policy.product_id is None else {"product_id": policy.product_id}
    return {"policy_id": policy.id, "policy": policy.name} | of_product


def require_sound(policy: model.Policy, *, is_weak_allowed: bool, path: str = "") -> None:
    """Raise ``InvalidParameters`` if the keys would not be license keys, ``PolicyTooWeak`` for weak ones."""
    if not rules.is_drawable(policy):
        reason = "keys would contain control characters, or begin or end with white space"
        raise e.InvalidParameters({f"{path}charset": reason})
    length = rules.key_length(policy)
    if length > keys.MAX_KEY_LENGTH:
        raise e.InvalidParameters(
            {
                f"{path}chunk_length": f"keys would have {length} characters; the maximum is "
                f"{keys.MAX_KEY_LENGTH}"
            }
        )
    bits = rules.entropy_bits(policy.charset, policy.chunks, policy.chunk_length)
    if bits < rules.MIN_ENTROPY_BITS and not is_weak_allowed:
        raise e.PolicyTooWeak(bits)


def draw_keys(work: LicenseWork, policy: model.Policy, amount: int) -> list[str]:
    """Draw distinct keys that no license has; return them in the order in which they were drawn."""
    new: dict[str, None] = {}
    draws_left = amount * _DRAWS_PER_KEY
    while len(new) < amount:
        wanted = amount - len(new)
        draws_left -= wanted
        if draws_left < 0:
            raise e.InvalidParameters({"amount": "the policy cannot make that many new keys"})
        drawn = dict.fromkeys(rules.generate_key(policy) for _ in range(wanted))
        taken = license_store.find_licenses(work.tx, drawn)
        new |= {key: None for key in drawn if key not in taken and not work.has_license(key)}
    return list(new)


def draw_key_of(work: LicenseWork, license: License) -> str:
    """Draw a new key for a license, in the format of its policy."""
    policy = None if license.policy_id is None else policy_store.find_policy(work.tx, license.policy_id)
    return keys.new_license_key() if policy is None else draw_keys(work, policy, 1)[0]


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    model.CreatePolicy: create_policy,
    model.UpdatePolicy: update_policy,
    model.DeletePolicy: delete_policy,
    model.GenerateLicenses: generate,
}


_MAX_EXAMPLES = 5


def find_policy(read: Any, query: model.GetPolicy) -> model.Policy:
    """Return one policy. Raises ``UnknownPolicy``."""
    return get_policy(read.tx, query.policy_id, query.only_product_id)


def list_policies(read: Any, query: model.ListPolicies) -> tuple[model.Policy, ...]:
    """List all policies, or all of one product."""
    return tuple(policy_store.list_policies(read.tx, product_id=query.only_product_id))


def preview_terms(read: Any, query: model.PreviewTerms) -> model.TermsPreview:
    """Calculate the effect of applying terms. Raises ``UnknownPolicy``."""
    policy = get_policy(read.tx, query.policy_id, query.only_product_id)
    members, only = terms_rules.select_terms(policy.terms, query.names), query.only_product_id
    groups = policy_store.group_by_terms(read.tx, policy.id, product_id=only)
    changed = [(one, after) for one in groups if (after := _apply(one, members, query)) != one.terms]
    limits = terms_rules.copy_terms(Terms(), members)
    return model.TermsPreview(
        licenses=sum(one.licenses for one in groups),
        changed=sum(one.licenses for one, _ in changed),
        lowered=sum(one.licenses for one, after in changed if _is_lower(one.terms, after)),
        over_limit=policy_store.count_over_limit(
            read.tx, policy.id, limits, product_id=only, is_forced=query.overwrite
        ),
        examples=[
            (
                one.first_id,
                terms_rules.select_terms(one.terms, query.names),
                terms_rules.select_terms(after, query.names),
            )
            for one, after in changed[:_MAX_EXAMPLES]
        ],
    )


def _apply(group: model.TermsGroup, members: Mapping[str, Any], query: model.PreviewTerms) -> Terms:
    wanted = multiply_members(members, group.quantity)
    return terms_rules.write_by_rule(group.terms, group.rule_terms, wanted, is_forced=query.overwrite).terms


def _is_lower(before: Terms, after: Terms) -> bool:
    """Whether a limit decreases."""
    pairs = ((getattr(before, name), getattr(after, name)) for name in terms_rules.LIMITS)
    return any(new is not None and (old is None or new < old) for old, new in pairs)


def find_policies(read: Any, query: model.FindPolicies) -> ItemPage[model.Policy]:
    """Return a page of policies."""
    return policy_store.find_policies(read.tx, query)
