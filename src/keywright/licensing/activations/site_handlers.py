"""Handlers of WordPress sites' commands about their place. A refusal is returned, not raised: the answer
shows the license.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct

from keywright.core.command import Command, Query
from keywright.core.errors import KeyRotated, OtherProductKey, Refusal, UnknownLicense
from keywright.licensing.activations import device_handlers, model, records
from keywright.licensing.activations.device_handlers import find_activation, get_license
from keywright.licensing.activations.sites import Item
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.views_store import Views


class ActivateSite(model.ActivateDevice, frozen=True, kw_only=True):
    """Give a site its place; its fingerprint is that of ``sites.parse_site``. Returns ``SitePlace``."""

    item: Item = Item()
    is_site: ClassVar[bool] = True


class DeactivateSite(model.DeactivateDevice, frozen=True, kw_only=True):
    """Give up the place of a site, while the license is in force. Returns ``SitePlace``."""

    item: Item = Item()


class CheckSite(Query, frozen=True, kw_only=True):
    """Return the license with a key, and the record of a site, as ``SitePlace``."""

    key: str
    fingerprint: str
    item: Item
    now: datetime
    only_product_id: int | None = None


class SitePlace(Struct, frozen=True, gc=False):
    """A license as a site sees it, or None for an unknown key; the record of the site; and why it was
    refused. ``is_item`` is whether the license is for the product that the site names.
    """

    view: model.LicenseView | None = None
    activation: model.Activation | None = None
    refusal: Refusal | None = None
    is_item: bool = True
    is_changed: bool = False


def activate_site(work: LicenseWork, command: ActivateSite) -> SitePlace:
    """Give a site its place."""
    before = _find(work, command, command.item)
    if before.view is None or not before.is_item:
        return before
    try:
        place = device_handlers.activate_device(work, command)
    except Refusal as refusal:
        return SitePlace(before.view, before.activation, refusal)
    return SitePlace(place.view, place.activation, is_changed=place.change is not model.PlaceChange.KEPT)


def deactivate_site(work: LicenseWork, command: DeactivateSite) -> SitePlace:
    """Give up the place of a site."""
    before = _find(work, command, command.item)
    if before.view is None or before.activation is None or not before.is_item:
        return before
    try:
        license_rules.require_in_force(before.view.license, command.context.now)
    except Refusal as refusal:
        return SitePlace(before.view, before.activation, refusal)
    place = device_handlers.deactivate_device(work, command)
    return SitePlace(place.view, place.activation, is_changed=place.was_active)


def _find(work: LicenseWork, command: ActivateSite | DeactivateSite, item: Item) -> SitePlace:
    try:
        license = get_license(work, command)
    except (UnknownLicense, KeyRotated) as refusal:
        return SitePlace(refusal=refusal)
    view = work.devices.views.show(license, command.context.now)
    own = find_activation(work, license, command)
    return SitePlace(view, own, is_item=item.fits(view.product))


def check_site(read: Any, query: CheckSite) -> SitePlace:
    """Answer a site about a license. Raises ``OtherProductKey``."""
    found, activations = records.find_devices(read.tx, {(query.key, query.fingerprint, None)})
    license = found.get(query.key)
    if license is None:
        return SitePlace(refusal=UnknownLicense(query.key))
    if query.only_product_id not in (None, license.product_id):
        raise OtherProductKey
    view = Views(read.tx, read.names).show(license, query.now)
    own = next(iter(activations.get(license.id, ())), None)
    return SitePlace(view, own, is_item=query.item.fits(view.product))


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    ActivateSite: activate_site,
    DeactivateSite: deactivate_site,
}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {CheckSite: check_site}
