"""Commands that make licenses and license keys."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.command import Cost
from keywright.licensing.licenses.commands import LicenseCommand, NewLicenseCommand, UpdateLicense
from keywright.licensing.licenses.model import Order

#: The most licenses of one command.
MAX_QUANTITY = 1_000


class CustomerReference(msgspec.Struct, frozen=True):
    """The customer with this id or this e-mail address; a new one with this name and language, if there is
    none.
    """

    id: int | None = None
    email: str | None = None
    name: str | None = None
    language: str | None = None


class IssueLicenses(NewLicenseCommand, frozen=True, kw_only=True):
    """Make licenses from a policy, or one with a key and terms of its own; all or none.

    ``terms`` are a JSON merge patch of the policy's terms, or of the default ones: beside a policy, they are
    set by hand. A sale of so many ``units`` has members ``rule_terms`` in place of the policy's.
    ``expires_at`` is taken where ``has_expiry``; otherwise the terms give it. A license that was made for the
    same order line and index is returned instead of a new one. With ``needs_known_product``, there must be
    this product, or v2 or a shop must have named it. ``only_product_id`` as in ``LicenseCommand``.
    """

    cost = Cost.LONG

    quantity: int = 1
    policy_id: int | None = None
    key: str | None = None
    terms: Mapping[str, Any] = {}
    units: int = 1
    rule_terms: Mapping[str, Any] = {}
    customer: CustomerReference | None = None
    order: Order = Order()
    expires_at: datetime | None = None
    has_expiry: bool = False
    metadata: str | None = None
    needs_known_product: bool = False
    only_product_id: int | None = None

    @property
    def locks(self) -> Collection[str | int]:
        """The license that may have the key already."""
        return () if self.key is None else (self.key,)


class RotateKey(LicenseCommand, frozen=True, kw_only=True):
    """Give the license a new key, made as its policy says. The old one is refused from now on."""


class MoveLicense(UpdateLicense, frozen=True, kw_only=True):
    """Give the license the terms of another policy of its product, for its quantity, and make these changes.
    Terms that were set by hand stay, but with ``overwrite``.
    """

    policy_id: int
    overwrite: bool = False
