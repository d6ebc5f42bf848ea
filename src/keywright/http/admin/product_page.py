"""The page of a product: its policies and API keys, and what happened to its licenses."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from keywright.core.errors import NoSuchAddress
from keywright.core.paging import Paging
from keywright.db import ReadTransaction
from keywright.http.admin.activity import Series, build_chart, read_activity
from keywright.http.admin.texts import version_text
from keywright.http.admin.timeline import read_timeline
from keywright.http.pages.inputs import require_id
from keywright.http.pages.languages import N_, _
from keywright.http.pages.request import PageRequest
from keywright.identity.model import ApiKey, Right
from keywright.identity.store import list_api_keys
from keywright.licensing.updates.model import Release
from keywright.licensing.updates.queries import ExplainRelease, explain_release
from keywright.licensing.updates.rules import UpdateCode
from keywright.licensing.updates.store import RELEASES, list_files
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.releases.commands import ListReleases
from keywright.provisioning.releases.fields import ReleaseQuery
from keywright.provisioning.store import PRODUCTS
from keywright.search import reports
from keywright.search.commands import ListVersions
from keywright.search.owned_store import MAX_COUNTED, count_expiries, count_licenses

#: The most policies that are shown.
_MAX_POLICIES = 100
#: The newest releases that are shown.
_MAX_RELEASES = 20
#: The most versions in the chart.
_MAX_SERIES = 4
_EPOCH = date(1970, 1, 1)


def read_product(tx: ReadTransaction, request: PageRequest) -> dict[str, Any]:
    """The values of the page. Raises ``NoSuchAddress`` for a number that no product and no license has."""
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
    """The expiries of as many days to come as there are days in the other charts."""
    today = request.now.date()
    first = (today - _EPOCH).days
    found = count_expiries(tx, product_id, first_day=first, days=days, is_big=is_big)
    amounts = [found.by_day.get(first + index, 0) for index in range(days)]
    until = None if found.counted_until is None else _EPOCH + timedelta(days=found.counted_until)
    chart = build_chart([Series(_("Expiries"), amounts)], today + timedelta(days=days - 1))
    return {"expiries": chart, "expiries_until": until}


def _read_versions(tx: ReadTransaction, product_id: int, days: int, request: PageRequest) -> dict[str, Any]:
    """The versions in use, and how many devices had the first of them on each day."""
    found = reports.read_versions(tx, ListVersions(product_id=product_id, now=request.now, days=days - 1))
    last = found.counted_on or request.now.date()
    names = list(dict.fromkeys(one.app_version for one in found.versions))[:_MAX_SERIES]
    amounts = {(one.app_version, one.day): one.devices for one in found.days}
    of_days = [last - timedelta(days=days - 1 - index) for index in range(days)]
    series = [Series(version_text(name), [amounts.get((name, one), 0) for one in of_days]) for name in names]
    return {"in_use": found, "version_chart": build_chart(series, last) if series else None}


def _list_api_keys(tx: ReadTransaction, product_id: int, request: PageRequest) -> Sequence[ApiKey]:
    """The product's own API keys that are good; only administrators see any."""
    if not request.may(Right.ADMINISTER):
        return ()
    return [one for one in list_api_keys(tx) if one.product_id == product_id and one.revoked_at is None]


#: What a rule of the gate asks, by the code of a no.
_RULES = {
    UpdateCode.NOT_OFFERED: N_("The product offers updates."),
    UpdateCode.UNKNOWN_LICENSE: N_("A license is named."),
    UpdateCode.PRODUCT_MISMATCH: N_("The license is for this product."),
    UpdateCode.DISABLED: N_("The license is not disabled."),
    UpdateCode.INACTIVE: N_("The license is not inactive."),
    UpdateCode.KEY_ROTATED: N_("Its key was not replaced."),
    UpdateCode.FINGERPRINT_REQUIRED: N_("A device is named, where the terms need one."),
    UpdateCode.NOT_ACTIVATED: N_("The device holds its place, where it needs one."),
    UpdateCode.NOT_PUBLISHED: N_("The release is published."),
    UpdateCode.CHANNEL_NOT_ALLOWED: N_("The license has the channel."),
    UpdateCode.ENTITLEMENT_MISSING: N_("The license has the features that the release needs."),
    UpdateCode.NEWER_NOT_COVERED: N_("The license covers it."),
    UpdateCode.NO_FILE_FOR_PLATFORM: N_("It has a file for the platform."),
    UpdateCode.REQUIREMENTS_NOT_MET: N_("What it runs on is new enough."),
    UpdateCode.MUST_UPDATE_FIRST: N_("No other version must come first."),
    UpdateCode.HELD_BACK_BY_ROLLOUT: N_("Its rollout has reached the device."),
}


def translate_states() -> dict[str, str]:
    """The states of releases, in the reader's language."""
    return {"draft": _("draft"), "published": _("published"), "yanked": _("yanked")}


def read_release(tx: ReadTransaction, id: int, license_id: int | None, now: datetime) -> dict[str, Any]:
    """The values of the page of a release; ``rules`` are about this license. Raises ``NoSuchAddress``, and
    ``NotFound`` for a license that there is not.
    """
    release = RELEASES.find(tx, id)
    if release is None:
        raise NoSuchAddress
    rules = explain_release(tx, ExplainRelease(release_id=id, now=now, license_id=license_id))
    return {
        "release": release,
        "product": PRODUCTS.find(tx, release.product_id),
        "files": list_files(tx, [id]).get(id, []),
        "rules": [(one.code, one.passed, _(_RULES[one.code])) for one in rules],
        "states": translate_states(),
    }


def _list_releases(tx: ReadTransaction, product_id: int) -> Sequence[Release]:
    """The newest releases of a product, by their creation."""
    where, paging = ReleaseQuery(product_id=product_id), Paging("-created_at", None, _MAX_RELEASES)
    return RELEASES.list_page(tx, ListReleases(paging=paging, where=where)).items[:_MAX_RELEASES]
