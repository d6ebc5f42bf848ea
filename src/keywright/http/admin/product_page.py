"""The page of a product: its policies and API keys, and what happened to its licenses."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from keywright.core.errors import NoSuchAddress
from keywright.db import ReadTransaction
from keywright.http.admin.activity import Series, build_chart, read_activity
from keywright.http.admin.texts import version_text
from keywright.http.admin.timeline import read_timeline
from keywright.http.pages.inputs import require_id
from keywright.http.pages.languages import _
from keywright.http.pages.request import PageRequest
from keywright.identity.model import ApiKey, Right
from keywright.identity.store import list_api_keys
from keywright.provisioning.policies import store as policy_store
from keywright.provisioning.store import PRODUCTS
from keywright.search import reports
from keywright.search.commands import ListVersions
from keywright.search.owned_store import MAX_COUNTED, count_expiries, count_licenses

#: The most policies that are shown.
_MAX_POLICIES = 100
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
