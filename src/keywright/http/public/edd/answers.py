"""Answers to clients of EDD Software Licensing: https://easydigitaldownloads.com/docs/software-licensing-api/

The clients read some members even of negative answers, and pass others to PHP's ``unserialize``.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from keywright.core import errors as e
from keywright.http.plugin_texts import (
    banners_of,
    date_of,
    describe,
    encode_astral,
    icons_of,
    message_of,
    message_of_wrong,
    requirement,
    sections_of,
    tested_with,
)
from keywright.licensing.activations.model import NamedProduct
from keywright.licensing.activations.site_handlers import SitePlace
from keywright.licensing.activations.sites import Item
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License, Status, order_of
from keywright.licensing.updates.queries import CheckedUpdate
from keywright.licensing.updates.rules import UpdateCode

#: An ID. A longer number is not one and stays the text that was sent.
_NUMBER = re.compile(r"[0-9]{1,18}")
#: The first members of every negative answer.
INVALID: dict[str, Any] = {"success": False, "license": "invalid"}


# --- licenses -------------------------------------------------------------------------------------


def name_state(place: SitePlace, item: Item, now: datetime) -> str:
    """Return the state of a license for a site, as ``check_license`` reports it."""
    if place.view is None:
        return "invalid"
    license, activation = place.view.license, place.activation
    if not place.is_item:
        return _mismatch(item)
    if _is_expired(license, now):
        return "expired"
    if license.status in (Status.DISABLED, Status.INACTIVE):
        return "disabled"
    if activation is None or activation.deactivated_at is not None:
        return "site_inactive" if license.active_count else "inactive"
    return "valid"


def name_error(place: SitePlace, item: Item, now: datetime) -> str:
    """Return the reason why a site was not activated: the first that applies, in EDD's order."""
    if place.view is None:
        return "missing"
    license, own = place.view.license, place.activation
    if license.status in (Status.DISABLED, Status.INACTIVE):
        return "disabled"
    limit, holds = license.times_activated_max, own is not None and own.deactivated_at is None
    is_full = limit is not None and license.times_activated >= limit and not holds
    if isinstance(place.refusal, e.LimitReached) or (is_full and not place.is_item):
        return "no_activations_left"
    if _is_expired(license, now):
        return "expired"
    return "no_activations_left" if place.is_item else _mismatch(item)


def _mismatch(item: Item) -> str:
    return "item_name_mismatch" if item.id is None else "invalid_item_id"


def _is_expired(license: License, now: datetime) -> bool:
    terms = license_rules.terms_of(license)
    until = license_rules.valid_until(license, terms)
    return license.expires_at is not None and until is not None and now >= until


def show_activated(place: SitePlace, item: Item, now: datetime) -> dict[str, Any]:
    """Build the answer to ``activate_license``."""
    if place.view is not None and place.refusal is None and place.is_item:
        is_local = place.activation is not None and not place.activation.is_counted
        local = {"is_local": True} if is_local else {}
        return {"success": True, "license": "valid"} | _show(place, item) | local
    shown = INVALID | _show(place, item) | {"error": name_error(place, item, now)}
    is_full = shown["error"] == "no_activations_left"
    return shown | ({"max_sites": shown["license_limit"]} if is_full else {})


def refuse_without_site(item: Item) -> dict[str, Any]:
    """Build the answer to ``activate_license`` without a site."""
    return INVALID | _show(SitePlace(), item) | {"error": "missing_url"}


def show_deactivated(place: SitePlace, item: Item) -> dict[str, Any]:
    """Build the answer to ``deactivate_license``, in which ``expires`` is a Unix time."""
    state = "deactivated" if place.is_changed else "failed"
    shown = {"success": place.is_changed, "license": state} | _show(place, item)
    ends_at = None if place.view is None else place.view.license.expires_at
    return shown if ends_at is None else shown | {"expires": int(ends_at.timestamp())}


def show_checked(place: SitePlace, item: Item, now: datetime) -> dict[str, Any]:
    """Build the answer to ``check_license``."""
    state = name_state(place, item, now)
    return {"success": place.view is not None, "license": state} | _show(place, item)


def _show(place: SitePlace, item: Item) -> dict[str, Any]:
    """Describe the product as the caller named it, and the license. Leave the buyer out: a key does not
    identify its holder.
    """
    product = None if place.view is None else place.view.product
    name = item.name or (None if product is None else product.name) or ""
    number = int(item.id) if item.id and _NUMBER.fullmatch(item.id) else item.id
    named = {"item_id": number or False, "item_name": name}
    if place.view is None:
        # The SDK reads ``expires`` of every answer.
        return named | {"expires": False}
    license = place.view.license
    limit, taken = license.times_activated_max, license.times_activated
    return named | {
        "license_limit": limit or 0,
        "site_count": taken,
        "expires": "lifetime" if license.expires_at is None else f"{license.expires_at:%Y-%m-%d %H:%M:%S}",
        "activations_left": "unlimited" if limit is None else max(0, limit - taken),
        "payment_id": order_of(license).number or 0,
        "customer_name": "",
        "customer_email": "",
        "price_id": False,
    }


def checksum(values: Iterable[str]) -> str:
    """Return the checksum of the request's values. It is not a secret."""
    text = msgspec.json.encode(sorted(values, key=len, reverse=True))
    return hashlib.md5(text, usedforsecurity=False).hexdigest()


# --- versions -------------------------------------------------------------------------------------


def show_version(found: CheckedUpdate, slug: str, version: str, package: str) -> dict[str, Any]:
    """Describe the newest version for a site; ``package`` is its URL, "" if the site may not download it."""
    product = found.product
    if product is None or found.decision.code in (UpdateCode.PRODUCT_MISMATCH, UpdateCode.KEY_ROTATED):
        return nothing(product)
    if not found.shown and (found.decision.is_refused or not version):
        return nothing(product)
    about, newest = describe(product), found.shown[0] if found.shown else None
    answer = {
        "new_version": version if newest is None else newest.release.version,
        "stable_version": next((one.release.version for one in found.shown), version),
        "name": encode_astral(product.name or ""),
        "slug": slug or about.get("slug") or product.code or str(product.id),
        "url": product.url or "",
        "last_updated": date_of(newest),
        "homepage": product.url or "",
        "package": package,
        "download_link": package,
        "sections": serialize(sections_of(product, found.shown)),
        "banners": serialize(banners_of(about)),
        "icons": serialize(icons_of(about)),
        "requires": requirement(newest, "wp"),
        "requires_php": requirement(newest, "php"),
        "tested": tested_with(newest),
        "contributors": {},
    }
    return answer if package else answer | {"msg": message_of(found.decision)}


def nothing(product: NamedProduct | None) -> dict[str, Any]:
    """Build the answer for a wrong license key or product, and for a product without releases to offer."""
    names = "new_version stable_version sections license_check homepage package url".split()
    name = "" if product is None else product.name or product.code or ""
    of_wrong = {"msg": message_of_wrong(name), "icons": [], "banners": []}
    return dict.fromkeys(names, "") | of_wrong


def serialize(values: Mapping[str, str]) -> str:
    """Write an array of texts in the format of PHP's ``serialize``; lengths are in bytes."""
    parts = (f"{_text(name)}{_text(value)}" for name, value in values.items())
    return f"a:{len(values)}:{{{''.join(parts)}}}"


def _text(value: str) -> str:
    return f's:{len(value.encode())}:"{value}";'
