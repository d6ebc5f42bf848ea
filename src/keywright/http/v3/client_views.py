"""Write what programs see of activations."""

from datetime import datetime

from keywright.http.v3 import client_schemas as schemas
from keywright.licensing.activations.model import Activation, LicenseView
from keywright.licensing.licenses import rules as license_rules


def show_activation(one: Activation, now: datetime) -> schemas.ClientActivation:
    """The record of the device that calls."""
    return schemas.ClientActivation(
        one.id,
        one.token,
        one.fingerprint,
        one.label,
        one.platform,
        one.app_version,
        one.meta_data or {},
        one.created_at,
        now,
        one.deactivated_at,
    )


def entitlements_of(view: LicenseView) -> tuple[str, ...]:
    """The features that the license includes."""
    return () if view.license.terms is None else license_rules.terms_of(view.license).entitlements
