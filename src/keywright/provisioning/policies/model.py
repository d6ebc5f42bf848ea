"""Policies."""

from datetime import datetime
from typing import Any

import msgspec

from keywright.licensing.terms.model import Terms


class TermsGroup(msgspec.Struct, frozen=True):
    """How many licenses of a policy have the same terms, and the number of one of them."""

    terms: Terms
    quantity: int
    rule_terms: str | None
    licenses: int
    first_id: int


class TermsPreview(msgspec.Struct, frozen=True):
    """What applying terms to the licenses of a policy would do. The limits of ``lowered`` would fall;
    ``over_limit`` have more places or leases taken than the new limits. ``examples`` are licenses that would
    change, each with its members before and after.
    """

    licenses: int
    changed: int
    lowered: int
    over_limit: int
    examples: list[tuple[int, dict[str, Any], dict[str, Any]]]


class Policy(msgspec.Struct, frozen=True):
    """The recipe for licenses: the terms that they get, and their keys: prefix, ``chunks`` runs of
    ``chunk_length``, suffix. No license is made from one that is archived.
    """

    id: int
    name: str
    charset: str
    chunks: int
    chunk_length: int
    separator: str | None
    prefix: str | None
    suffix: str | None
    created_at: datetime
    created_by: int | None
    updated_at: datetime
    updated_by: int | None
    product_id: int | None = None
    terms: Terms = Terms()
    archived_at: datetime | None = None
