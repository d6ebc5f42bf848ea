"""Write what programs see of licenses and activations."""

from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from keywright.http.v3 import client_schemas as schemas
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.views.model import LicenseView, NamedPolicy, NamedProduct


def show_license(view: LicenseView, now: datetime) -> schemas.ClientLicense:
    """The license as it is at that time."""
    license, product, policy = view.license, view.product, view.policy
    return schemas.ClientLicense(
        license.id,
        None if product is None else _show_product(product),
        None if policy is None else _show_policy(policy),
        license_rules.state(license, now),
        license.expires_at,
        None if license.expires_at is None else license_rules.grace_until(license),
        license.times_activated_max,
        license.times_activated,
        None if license.terms is None else license_rules.terms_of(license).max_leases,
        view.usage,
        {} if license.metadata is None else _public_part(license.metadata),
    )


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


def _show_product(one: NamedProduct) -> schemas.NamedProduct:
    return schemas.NamedProduct(one.id, one.code, one.name)


def _show_policy(one: NamedPolicy) -> schemas.NamedPolicy:
    return schemas.NamedPolicy(one.id, one.name)


@lru_cache(maxsize=1024)
def _public_part(metadata: str) -> Any:
    return msgspec.json.decode(metadata).get("public", {})
