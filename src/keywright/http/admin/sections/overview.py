"""The overview: figures about licenses, the latest events, and the first steps of a new installation."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.config import Settings
from keywright.db import ReadTransaction
from keywright.http.admin import event_text, event_views
from keywright.http.admin.activity import read_activity
from keywright.http.admin.site import AdminSite
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import parse_number
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.licensing.licenses.model import Status
from keywright.maintenance import clock, inspection, watched
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import list_names, list_to_erase
from keywright.search import projector, statistics
from keywright.search.owned_store import MAX_COUNTED, count_licenses
from keywright.search.projector import Lag

#: Problems by the figure that reveals them: the page with details, and a sentence.
_TROUBLES = {
    "erasure": ("/portal", N_("A customer asks to be erased.")),
    "clock": ("/system", N_("The clock looks wrong.")),
    "writable": ("/system", N_("The database accepts no changes.")),
    "data_free_bytes": ("/system", N_("The disk is almost full.")),
    "backup_age_seconds": ("/system", N_("The last backup is too old.")),
    "upgrade_pending": ("/system", N_("An upgrade is not finished.")),
    "rotation_pending": ("/system", N_("A rotation of the secret is not finished.")),
    "certificate_seconds": ("/system", N_("PostgreSQL's certificate expires soon.")),
    "search_lag_seconds": ("/system", N_("The search index is behind.")),
    "feed_lag_seconds": ("/webhooks", N_("Webhooks are not being delivered.")),
    "webhook_oldest_seconds": ("/webhooks", N_("Webhooks are not being delivered.")),
    "shop_events_unmatched": ("/connections", N_("Some sales have no license yet.")),
    "shop_event_oldest_seconds": ("/connections", N_("Some sales have no license yet.")),
    "mail_oldest_seconds": ("/mails", N_("Mails are not being sent.")),
    "mails_refused": ("/mails", N_("Mails are not being sent.")),
}
#: The steps of getting started: the title and purpose of each.
_STEPS = (
    (N_("A product"), N_("What you sell, and the features that its licenses can include.")),
    (
        N_("A policy for the product"),
        N_("What its licenses allow: how many devices, how long, and which features."),
    ),
    (N_("Your shop"), N_("Your shop reports sales, and each buyer gets a license.")),
    (N_("The public address"), N_("The address of this server, for the links in mails.")),
    (N_("A mail server"), N_("Sends license keys and sign-in codes; check it with a test mail.")),
    (N_("Brand and portal"), N_("Your name, color and logo, for customers and in mails.")),
    (N_("A colleague"), N_("Another person who can help customers when you cannot.")),
    (N_("A second factor"), N_("For every administrator: a password alone can be stolen.")),
    (N_("Daily backups"), N_("Backups of the database, with a copy of the secret in another place.")),
    (
        N_("Your program"),
        N_("Code to paste, with the public key filled in. This step is done once a device is active."),
    ),
)
#: The most products to choose from.
_MAX_PRODUCTS = 200


class Step(NamedTuple):
    """A step of getting started. ``state`` is the current setting, if there is one to show."""

    is_done: bool
    path: str
    title: str
    text: str
    state: str = ""


class OverviewData(NamedTuple):
    """The data that the page shows."""

    overview: statistics.Overview
    names: event_text.EventNames
    lag: Lag
    activity: Mapping[str, Any]
    product: Mapping[str, Any]
    steps: list[Step]
    troubles: list[tuple[str, str]]


class Start(Section):
    """The root path, which users type."""

    path = "/"
    in_menu = False
    right = Right.LOOK

    @page("")
    def start(self, request: PageRequest) -> Response:
        """Redirect to the overview."""
        return request.redirect(Overview.path)


class Overview(Section):
    """The first page that users see."""

    label = N_("Overview")
    path = "/overview"
    icon = "home"
    right = Right.LOOK

    def __init__(self, site: AdminSite) -> None:
        super().__init__(site)
        self._admin = site

    @page("")
    def show(self, request: PageRequest) -> Response:
        """Figures, two charts and the latest events; at first, the steps of getting started."""
        data = request.ask(lambda tx: _read(tx, request, self._admin))
        overview = data.overview
        is_old = overview.as_of != request.now
        return request.render(
            "overview/overview.html",
            overview=overview,
            lag=data.lag,
            **data.activity,
            **data.product,
            steps=data.steps,
            troubles=data.troubles,
            events=event_views.to_views(overview.latest_events, data.names, request.user),
            by_status=[(one.name.lower(), overview.by_status.get(one, 0)) for one in Status],
            is_old=is_old,
            is_counting=is_old and not self._admin.figures.are_recent(request.now),
        )

    @page("/counted")
    def is_counted(self, request: PageRequest) -> Response:
        """Whether the figures have been counted again; polled by pages with old figures."""
        return request.render("overview/counted.html", is_over=self._admin.figures.are_recent(request.now))


def _read(tx: ReadTransaction, request: PageRequest, site: AdminSite) -> OverviewData:
    hidden = event_text.hidden_prefix(request.user)
    overview = statistics.overview(tx, request.now, site.figures, without=hidden)
    names = event_views.find_names(tx, overview.latest_events)
    steps = _list_steps(tx, request, site.settings)
    product_id = parse_number(request.query.get("product", ""))
    activity = read_activity(tx, request, product_id)
    product, troubles = _read_product(tx, product_id), _list_troubles(tx, request, site)
    return OverviewData(overview, names, projector.lag(tx), activity, product, steps, troubles)


def _list_troubles(tx: ReadTransaction, request: PageRequest, site: AdminSite) -> list[tuple[str, str]]:
    """The current problems: the page with details, and a sentence, for each."""
    figures = watched.watch(tx, site.settings, request.now, is_writable=site.runner.is_writable)
    bad = {one.gauge for one in figures if one.is_bad}
    bad |= {"erasure"} if list_to_erase(tx) else set()
    bad |= {"clock"} if clock.find_doubt(tx, request.now) else set()
    return list(dict.fromkeys(trouble for name, trouble in _TROUBLES.items() if name in bad))


def _read_product(tx: ReadTransaction, product_id: int | None) -> dict[str, Any]:
    """The product to which the figures are limited, if any, and the products to choose from."""
    products = list_names(tx, NameKind.PRODUCT, after=-1, limit=_MAX_PRODUCTS)
    if product_id is None:
        return {"product_id": None, "licenses": None, "has_more_licenses": False, "products": products}
    licenses = count_licenses(tx, product_id=product_id)
    return {
        "product_id": product_id,
        "licenses": min(licenses, MAX_COUNTED),
        "has_more_licenses": licenses > MAX_COUNTED,
        "products": {product_id: str(product_id), **products},
    }


def _list_steps(tx: ReadTransaction, request: PageRequest, settings: Settings) -> list[Step]:
    """The steps of getting started, for administrators; none once all are done, or the setting hides them."""
    if not settings.getting_started or not request.may(Right.ADMINISTER):
        return []
    found, server = inspection.find_set_up(tx), settings.smtp_server
    product = "/products" if found.product_id is None else f"/products/{found.product_id}"
    daily, texts = settings.backup_daily_at, _STEPS
    states = [
        (found.product_id is not None, "/products/new", ""),
        (found.has_policy, f"/policies/new?product_id={found.product_id or ''}", ""),
        (found.has_shop, "/connections/new", ""),
        (settings.public_url is not None, "/settings#address", settings.public_url or ""),
        (server is not None, "/settings#mail", "" if server is None else server.host),
        (found.has_brand, "/portal", ""),
        (found.has_colleague, "/users/new", ""),
        (not found.lacks_factor, "/account/second-factor", ""),
        (daily is not None, "/settings#backups", "" if daily is None else f"{daily} UTC"),
        (found.has_activation, f"{product}#program", ""),
    ]
    steps = [
        Step(is_done, path, _(title), _(text), state)
        for (is_done, path, state), (title, text) in zip(states, texts, strict=True)
    ]
    return [] if all(one.is_done for one in steps) else steps
