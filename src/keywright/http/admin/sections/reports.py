"""The reports: licenses sold, renewed and lapsed, versions in use, and customers who need more licenses."""

import codecs
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from keywright.core.crypto import mask
from keywright.core.errors import NoSuchAddress
from keywright.db import ReadTransaction
from keywright.http.admin.texts import FIGURES
from keywright.http.pages.formats import N_
from keywright.http.pages.forms import parse_number
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.provisioning.exporters import to_csv
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import find_titles, list_names, names_of
from keywright.search import projector, reports, reports_store

#: The most products; the most rows of other tables on the page, and in a CSV file.
_MAX_PRODUCTS, _MAX_SHOWN, _MAX_ROWS = 200, 20, 1_000
#: The most refused licenses that are examined.
_MAX_REFUSED = 2_000
#: The periods that can be chosen, in months.
_MONTHS = (12, 24, 36)
_REFUSED_WITHIN = timedelta(days=30)


class Reports(Section):
    """Monthly figures, and customers and licenses that need attention."""

    label = N_("Reports")
    path = "/reports"
    group = N_("Activity")
    icon = "chart"
    right = Right.LOOK

    @page("")
    def show(self, request: PageRequest) -> Response:
        """All reports, for all products or for one."""
        return request.render("reports/show.html", **request.ask(lambda tx: _read(tx, request, _MAX_SHOWN)))

    @page("/{name}.csv")
    def export(self, request: PageRequest) -> Response:
        """A report as CSV."""
        if (to_rows := _EXPORTS.get(name := request.path_params["name"])) is None:
            raise NoSuchAddress
        values = request.ask(lambda tx: _read(tx, request, _MAX_ROWS))
        content = codecs.BOM_UTF8 + to_csv(to_rows(values))
        return request.download(f"{name}-{request.now:%Y%m%d}.csv", iter([content]))


def _read(tx: ReadTransaction, request: PageRequest, named: int) -> dict[str, Any]:
    """The values for the page. Customers' names are read for the first ``named`` rows of their table."""
    product_id, months = (parse_number(request.query.get(name, "")) for name in ("product", "months"))
    months = months if months in _MONTHS else _MONTHS[0]
    products = list_names(tx, NameKind.PRODUCT, after=-1, limit=_MAX_PRODUCTS)
    subjects = (*products, 0) if product_id is None else (product_id,)
    by_product = reports.sum_months(tx, request.now, months, products) if product_id is None else {}
    versions = reports.list_newest_versions(tx, subjects)
    every = [(number, one) for number, some in versions.items() for one in some]
    customers = reports_store.list_refused_customers(
        tx,
        since=int((request.now - _REFUSED_WITHIN).timestamp()),
        most=_MAX_REFUSED,
        limit=_MAX_ROWS,
    )
    unusual = reports.list_unusual(tx) if product_id is None else []
    owners = {one.license.customer_id for one in unusual if one.license.customer_id is not None}
    products_of = {one.license.product_id for one in unusual if one.license.product_id is not None}
    return {
        "product_id": product_id,
        "products": products if product_id is None else {product_id: str(product_id), **products},
        "months": months,
        "figures": FIGURES,
        "choices": _MONTHS,
        "by_month": reports.list_months(tx, request.now, months, product_id or 0),
        "by_product": by_product,
        "versions": sorted(every, key=lambda pair: (-pair[1].devices, pair[0]))[:_MAX_ROWS],
        "customers": customers,
        "titles": find_titles(tx, {one.customer_id for one in customers[:named]} | owners),
        "unusual": unusual,
        "max_rows": _MAX_SHOWN,
        "names": names_of(tx, NameKind.PRODUCT, products_of | {*versions}),
        "listed_since": reports.date_of(reports.first_listed_month(tx)),
        "counted_on": reports.find_counted_day(tx),
        "lag": projector.lag(tx),
    }


Rows = Iterable[Sequence[Any]]
_FIGURES = ("made", "trials", "bought", "expiries", "renewed", "rate", "lapsed", "refunded")


def _figures(one: reports.Month) -> list[Any]:
    return [round(found, 4) if isinstance(found := getattr(one, name), float) else found for name in _FIGURES]


def _month_rows(values: dict[str, Any]) -> Rows:
    yield ("month", *_FIGURES)
    yield from ((f"{one.first:%Y-%m}", *_figures(one)) for one in values["by_month"])


def _product_rows(values: dict[str, Any]) -> Rows:
    yield ("product_id", "product", *_FIGURES)
    for number, one in values["by_product"].items():
        yield (number, values["products"].get(number), *_figures(one))


def _version_rows(values: dict[str, Any]) -> Rows:
    yield ("product_id", "product", "app_version", "platform", "devices", "seen_1_day", "seen_7_days")
    for number, one in values["versions"]:
        name = values["names"].get(number)
        yield (number, name, one.app_version, one.platform, one.devices, one.seen_1_day, one.seen_7_days)


def _customer_rows(values: dict[str, Any]) -> Rows:
    yield ("customer_id", "customer", "licenses", "refusals", "last_refused_at")
    for one in values["customers"]:
        title = values["titles"].get(one.customer_id)
        yield (one.customer_id, title, one.licenses, one.refusals, one.last_refused_at)


def _license_rows(values: dict[str, Any]) -> Rows:
    yield ("license_id", "key", "customer_id", "product_id", "devices", "networks", "refusals")
    for one in values["unusual"]:
        license = one.license
        owner = (mask(license.key), license.customer_id, license.product_id)
        yield (license.id, *owner, one.devices, one.networks, one.refusals)


_EXPORTS = {
    "months": _month_rows,
    "products": _product_rows,
    "versions": _version_rows,
    "customers": _customer_rows,
    "licenses": _license_rows,
}
