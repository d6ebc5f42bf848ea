"""Database access for policies."""

from typing import Any

import sqlalchemy as sa

from keywright.core.nouns import ItemPage
from keywright.db import rows
from keywright.db.bulk import Values
from keywright.db.rows import read_page, to_seconds, with_datetimes
from keywright.db.schema import lease_counters, licenses, policies
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import LIMITS, parse_policy_terms, parse_terms, policy_to_text
from keywright.provisioning.policies.model import FindPolicies, Policy, TermsGroup


def find_policy(tx: ReadTransaction, policy_id: int) -> Policy | None:
    """Return the policy with this ID. In a write transaction, it cannot be deleted until the end."""
    return tx.first(_KEPT if isinstance(tx, WriteTransaction) else _BY_ID, _policy_of, id=policy_id)


def list_policies(tx: ReadTransaction, *, product_id: int | None = None) -> list[Policy]:
    """List all policies, or all of this product, oldest first."""
    query = sa.select(*POLICY).order_by(policies.c.id)
    if product_id is not None:
        query = query.where(policies.c.product_id == product_id)
    return [_policy_of(row) for row in tx.connection.execute(query)]


def find_policies(tx: ReadTransaction, query: FindPolicies) -> ItemPage[Policy]:
    """Return a page of the matching policies."""
    column, conditions = policies.c, []
    for product_id in (query.product_id, query.only_product_id):
        if product_id is not None:
            conditions.append(column.product_id == product_id)
    if query.is_archived is not None:
        archived_at = column.archived_at
        conditions.append(archived_at.is_not(None) if query.is_archived else archived_at.is_(None))
    if query.created_after is not None:
        conditions.append(column.created_at > to_seconds(query.created_after))
    if query.created_before is not None:
        conditions.append(column.created_at < to_seconds(query.created_before))
    return read_page(tx, sa.select(*POLICY).where(*conditions), query.paging, _policy_of)


def has_licenses(tx: ReadTransaction, policy_id: int) -> bool:
    """Whether a license belongs to this policy."""
    query = sa.select(sa.exists().where(licenses.c.policy_id == policy_id))
    return bool(tx.connection.execute(query).scalar_one())


def group_by_terms(tx: ReadTransaction, policy_id: int, *, product_id: int | None) -> list[TermsGroup]:
    """Group the licenses of a policy, and of a product if one is given, by their terms."""
    column = licenses.c
    keys = (
        *(column.terms, column.times_activated_max, column.valid_for_days),
        *(column.quantity, column.rule_terms),
    )
    query = sa.select(*keys, sa.func.count(), sa.func.min(column.id)).group_by(*keys)
    rows_found = tx.connection.execute(query.where(*_of_policy(policy_id, product_id)))
    found = [
        TermsGroup(parse_terms(text, limit, days), quantity, rule_terms, number, first_id)
        for text, limit, days, quantity, rule_terms, number, first_id in rows_found
    ]
    return sorted(found, key=lambda one: one.first_id)


def count_over_limit(
    tx: ReadTransaction, policy_id: int, terms: Terms, *, product_id: int | None, is_forced: bool
) -> int:
    """Count the policy's licenses with more places or leases taken than these terms, multiplied by their
    quantities, allow. Without ``is_forced``, limits that were set by hand stay.
    """
    # A subquery per license: there may be very many counters of licenses of other policies.
    held = sa.select(lease_counters.c.held).where(lease_counters.c.license_id == licenses.c.id)
    taken = {"max_activations": licenses.c.times_activated, "max_leases": held.scalar_subquery()}
    over = [
        sa.and_(
            taken[name] > getattr(terms, name) * licenses.c.quantity,
            sa.true() if is_forced else sa.func.coalesce(licenses.c.rule_terms, "").not_like(f'%"{name}"%'),
        )
        for name in LIMITS
        if getattr(terms, name) is not None
    ]
    query = sa.select(sa.func.count()).select_from(licenses)
    query = query.where(*_of_policy(policy_id, product_id), sa.or_(sa.false(), *over))
    return int(tx.connection.execute(query).scalar_one())


def _of_policy(policy_id: int, product_id: int | None) -> list[sa.ColumnElement[bool]]:
    is_of_policy = licenses.c.policy_id == policy_id
    return [is_of_policy] if product_id is None else [is_of_policy, licenses.c.product_id == product_id]


def save_new_policy(tx: WriteTransaction, policy: Policy) -> int:
    """Insert a policy, with the next ID if it has none; return its ID."""
    own_id = {"id": policy.id} if policy.id else {}
    return tx.insert(policies, policy_values(policy) | own_id)


def lock_policy(tx: WriteTransaction, policy_id: int) -> Policy | None:
    """Return the policy with this ID, locked until the end of the transaction."""
    query = sa.select(*POLICY).where(policies.c.id == policy_id)
    return tx.first(query.with_for_update(), _policy_of)


def save_policy(tx: WriteTransaction, policy: Policy) -> None:
    """Update all columns of a policy."""
    query = sa.update(policies).where(policies.c.id == policy.id)
    tx.connection.execute(query.values(policy_values(policy)))


def delete_policy(tx: WriteTransaction, policy_id: int) -> None:
    """Delete a policy; its licenses stay."""
    tx.connection.execute(sa.delete(policies).where(policies.c.id == policy_id))


def policy_values(policy: Policy) -> Values:
    """Return all columns except the ID."""
    return rows.to_columns(policy) | {"terms": policy_to_text(policy.terms)}


POLICY = [policies.c[name] for name in Policy.__struct_fields__]


_BY_ID = sa.select(*POLICY).where(policies.c.id == sa.bindparam("id"))
_KEPT = _BY_ID.with_for_update(read=True, key_share=True)


def _policy_of(row: sa.Row[Any]) -> Policy:
    values = with_datetimes(row)
    return Policy(**values | {"terms": parse_policy_terms(values["terms"])})
