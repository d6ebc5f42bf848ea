"""Trials."""

from datetime import datetime

import msgspec

from keywright.licensing.activations.model import Activation
from keywright.licensing.views.model import LicenseView


class Trial(msgspec.Struct, frozen=True):
    """The license of a device's trial, which may have been deleted. ``email`` is as the device said it: it
    belongs to no customer until a sign-in has proved it.
    """

    product_id: int
    license_id: int
    email: str | None
    created_at: datetime


class StartedTrial(msgspec.Struct, frozen=True):
    """The license of a trial with the device's activation, None where another device has taken its place."""

    view: LicenseView
    activation: Activation | None
    is_new: bool
