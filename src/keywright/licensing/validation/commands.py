"""Ask whether a program may run."""

from datetime import datetime

from keywright.core.command import Query


class ValidateLicense(Query, frozen=True, kw_only=True):
    """Whether a license is valid for a device, a product (number or code), a build and these entitlements.

    ``lease_id`` names the lease of a floating license.
    """

    key: str
    now: datetime
    fingerprint: str | None = None
    token: str | None = None
    product: int | str | None = None
    built_at: datetime | None = None
    lease_id: str | None = None
    entitlements: tuple[str, ...] = ()
    only_product_id: int | None = None

    @property
    def is_device_named(self) -> bool:
        """Whether it names a device."""
        return self.fingerprint is not None or self.token is not None
