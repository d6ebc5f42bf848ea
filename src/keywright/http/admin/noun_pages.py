"""The values for the pages of products, releases and customers: what belongs to them, and their events."""

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from keywright.core.errors import NoSuchAddress
from keywright.core.nouns import Paging
from keywright.db.transaction import ReadTransaction
from keywright.delivery.mail.store import list_of_customer
from keywright.http.admin import event_views
from keywright.http.admin.activity import Series, build_chart, read_activity
from keywright.http.admin.event_views import read_timeline
from keywright.http.admin.texts import MAIL_STATES, MAIL_TEXTS, version_text
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import require_id
from keywright.http.pages.request import PageRequest
from keywright.identity.model import ApiKey, Right
from keywright.identity.store import list_api_keys
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.records import find_last_seen
from keywright.licensing.licenses.model import License
from keywright.licensing.updates.model import Release, ReleaseState
from keywright.licensing.updates.queries import ExplainRelease, explain_release
from keywright.licensing.updates.rules import UpdateCode
from keywright.licensing.updates.store import RELEASES, list_files, list_newest_notices, list_uses
from keywright.provisioning.customers import read_note
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.products import NameKind
from keywright.provisioning.releases.commands import ListReleases
from keywright.provisioning.releases.fields import ReleaseQuery
from keywright.provisioning.store import CUSTOMERS, PRODUCTS, names_of
from keywright.provisioning.store import customer_has_licenses as has_licenses
from keywright.search import license_pages, reports
from keywright.search.filters import Search
from keywright.search.owned_store import MAX_COUNTED, Place, count_expiries, count_licenses, list_devices
from keywright.search.statistics import ListVersions

#: The most policies that are shown.
_MAX_POLICIES = 100
#: The most releases, and the most notices, that are shown.
_MAX_RELEASES = 20
#: The most versions in the chart.
_MAX_SERIES = 4
_EPOCH = date(1970, 1, 1)


def read_product(tx: ReadTransaction, request: PageRequest) -> dict[str, Any]:
    """The values for a product's page. Raises ``NoSuchAddress`` if no product and no license has the ID."""
    number = require_id(request.path_params["id"])
    product, licenses = PRODUCTS.find(tx, number), count_licenses(tx, product_id=number)
    if product is None and not licenses:
        raise NoSuchAddress
    activity = read_activity(tx, request, number)
    policies = policy_store.list_policies(tx, product_id=number)
    return {
        "number": number,
        "product": product,
        "licenses": licenses,
        "has_more_licenses": licenses > MAX_COUNTED,
        "max_counted": MAX_COUNTED,
        "policies": policies[:_MAX_POLICIES],
        "has_more_policies": len(policies) > _MAX_POLICIES,
        "releases": _list_releases(tx, number),
        "notices": list_newest_notices(tx, number, _MAX_RELEASES),
        "states": translate_states(),
        "api_keys": _list_api_keys(tx, number, request),
        **activity,
        **_read_versions(tx, number, activity["days"], request),
        **_read_expiries(tx, request, number, activity["days"], is_big=licenses > MAX_COUNTED),
        **read_timeline(tx, request, product=str(number)),
    }


def _read_expiries(
    tx: ReadTransaction, request: PageRequest, product_id: int, days: int, *, is_big: bool
) -> dict[str, Any]:
    """A chart of the expiries in the next ``days``; the day up to which they were counted, None for all."""
    today = request.now.date()
    first = (today - _EPOCH).days
    found = count_expiries(tx, product_id, first_day=first, days=days, is_big=is_big)
    amounts = [found.by_day.get(first + index, 0) for index in range(days)]
    until = None if found.counted_until is None else _EPOCH + timedelta(days=found.counted_until)
    chart = build_chart([Series(_("Expiries"), amounts)], today + timedelta(days=days - 1))
    return {"expiries": chart, "expiries_until": until}


def _read_versions(tx: ReadTransaction, product_id: int, days: int, request: PageRequest) -> dict[str, Any]:
    """The versions in use, and a chart of the devices with the first versions on each day."""
    found = reports.read_versions(tx, ListVersions(product_id=product_id, now=request.now, days=days - 1))
    last = found.counted_on or request.now.date()
    names = list(dict.fromkeys(one.app_version for one in found.versions))[:_MAX_SERIES]
    amounts = {(one.app_version, one.day): one.devices for one in found.days}
    of_days = [last - timedelta(days=days - 1 - index) for index in range(days)]
    series = [Series(version_text(name), [amounts.get((name, one), 0) for one in of_days]) for name in names]
    return {"in_use": found, "version_chart": build_chart(series, last) if series else None}


def _list_api_keys(tx: ReadTransaction, product_id: int, request: PageRequest) -> Sequence[ApiKey]:
    """The product's own API keys that are not revoked; only administrators may see them."""
    if not request.may(Right.ADMINISTER):
        return ()
    return [one for one in list_api_keys(tx) if one.product_id == product_id and one.revoked_at is None]


#: The condition of each rule for updates, by the code of its failure.
_RULES = {
    UpdateCode.NOT_OFFERED: N_("The product offers updates."),
    UpdateCode.UNKNOWN_LICENSE: N_("A license is specified."),
    UpdateCode.PRODUCT_MISMATCH: N_("The license is for this product."),
    UpdateCode.DISABLED: N_("The license is not disabled."),
    UpdateCode.INACTIVE: N_("The license is not inactive."),
    UpdateCode.KEY_ROTATED: N_("The license key was not replaced."),
    UpdateCode.FINGERPRINT_REQUIRED: N_("A device is specified, if the terms require one."),
    UpdateCode.NOT_ACTIVATED: N_("The device holds a place, if it needs one."),
    UpdateCode.NOT_PUBLISHED: N_("The release is published."),
    UpdateCode.CHANNEL_NOT_ALLOWED: N_("The license includes the channel."),
    UpdateCode.ENTITLEMENT_MISSING: N_("The license includes the features that the release needs."),
    UpdateCode.NEWER_NOT_COVERED: N_("The license covers the release."),
    UpdateCode.NO_FILE_FOR_PLATFORM: N_("The release has a file for the platform."),
    UpdateCode.REQUIREMENTS_NOT_MET: N_("The device's system is new enough."),
    UpdateCode.MUST_UPDATE_FIRST: N_("No other version must be installed first."),
    UpdateCode.HELD_BACK_BY_ROLLOUT: N_("The rollout has reached the device."),
}


def translate_states() -> dict[str, str]:
    """The states of releases and notices, in the reader's language."""
    return {
        "draft": _("draft"),
        "published": _("published"),
        "yanked": _("yanked"),
        "withdrawn": _("withdrawn"),
    }


def read_release(tx: ReadTransaction, id: int, license_id: int | None, now: datetime) -> dict[str, Any]:
    """The values for a release's page; ``rules`` are evaluated for this license, if given. Raises
    ``NoSuchAddress``, or ``NotFound`` if the license does not exist.
    """
    release = RELEASES.find(tx, id)
    if release is None:
        raise NoSuchAddress
    query = ExplainRelease(release_id=id, now=now, license_id=license_id)
    uses = list_uses(tx, id, int(now.timestamp()) // 86_400 - 29)
    return {
        "release": release,
        "product": PRODUCTS.find(tx, release.product_id),
        "files": list_files(tx, [id]).get(id, []),
        "rules": _explain(tx, query),
        "states": translate_states(),
        "uses": [sum(some) for some in zip(*uses, strict=True)] or [0] * 4,
    }


def _explain(tx: ReadTransaction, query: ExplainRelease) -> list[tuple[UpdateCode, bool, str]]:
    """The code of each rule, whether it passed, and its condition in words."""
    return [(one.code, one.passed, _(_RULES[one.code])) for one in explain_release(tx, query)]


def explain_updates(
    tx: ReadTransaction, request: PageRequest, license: License, devices: Sequence[Activation]
) -> dict[str, Any]:
    """The values about releases on a license's page: the newest of its product, and every rule about one of
    them, for a device with a place, if any. The query may name the release and the device; by default, the
    release is the newest that is no draft.
    """
    releases = [] if license.product_id is None else _list_releases(tx, license.product_id)
    chosen, numbers = request.query.get("release", ""), [one.id for one in devices]
    published = [one for one in releases if one.state is not ReleaseState.DRAFT]
    release = next((one for one in releases if str(one.id) == chosen), next(iter(published), None))
    device = next((one for one in numbers if str(one) == request.query.get("for", "")), None)
    device = device or next(iter(numbers), None)
    rules: Sequence[Any] = ()
    if release is not None:
        at = {"license_id": license.id, "activation_id": device, "now": request.now}
        rules = _explain(tx, ExplainRelease(release_id=release.id, **at))
    return {"releases": releases, "release": release, "rules": rules, "explained_device": device}


def _list_releases(tx: ReadTransaction, product_id: int) -> Sequence[Release]:
    """The newest releases of a product, by creation."""
    where, paging = ReleaseQuery(product_id=product_id), Paging("-created_at", None, _MAX_RELEASES)
    return RELEASES.list_page(tx, ListReleases(paging=paging, where=where)).items[:_MAX_RELEASES]


#: The most licenses, devices and mails that are shown at once.
_LICENSES, _DEVICES, _MAILS = 10, 20, 20
_PLACE = re.compile(r"([0-9]{1,18})-([0-9a-f]{12})")


def read_customer(tx: ReadTransaction, request: PageRequest) -> dict[str, Any]:
    """The values for a customer's page. Raises ``NoSuchAddress`` if no customer and no license has the ID."""
    number = require_id(request.path_params["id"])
    customer = CUSTOMERS.find(tx, number)
    if customer is None and not has_licenses(tx, number):
        raise NoSuchAddress
    licenses = license_pages.find_page(
        tx,
        Search(customer_id=number),
        cursor=request.query.get("cursor"),
        limit=_LICENSES,
        now=request.now,
    )
    devices, next_place = list_devices(
        tx, number, after=_parse_place(request.query.get("devices", "")), limit=_DEVICES
    )
    products = {one.product_id for one in licenses.licenses if one.product_id is not None}
    return {
        "number": number,
        "customer": customer,
        "note": "" if customer is None else read_note(customer),
        "shop_link": _shop_link(request, number),
        "has_portal": request.site.settings.portal,
        "licenses": licenses,
        "names": {"product": names_of(tx, NameKind.PRODUCT, products)},
        "devices": [(one, event_views.device_name(one)) for one in devices],
        "seen_at": find_last_seen(tx, devices),
        "more_devices": None if next_place is None else f"{next_place.license_id}-{next_place.token}",
        "mail_texts": MAIL_TEXTS,
        "mail_states": MAIL_STATES,
        **read_timeline(tx, request, list_of_customer(tx, number, limit=_MAILS), customer=str(number)),
    }


def _parse_place(text: str) -> Place | None:
    found = _PLACE.fullmatch(text)
    return None if found is None else Place(int(found[1]), found[2])


def _shop_link(request: PageRequest, number: int) -> str:
    template = request.site.settings.customer_link
    return "" if template is None else template.replace("{id}", str(number))
