"""Read policies."""

from collections.abc import Mapping
from typing import Any

from keywright.core.paging import ItemPage
from keywright.licensing.licenses.rules import multiply_members
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import LIMITS, copy_terms, select_terms, write_by_rule
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.policies.commands import FindPolicies, GetPolicy, ListPolicies, PreviewTerms
from keywright.provisioning.policies.handlers import get_policy
from keywright.provisioning.policies.model import Policy, TermsGroup, TermsPreview

_MAX_EXAMPLES = 5


def find_policy(read: Any, query: GetPolicy) -> Policy:
    """One policy. Raises ``UnknownPolicy``."""
    return get_policy(read.tx, query.policy_id, query.only_product_id)


def list_policies(read: Any, query: ListPolicies) -> tuple[Policy, ...]:
    """Every policy, or every one of a product."""
    return tuple(policy_store.list_policies(read.tx, product_id=query.only_product_id))


def preview_terms(read: Any, query: PreviewTerms) -> TermsPreview:
    """The effect of applying terms. Raises ``UnknownPolicy``."""
    policy = get_policy(read.tx, query.policy_id, query.only_product_id)
    members, only = select_terms(policy.terms, query.names), query.only_product_id
    groups = policy_store.group_by_terms(read.tx, policy.id, product_id=only)
    changed = [(one, after) for one in groups if (after := _apply(one, members, query)) != one.terms]
    limits = copy_terms(Terms(), members)
    return TermsPreview(
        licenses=sum(one.licenses for one in groups),
        changed=sum(one.licenses for one, _ in changed),
        lowered=sum(one.licenses for one, after in changed if _is_lower(one.terms, after)),
        over_limit=policy_store.count_over_limit(
            read.tx, policy.id, limits, product_id=only, is_forced=query.overwrite
        ),
        examples=[
            (one.first_id, select_terms(one.terms, query.names), select_terms(after, query.names))
            for one, after in changed[:_MAX_EXAMPLES]
        ],
    )


def _apply(group: TermsGroup, members: Mapping[str, Any], query: PreviewTerms) -> Terms:
    wanted = multiply_members(members, group.quantity)
    return write_by_rule(group.terms, group.rule_terms, wanted, is_forced=query.overwrite).terms


def _is_lower(before: Terms, after: Terms) -> bool:
    """Whether a limit of the terms falls."""
    pairs = ((getattr(before, name), getattr(after, name)) for name in LIMITS)
    return any(new is not None and (old is None or new < old) for old, new in pairs)


def find_policies(read: Any, query: FindPolicies) -> ItemPage[Policy]:
    """A page of policies."""
    return policy_store.find_policies(read.tx, query)
