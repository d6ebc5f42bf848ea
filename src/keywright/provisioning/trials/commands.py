"""Start trials."""

from datetime import datetime

from keywright.core.command import Command, Cost, Query
from keywright.licensing.activations.model import Device


class StartTrial(Command, frozen=True, kw_only=True):
    """Start the trial of a product (number or code) for the device with this fingerprint, or return the one
    that it has had. ``policy_id`` is needed where the product has several policies for trials.
    """

    # It makes a license, and most of its statements are its own.
    cost = Cost.ALONE

    product: int | str
    fingerprint: str
    device: Device
    policy_id: int | None = None
    email: str | None = None
    built_at: datetime | None = None
    only_product_id: int | None = None


class HasTrial(Query, frozen=True, kw_only=True):
    """Whether the device with this fingerprint has had its trial of a product (number or code)."""

    product: int | str
    fingerprint: str
    only_product_id: int | None = None
