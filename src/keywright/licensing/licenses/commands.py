"""Commands about licenses."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType

from keywright.core.command import Command


class LicenseCommand(Command, frozen=True, kw_only=True):
    """A request to change a license, which is named by its key or by its id.

    With ``only_product_id``, licenses of other products do not exist for the caller.
    """

    license: str | int
    only_product_id: int | None = None

    @property
    def locks(self) -> Collection[str | int]:
        """The license."""
        return (self.license,)


class NewLicenseCommand(Command, frozen=True, kw_only=True):
    """A request to make licenses, with a status and numbers of the vendor's shop."""

    status: int
    order_id: int | None = None
    product_id: int | None = None
    customer_id: int | None = None
    external_id: str | None = None


class CreateLicense(NewLicenseCommand, frozen=True, kw_only=True):
    """Make a license with this key."""

    key: str
    expires_at: datetime | None = None
    valid_for_days: int | None = None
    times_activated_max: int | None = None

    @property
    def locks(self) -> Collection[str | int]:
        """The license that may have the key already."""
        return (self.key,)


class UpdateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``License``; ``terms``, ``order`` (with the fields
    of ``Order``) and ``metadata`` are JSON merge patches.
    """

    changes: Mapping[str, Any] = {}
    terms: Mapping[str, Any] = {}
    order: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] | UnsetType | None = UNSET

    @property
    def locks(self) -> Collection[str | int]:
        """The license, and the one that may have the new key already."""
        new_key = self.changes.get("key")
        return (self.license,) if new_key is None else (self.license, new_key)


class ApplyTerms(LicenseCommand, frozen=True, kw_only=True):
    """Give the license these members of its policy's terms, as JSON, for its quantity; all others stay, and
    those that were set by hand, but with ``overwrite``.
    """

    terms: Mapping[str, Any]
    overwrite: bool = False


class DeleteLicense(LicenseCommand, frozen=True, kw_only=True):
    """Delete the license and its activations."""


class ShowKey(LicenseCommand, frozen=True, kw_only=True):
    """Show the whole license key to a user."""


class ExtendLicense(LicenseCommand, frozen=True, kw_only=True):
    """Move the expiry this many days after the present one, after ``now``, or after the later of both; or to
    the moment ``until``.
    """

    days: int = 0
    is_from_now: bool = False
    is_from_later: bool = False
    until: datetime | None = None


class RaiseLimit(LicenseCommand, frozen=True, kw_only=True):
    """Allow this many more places."""

    places: int


#: The licenses that are given a new key, by that key.
Renames = dict[str | int, list[str | int]]


def with_former_names(names: Iterable[str | int], renames: Renames) -> list[str | int]:
    """These names, and those that licenses have had before they were given one of these."""
    seen = [*names]
    for name in seen:
        # Goes on with the names that are added.
        seen += [old for old in renames.get(name, ()) if old not in seen]
    return seen


def find_renames(commands: Iterable[Command]) -> Renames:
    """The licenses that commands give a new key, by that key."""
    renames: Renames = {}
    for one in commands:
        if type(one) is UpdateLicense and "key" in one.changes:
            renames.setdefault(one.changes["key"], []).append(one.license)
    return renames
