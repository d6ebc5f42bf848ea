"""Commands and queries about policies."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keywright.core.command import Command, Cost, Query
from keywright.core.paging import Paging
from keywright.licensing.licenses.commands import NewLicenseCommand


class CreatePolicy(Command, frozen=True, kw_only=True):
    """Make a policy; ``is_weak_allowed`` permits keys that could be guessed. With ``id``, bring back one that
    had it.

    ``terms`` are a JSON merge patch of the default terms. With ``only_product_id``, the policy is for that
    product. ``key_path`` is the path of the key format in what the caller sent, for refusals.
    """

    name: str
    charset: str
    chunks: int
    chunk_length: int
    separator: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    product_id: int | None = None
    terms: Mapping[str, Any] = {}
    is_weak_allowed: bool = False
    only_product_id: int | None = None
    key_path: str = ""
    id: int | None = None
    is_archived: bool = False


class UpdatePolicy(Command, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``Policy``; ``terms`` are a JSON merge patch.

    ``only_product_id`` as in ``LicenseCommand``, ``key_path`` as in ``CreatePolicy``.
    """

    policy_id: int
    changes: Mapping[str, Any] = {}
    terms: Mapping[str, Any] = {}
    is_archived: bool | None = None
    only_product_id: int | None = None
    is_weak_allowed: bool = False
    key_path: str = ""


class DeletePolicy(Command, frozen=True, kw_only=True):
    """Delete the policy; its licenses stay. With ``is_unused``, only if there are none."""

    policy_id: int
    only_product_id: int | None = None
    is_unused: bool = False


class PreviewTerms(Query, frozen=True, kw_only=True):
    """How many licenses of a policy would change if they got these members of its terms."""

    cost = Cost.LIST

    policy_id: int
    names: tuple[str, ...]
    overwrite: bool = False
    only_product_id: int | None = None


class GenerateLicenses(NewLicenseCommand, frozen=True, kw_only=True):
    """Make ``amount`` licenses with the policy, all or none; ``claimable`` overrules the policy's term, and
    ``only_product_id`` is as in ``LicenseCommand``.
    """

    cost = Cost.LONG

    policy_id: int
    amount: int
    claimable: bool | None = None
    only_product_id: int | None = None


class GetPolicy(Query, frozen=True, kw_only=True):
    """The policy with this id; ``only_product_id`` as in ``LicenseCommand``."""

    policy_id: int
    only_product_id: int | None = None


class ListPolicies(Query, frozen=True, kw_only=True):
    """Every policy, oldest first; with ``only_product_id``, every policy of that product."""

    only_product_id: int | None = None


class FindPolicies(Query, frozen=True, kw_only=True):
    """A page of the policies that match."""

    paging: Paging
    product_id: int | None = None
    is_archived: bool | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    only_product_id: int | None = None
