"""Licenses, devices, leases and offers as the portal's pages show them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from keywright.core.crypto import mask
from keywright.core.errors import NoSuchAddress
from keywright.core.parsing import MAX_ID
from keywright.db import ReadTransaction
from keywright.http.pages.formats import _
from keywright.http.portal.request import PortalRequest
from keywright.http.portal.texts import STATES
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.records import find_last_seen, list_some_active
from keywright.licensing.activations.store import find_by_id
from keywright.licensing.leases.rules import is_over
from keywright.licensing.leases.store import list_leases
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.keys import make_license_ref
from keywright.licensing.licenses.model import License, State, Status
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.removals import RemovalsLeft, removals_left
from keywright.licensing.store import list_removals
from keywright.licensing.terms.model import Transferable
from keywright.licensing.views_store import Views
from keywright.provisioning.ownership.model import Transfer, TransferState
from keywright.provisioning.ownership.rules import state_of
from keywright.provisioning.ownership.store import list_transfers
from keywright.provisioning.store import find_customers

#: The most leases that a page shows.
_LEASES = 200


class ShownDevice(NamedTuple):
    """A device that holds a place."""

    id: int
    name: str
    about: str
    activated_at: datetime
    seen_at: datetime | None
    runs_until: datetime | None


class ShownLease(NamedTuple):
    """A lease that has not ended."""

    id: str
    holder: str
    device: str
    taken_at: datetime


class ShownOffer(NamedTuple):
    """A license that is offered, without its key and devices."""

    id: int
    license_id: int
    product: str
    state: State
    state_text: str
    license_expires_at: datetime | None
    places: int | None
    offered_by: str
    offered_to: str
    expires_at: datetime


class ShownLicense(NamedTuple):
    """A license as its customer sees it; ``key`` is masked."""

    id: int
    product: str
    key: str
    state: State
    state_text: str
    expires_at: datetime | None
    usable_until: datetime | None
    taken: int
    places: int | None
    devices: tuple[ShownDevice, ...]
    removals: RemovalsLeft
    per_days: int | None
    has_files: bool
    renew_url: str | None = None
    is_transferable: bool = False

    @property
    def hidden(self) -> int:
        """How many devices are not listed."""
        return max(0, self.taken - len(self.devices))

    @property
    def is_full(self) -> bool:
        """Whether no place is free."""
        return self.places is not None and self.taken >= self.places


def show_licenses(
    tx: ReadTransaction, licenses: Sequence[License], now: datetime, *, devices: int
) -> list[ShownLicense]:
    """Return these licenses, each with at most ``devices`` devices. The number of queries is constant."""
    views = Views(tx)
    views.load(licenses)
    active = list_some_active(tx, licenses, devices)
    shown = {one.id: active.get(one.id, [])[:devices] for one in licenses}
    seen = find_last_seen(tx, [one for some in shown.values() for one in some])
    removed = list_removals(tx, [one.id for one in licenses])
    return [
        _show(
            one, _name_product(views, one), [_show_device(device, seen) for device in shown[one.id]]
        )._replace(
            removals=removals_left(license_rules.terms_of(one), removed.get(one.id, ()), now),
            state=(state := license_rules.state(one, now)),
            state_text=_(STATES[state]),
            renew_url=_link_to_renew(tx, views, one),
        )
        for one in licenses
    ]


def find_own(tx: ReadTransaction, request: PortalRequest) -> License:
    """Return the license in the URL. Raises ``NoSuchAddress`` if it is not the customer's."""
    number = request.path_params["id"]
    found = find_licenses_by_id(tx, [number]).get(number) if number <= MAX_ID else None
    if found is None or found.customer_id != request.customer.id:
        raise NoSuchAddress
    return found


def require_own(request: PortalRequest) -> Callable[[License], None]:
    """Return a precondition that raises ``NoSuchAddress`` if the license now belongs to another customer."""
    number = request.customer.id

    def require(license: License) -> None:
        if license.customer_id != number:
            raise NoSuchAddress

    return require


def show_leases(tx: ReadTransaction, license_id: int, now: datetime) -> list[ShownLease]:
    """Return the leases of a license that have not ended, the newest first."""
    found = [one for one in list_leases(tx, license_id, before=None, limit=_LEASES) if not is_over(one, now)]
    places = [(license_id, one.activation_id) for one in found if one.activation_id is not None]
    names = {one.id: _show_device(one, {}).name for one in find_by_id(tx, places)}
    return [
        ShownLease(one.lease_id, one.holder, names.get(one.activation_id or 0, ""), one.created_at)
        for one in found
    ]


def show_pending(tx: ReadTransaction, license: License, now: datetime) -> ShownOffer | None:
    """Return the license's offer that is still open, if there is one."""
    for one in list_transfers(tx, license.id):
        if state_of(one, license.customer_id, now) is TransferState.OFFERED:
            return show_offer(tx, one, now)
    return None


def show_offer(tx: ReadTransaction, transfer: Transfer, now: datetime) -> ShownOffer:
    """Return the offered license of a transfer."""
    license = find_licenses_by_id(tx, [transfer.license_id])[transfer.license_id]
    people = find_customers(tx, [transfer.from_customer_id, transfer.to_customer_id])
    by, to = (people.get(one) for one in (transfer.from_customer_id, transfer.to_customer_id))
    return ShownOffer(
        transfer.id,
        license.id,
        _name_product(Views(tx), license),
        (state := license_rules.state(license, now)),
        _(STATES[state]),
        license.expires_at,
        license.times_activated_max,
        (by and by.email) or "",
        (to and to.email) or "",
        transfer.expires_at,
    )


def _show(license: License, product: str, devices: Sequence[ShownDevice]) -> ShownLicense:
    terms, expires_at = license_rules.terms_of(license), license.expires_at
    allowance = terms.portal_removals
    return ShownLicense(
        id=license.id,
        product=product,
        key=mask(license.key),
        state=State.VALID,
        state_text="",
        expires_at=expires_at,
        usable_until=None if expires_at is None else license_rules.grace_until(license),
        taken=license.times_activated,
        places=license.times_activated_max,
        devices=tuple(devices),
        removals=RemovalsLeft(),
        per_days=None if allowance is None else allowance.per_days,
        has_files=license_rules.allows_files(terms),
        is_transferable=terms.transferable is not Transferable.NO and not terms.trial,
    )


def _link_to_renew(tx: ReadTransaction, views: Views, license: License) -> str | None:
    """Return the URL at which a license can be renewed; None if it never expires, is disabled or has none."""
    product = views.product_of(license)
    if product is None or license.expires_at is None or license.status == Status.DISABLED:
        return None
    return product.link_to_renew(make_license_ref(tx.key_ring, license.id))


def _name_product(views: Views, license: License) -> str:
    product = views.product_of(license)
    name = None if product is None else product.name or product.code
    return name or _("License %(number)s", number=license.id)


def device_name(device: Activation) -> str:
    """Return the name to show for a device."""
    return device.label or device.platform or _("Unnamed device")


def _show_device(device: Activation, seen: dict[int, datetime]) -> ShownDevice:
    about = ", ".join(filter(None, (device.platform, device.app_version)))
    return ShownDevice(
        device.id, device_name(device), about, device.created_at, seen.get(device.id), device.runs_until
    )
