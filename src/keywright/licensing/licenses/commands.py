"""Commands about licenses, their places, and generators."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keywright.core.command import Command


class LicenseCommand(Command, frozen=True, kw_only=True):
    """A request to change the license with this key.

    With ``only_product_id``, licenses of other products do not exist for the caller.
    """

    key: str
    only_product_id: int | None = None


class CreateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Make a license with this key."""

    status: int
    order_id: int | None = None
    product_id: int | None = None
    customer_id: int | None = None
    expires_at: datetime | None = None
    valid_for_days: int | None = None
    times_activated_max: int | None = None


class UpdateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``License``."""

    changes: Mapping[str, Any]


class DeleteLicense(LicenseCommand, frozen=True, kw_only=True):
    """Delete the license and its activations."""


class ShowKey(LicenseCommand, frozen=True, kw_only=True):
    """Somebody looks at the whole license key."""


class ExtendLicense(LicenseCommand, frozen=True, kw_only=True):
    """Let the license be good for so many days after its present expiry; or after ``now``."""

    days: int
    is_from_now: bool = False


class RaiseLimit(LicenseCommand, frozen=True, kw_only=True):
    """Allow so many places more."""

    places: int


def license_commands(command: Command) -> list[LicenseCommand]:
    """The parts of a command that are about single licenses."""
    return [one for one in command.parts if isinstance(one, LicenseCommand)]
