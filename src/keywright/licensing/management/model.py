"""Licenses as the management API shows them."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License


class ManagedLicense(msgspec.Struct, frozen=True, gc=False):
    """A license, the number of its leases that are held, the use of its meters in the present periods, when
    it was last validated, as far as that is known, the address that was given for a trial, and what names the
    license in a shop's checkout.
    """

    license: License
    leases: int = 0
    usage: Mapping[str, int] = {}
    last_validated_at: datetime | None = None
    trial_email: str | None = None
    license_ref: str = ""


class ManagedActivation(msgspec.Struct, frozen=True, gc=False):
    """An activation, and when it was last seen, as far as that is known."""

    activation: Activation
    last_seen_at: datetime | None = None


class ActivationPage(msgspec.Struct, frozen=True):
    """Activations of a license, and one more where there is a next page. ``total`` is the number of matches;
    None where it was not asked for.
    """

    activations: tuple[ManagedActivation, ...]
    total: int | None = None
