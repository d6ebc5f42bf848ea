"""Licenses: the list, and the page of one license with its history."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from keywright.core.errors import InvalidParameters
from keywright.core.parsing import parse_text
from keywright.db import ReadTransaction
from keywright.http.admin import event_views
from keywright.http.admin.name_suggestions import suggest_names
from keywright.http.admin.noun_pages import explain_updates
from keywright.http.admin.sections.licenses import filter as license_filter
from keywright.http.admin.sections.licenses import forms
from keywright.http.admin.sections.licenses.bulk import Bulk, list_operations
from keywright.http.admin.sections.licenses.changes import Changes, LicenseTerms, Noting
from keywright.http.admin.sections.licenses.creation import Creation
from keywright.http.admin.sections.licenses.files import Files
from keywright.http.admin.sections.licenses.filter import (
    EXPIRED,
    EXPIRY_DAYS,
    Filter,
    Names,
    Views,
    list_view_links,
)
from keywright.http.admin.sections.licenses.forms import get_license, read_details, was_just_made
from keywright.http.admin.sections.licenses.imports import Imports
from keywright.http.admin.sections.licenses.transferring import Transferring, read_transfers
from keywright.http.admin.sections.licenses.undo import Undo
from keywright.http.admin.site import AdminSite
from keywright.http.pages import formats
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import N_, _, ngettext
from keywright.http.pages.forms import Inputs, parse_number
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.http.terms_in_words import describe_meter, describe_terms
from keywright.identity.model import Right
from keywright.identity.store import list_api_keys, list_users
from keywright.licensing.activations.records import find_last_seen, find_licenses_last_seen
from keywright.licensing.leases.store import list_leases
from keywright.licensing.licenses.model import License, ShowKey, Status
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.store import find_notes
from keywright.licensing.terms.rules import set_by_hand
from keywright.licensing.undo.rules import list_undoable
from keywright.licensing.usage.model import ListPeriods, PeriodFilter
from keywright.licensing.usage.store import list_periods
from keywright.licensing.views_store import list_managed
from keywright.provisioning.policies import store as policy_store
from keywright.search import feed, license_pages, projector
from keywright.search.filters import SORTED, Order, Search
from keywright.search.license_pages import LicenseDetails, Page
from keywright.search.projector import Lag
from keywright.search.scan import MAX_COUNTED
from keywright.search.statistics import RecentFigures
from keywright.search.store import EventFilter

_PAGE_SIZE = 50
#: The most leases, and the most closed usage periods, that are read for a license's page.
_MAX_LEASES, _MAX_PERIODS = 200, 24
#: The longest fingerprint of a device.
_MAX_FINGERPRINT = 256


class LicenseList(NamedTuple):
    """A page of the list."""

    filter: Filter
    page: Page
    names: Names
    suggestions: Names
    #: The lag of search terms; None if the filter uses none.
    lag: Lag | None
    #: When the licenses were last seen; None unless the list is filtered or sorted by it.
    seen_at: Mapping[int, datetime] | None


class Licenses(
    Bulk, Changes, Creation, Files, Imports, LicenseTerms, Noting, Transferring, Undo, Views, Section
):
    """The licenses, and everything that can be done with them."""

    label = N_("Licenses")
    path = "/licenses"
    group = N_("Licensing")
    icon = "key"
    right = Right.LOOK

    def __init__(self, site: AdminSite) -> None:
        super().__init__(site)
        self._figures = site.figures

    @page("")
    def list_page(self, request: PageRequest) -> Response:
        """The list, with the filter in the address."""
        data = request.ask(lambda tx: _read_list(tx, request, self._figures))
        return request.render(
            "licenses/list.html",
            status=422 if data.filter.errors else 200,
            **data._asdict(),
            chips=data.filter.chips(data.names),
            can_sort=_has_few(data.page),
            is_too_long="sort" in data.filter.errors and data.filter.search.order in SORTED,
            status_options=[(one.name.lower(), _(one.name.lower()).capitalize()) for one in Status],
            expiring_options=_expiring_options(data.filter),
            chosen=_option_values(data.filter),
            makers=request.ask(_list_makers),
            views=list_view_links(request),
            operations=list_operations(request),
        )

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A license with its activations."""
        values = request.ask(lambda tx: _read_license(tx, request))
        new_key = values["license"].key if was_just_made(request, values["license"]) else ""
        return request.render("licenses/show.html", **values, new_key=new_key)

    @page("/{id:number}/try", methods=("POST",))
    def try_device(self, request: PageRequest) -> Response:
        """A license, and whether a device would be accepted now."""
        values = request.ask(lambda tx: _read_license(tx, request))
        inputs = Inputs(request.form)
        fingerprint = inputs.read("fingerprint", _parse_fingerprint) or ""
        if not inputs.errors:
            license = values["license"]
            values["trial"] = request.ask(lambda tx: forms.try_device(tx, license, fingerprint, request.now))
        return request.render("licenses/show.html", **values, new_key="", errors=inputs.errors)

    @page("/{id:number}/key", methods=("POST",), right=Right.CHANGE)
    def show_key(self, request: PageRequest) -> Response:
        """The full key, after the event is recorded."""
        license = get_license(request)
        shown: License = request.change(ShowKey(context=request.context, license=license.id))
        if request.is_from_script:
            return request.text(shown.key)
        return request.render("licenses/key.html", license=shown)

    @page("/{id:number}/history")
    def history(self, request: PageRequest) -> Response:
        """The events of a license, newest first."""
        return request.render("licenses/history.html", **request.ask(lambda tx: _read_history(tx, request)))


def _list_makers(tx: ReadTransaction) -> list[tuple[str, str]]:
    """The users and API keys that may have made a license, as options with labels."""
    users = [(f"{license_filter.USER}{one.id}", one.name) for one in list_users(tx)]
    keys = [(str(one.id), _("API key %(name)s", name=one.name)) for one in list_api_keys(tx)]
    return users + keys


def _read_license(tx: ReadTransaction, request: PageRequest) -> dict[str, Any]:
    first = parse_number(request.query.get("device", "")) or 0
    details, names = _get_details(tx, request.path_params["id"], first)
    license = details.license
    terms = terms_of(license)
    policy = None if license.policy_id is None else policy_store.find_policy(tx, license.policy_id)
    offers_leases = terms.max_leases is not None
    leases = list_leases(tx, license.id, before=None, limit=_MAX_LEASES) if offers_leases else []
    return {
        "license": license,
        "own": forms.list_own_facts(license),
        "details": details,
        "names": names,
        "notes": find_notes(tx, [license.id])[license.id],
        "seen_at": find_last_seen(tx, details.activations),
        "standing": forms.read_standing(tx, details, request.now),
        "trial": None,
        "policy": policy,
        "terms": terms,
        "terms_in_words": describe_terms(terms, formats),
        "kept_terms": sorted(set_by_hand(license.rule_terms)),
        "managed": list_managed(tx, [license], request.now)[0],
        "leases": [one for one in leases if one.ended_at is None and one.expires_at > request.now],
        "periods": list_periods(
            tx,
            ListPeriods(
                where=PeriodFilter(license_id=license.id, is_closed=True),
                limit=_MAX_PERIODS,
                is_newest_first=True,
            ),
        ).items,
        "updates": explain_updates(
            tx, request, license, [one for one in details.activations if one.deactivated_at is None]
        ),
        "transfers": read_transfers(tx, request, license),
        "meters": {name: describe_meter(meter, formats) for name, meter in terms.meters.items()},
    }


def _parse_fingerprint(text: str) -> str | None:
    return parse_text(text, _MAX_FINGERPRINT)


def _read_history(tx: ReadTransaction, request: PageRequest) -> dict[str, Any]:
    details, license_names = _get_details(tx, request.path_params["id"])
    before_id = parse_number(request.query.get("before", ""))
    records = feed.list_events(
        tx, EventFilter(license_id=details.license.id), before_id=before_id, limit=_PAGE_SIZE
    )
    names = event_views.find_names(tx, records.events)
    active = {one.id for one in details.activations if one.deactivated_at is None}
    undoable = list_undoable(details.license, active, {one.id: one.event for one in records.events})
    return {
        "license": details.license,
        "names": license_names,
        "events": event_views.to_views(records.events, names, request.user),
        "undoable": undoable,
        "is_first": before_id is None,
        "before_id": records.before_id,
    }


def _read_list(tx: ReadTransaction, request: PageRequest, figures: RecentFigures) -> LicenseList:
    filter_ = license_filter.read(tx, request.query)
    found = Page((), None, None, None, total_is_least=False, is_incomplete=False)
    if not filter_.errors:
        try:
            found = _find_page(tx, request, filter_.search, figures)
        except InvalidParameters as refusal:
            # Too many licenses match to be sorted in this order.
            reasons = {name: explain(reason) for name, reason in refusal.reasons.items()}
            filter_ = msgspec.structs.replace(filter_, errors=reasons)
    return LicenseList(
        filter=filter_,
        page=found,
        names=license_filter.find_names(tx, found.licenses, filter_.search),
        suggestions=suggest_names(tx),
        lag=projector.lag(tx) if filter_.uses_search_terms else None,
        seen_at=_find_last_seen(tx, filter_.search, found),
    )


def _find_page(tx: ReadTransaction, request: PageRequest, search: Search, figures: RecentFigures) -> Page:
    return license_pages.find_page(
        tx,
        search,
        cursor=request.query.get("cursor"),
        limit=_PAGE_SIZE,
        now=request.now,
        by_status=figures.get(tx, request.now).by_status if _has_only_status(search) else None,
    )


def _find_last_seen(tx: ReadTransaction, search: Search, found: Page) -> Mapping[int, datetime] | None:
    if search.order not in (Order.SEEN, Order.UNSEEN) and search.unseen_for_days is None:
        return None
    return find_licenses_last_seen(tx, [one.id for one in found.licenses])


def _expiring_options(filter_: Filter) -> list[tuple[str, str]]:
    within = filter_.search.expiring_within_days
    days = sorted({*EXPIRY_DAYS} if within is None else {*EXPIRY_DAYS, within})
    expired = (EXPIRED, _("Expired already"))
    return [
        ("", _("Any")),
        expired,
        *((str(one), ngettext("%(num)s day", "%(num)s days", one)) for one in days),
    ]


def _option_values(filter_: Filter) -> Mapping[str, str]:
    """The filter's texts as the values of its options: ``active`` where the address has ``3``."""
    search, chosen = filter_.search, dict(filter_.texts)
    if search.status is not None:
        chosen["status"] = Status(search.status).name.lower()
    if search.unseen_for_days is not None:
        chosen["seen"] = str(search.unseen_for_days)
    if search.expiring_within_days is not None:
        chosen["expiring"] = str(search.expiring_within_days)
    return chosen


def _has_few(found: Page) -> bool:
    """Whether the matching licenses are few enough to be sorted in any order."""
    return found.total is not None and not found.total_is_least and found.total <= MAX_COUNTED


def _has_only_status(search: Search) -> bool:
    """Whether the usual conditions besides the status are absent, so that the counts of all licenses by
    status may give the total.
    """
    others = (
        search.product_id,
        search.order_id,
        search.customer_id,
        search.expiring_within_days,
        search.term,
        search.order_ref,
    )
    return all(one is None for one in others) and not search.is_full and not search.is_unused


def _get_details(tx: ReadTransaction, license_id: int, first: int = 0) -> tuple[LicenseDetails, Names]:
    details = read_details(tx, license_id, first)
    return details, license_filter.find_names(tx, [details.license])
