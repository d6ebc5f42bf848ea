"""Read policies."""

from typing import Any

from keywright.core.paging import ItemPage
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import copy_terms, select_terms
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.policies.commands import FindPolicies, GetPolicy, ListPolicies, PreviewTerms
from keywright.provisioning.policies.handlers import get_policy
from keywright.provisioning.policies.model import Policy, TermsPreview

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
    changed = [one for one in groups if copy_terms(one.terms, members) != one.terms]
    return TermsPreview(
        licenses=sum(one.licenses for one in groups),
        changed=sum(one.licenses for one in changed),
        over_limit=policy_store.count_over_limit(
            read.tx, policy.id, copy_terms(Terms(), members), product_id=only
        ),
        examples=[
            (one.first_id, select_terms(one.terms, query.names), members) for one in changed[:_MAX_EXAMPLES]
        ],
    )


def find_policies(read: Any, query: FindPolicies) -> ItemPage[Policy]:
    """A page of policies."""
    return policy_store.find_policies(read.tx, query)
