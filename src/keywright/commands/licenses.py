"""Commands about licenses, their places, and generators."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keywright.commands.root import Command, LicenseCommand


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


class CreateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Make a license with this key."""

    status: int
    order_id: int | None = None
    product_id: int | None = None
    user_id: int | None = None
    expires_at: datetime | None = None
    valid_for_days: int | None = None
    times_activated_max: int | None = None


class UpdateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``License``."""

    changes: Mapping[str, Any]


class DeleteLicense(LicenseCommand, frozen=True, kw_only=True):
    """Delete the license and its activations."""


class CreateGenerator(Command, frozen=True, kw_only=True):
    """Make a generator; ``is_weak_allowed`` lets keys through that could be guessed."""

    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: int | None = None
    separator: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    expires_in_days: int | None = None
    is_weak_allowed: bool = False


class UpdateGenerator(Command, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``Generator``."""

    generator_id: int
    changes: Mapping[str, Any]
    is_weak_allowed: bool = False


class DeleteGenerator(Command, frozen=True, kw_only=True):
    """Delete the generator; its licenses stay."""

    generator_id: int


class GenerateLicenses(Command, frozen=True, kw_only=True):
    """Make ``amount`` licenses with the generator, all or none."""

    generator_id: int
    amount: int
    status: int
    order_id: int | None = None
    product_id: int | None = None
    user_id: int | None = None


class ShowKey(LicenseCommand, frozen=True, kw_only=True):
    """Somebody looks at the whole license key."""


class ExtendLicense(LicenseCommand, frozen=True, kw_only=True):
    """Let the license be good for so many days after its present expiry; or after ``now``."""

    days: int
    is_from_now: bool = False


class RaiseLimit(LicenseCommand, frozen=True, kw_only=True):
    """Allow so many places more."""

    places: int
