"""Take, take back, give up and report places on a license."""

from collections.abc import Mapping

from keywright.core.command import Cost, Query
from keywright.licensing.licenses.commands import LicenseCommand
from keywright.licensing.licenses.model import LicenseFilter


class Activate(LicenseCommand, frozen=True, kw_only=True):
    """Take a new place."""

    label: str | None = None
    meta_data: Mapping[str, str] | None = None


class Reactivate(LicenseCommand, frozen=True, kw_only=True):
    """Take back the place with this token."""

    token: str


class Deactivate(LicenseCommand, frozen=True, kw_only=True):
    """Give up the place with this token."""

    token: str


class DeactivateAll(LicenseCommand, frozen=True, kw_only=True):
    """Give up every place."""


class Validate(Query, frozen=True, kw_only=True):
    """Report the license with all its activations, or with the active one that has this token."""

    key: str
    token: str | None = None
    only_product_id: int | None = None


class ValidateAlone(Validate, frozen=True, kw_only=True):
    """The same, also for a license that has so many records that no other call should wait for it."""

    cost = Cost.LARGE


class FindLicenses(Query, frozen=True, kw_only=True):
    """The next ``limit`` matching licenses after this id, oldest first: a list read piece by piece."""

    cost = Cost.LIST

    where: LicenseFilter
    after_id: int
    limit: int


class ListLicenses(Query, frozen=True, kw_only=True):
    """Page ``page`` (from 1) of the matching licenses, oldest first, and how many match."""

    cost = Cost.LIST

    where: LicenseFilter
    page: int
    per_page: int
