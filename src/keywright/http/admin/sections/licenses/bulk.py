"""Change many licenses at once, in a job: those that are selected, or all that match a filter."""

from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.responses import Response

from keywright.core.errors import MalformedForm
from keywright.core.parsing import MAX_ID, parse_limit
from keywright.db import ReadTransaction
from keywright.http.admin.event_text import Shown, write_label, write_value
from keywright.http.admin.job_text import translate_reason
from keywright.http.admin.periods import Chip
from keywright.http.admin.sections.licenses import filter as license_filter
from keywright.http.admin.sections.licenses.filter import Filter
from keywright.http.admin.sections.licenses.forms import read_extension
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import parse_positive
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.jobs import orders
from keywright.jobs.orders import Change, Export, Order, What
from keywright.jobs.planning import preview
from keywright.licensing.licenses.model import License
from keywright.search import license_pages
from keywright.search.filters import Search
from keywright.search.license_pages import Page

#: The changes and their labels; the first two have their own buttons in the bar.
OPERATIONS: Final = {
    What.EXTEND: N_("Extend"),
    What.DISABLE: N_("Disable"),
    What.ENABLE: N_("Enable"),
    What.SET_LIMIT: N_("Change the limit"),
    What.RAISE_LIMIT: N_("Allow more devices"),
    What.DEACTIVATE_ALL: N_("Free all devices"),
    What.DELETE: N_("Delete"),
}
EXPORT: Final = "export"
#: For more licenses than this, the user must type their number to confirm.
_MAX_UNTYPED: Final = 50
#: The text to type if their number is unknown.
_ALL: Final = "all"
_USUAL_AMOUNTS = {What.EXTEND: 1, What.RAISE_LIMIT: 1}
#: The most digits of a license's ID, or of a number of licenses.
_MAX_DIGITS = len(str(MAX_ID))


class Selection(NamedTuple):
    """The licenses with these IDs or, without IDs, all that match the filter."""

    ids: tuple[int, ...]
    filter: Filter
    page: Page
    chips: list[Chip]

    @property
    def is_all(self) -> bool:
        """Whether the selection is all licenses that match the filter."""
        return not self.ids

    @property
    def total(self) -> int | None:
        """The number of licenses; None if it is not known exactly."""
        if self.ids:
            return len(self.ids)
        return None if self.page.total_is_least else self.page.total

    @property
    def typed(self) -> str:
        """The text that the user must type to confirm the change; "" for few licenses."""
        if self.total is None:
            return str(self.page.total or _ALL)
        return str(self.total) if self.total > _MAX_UNTYPED else ""


class PreviewLine(NamedTuple):
    """A license before and after a change, in words."""

    license: License
    label: str
    before: Shown
    after: Shown
    stays_expired: bool


class Bulk:
    """Pages that change many licenses."""

    @page("/bulk", methods=("POST",), right=Right.CHANGE)
    def choose(self, request: PageRequest) -> Response:
        """Ask for the details of a change, and show what it will do; an export starts at once."""
        selection = request.ask(lambda tx: _read_selection(tx, request))
        if selection.is_all and not _is_for_all(request):
            sentence = _("First select the licenses that you want to change.")
            return request.redirect(selection.filter.path, sentence, is_error=True)
        operation = request.form.get("what", "")
        if operation == EXPORT:
            return _start_job(request, Export(**_selection_fields(selection)), selection)
        if operation in OPERATIONS:
            return _render_form(request, selection, What(operation), {})
        if operation or not selection.is_all:
            sentence = _("Choose what to do with the licenses.")
            return request.redirect(selection.filter.path, sentence, is_error=True)
        return request.render(
            "licenses/choose.html", selection=selection, operations=list_operations(request)
        )

    @page("/bulk/preview", methods=("POST",), right=Right.CHANGE)
    def preview(self, request: PageRequest) -> Response:
        """The part of the page that shows what will change; loaded by admin.js."""
        selection, operation = _require_selection(request)
        return request.render("licenses/bulk_preview.html", **_preview_values(request, selection, operation))

    @page("/bulk/start", methods=("POST",), right=Right.CHANGE)
    def start(self, request: PageRequest) -> Response:
        """Start the job that makes the change."""
        selection, operation = _require_selection(request)
        amount, errors = _read_amount(request, operation)
        errors |= _find_doubts(request, selection, operation)
        if errors:
            return _render_form(request, selection, operation, errors)
        return _start_job(request, _build_change(request, selection, operation, amount), selection)


def _require_selection(request: PageRequest) -> tuple[Selection, What]:
    """The licenses and the operation of a form. Raises ``MalformedForm``."""
    selection = request.ask(lambda tx: _read_selection(tx, request))
    text = request.form.get("what", "")
    if text not in OPERATIONS or (selection.is_all and not _is_for_all(request)):
        raise MalformedForm
    return selection, What(text)


def list_operations(request: PageRequest) -> dict[What, str]:
    """The changes that the user may order, and their labels."""
    may_delete = request.may(Right.ADMINISTER)
    return {what: _(text) for what, text in OPERATIONS.items() if may_delete or what is not What.DELETE}


def _find_doubts(request: PageRequest, selection: Selection, operation: What) -> dict[str, str]:
    """Errors for missing confirmations, without which the change may not start."""
    if request.form.get("typed", "").replace(",", "") != selection.typed:
        grown = _has_grown(request, selection)
        missing = _("More licenses match now than a moment ago.") if grown else ""
        return {"typed": f"{missing} {_('Type %(number)s to confirm.', number=selection.typed)}".strip()}
    if selection.typed:
        return {}
    if operation is What.DELETE and request.form.get("is_sure", "") != "yes":
        return {"is_sure": _("Check this box if you are sure.")}
    if _has_grown(request, selection):
        return {"is_sure": _("More licenses match now than a moment ago. Look again, and confirm.")}
    return {}


def _build_change(request: PageRequest, selection: Selection, operation: What, amount: int | None) -> Change:
    fields = _selection_fields(selection)
    if operation is What.EXTEND and amount is not None:
        return replace(read_extension(request, amount), **fields)
    return Change(what=operation, amount=amount, **fields)


def _read_selection(tx: ReadTransaction, request: PageRequest) -> Selection:
    filter_ = license_filter.read(tx, request.form)
    if filter_.errors:
        raise MalformedForm
    # Jobs have their own order, and many licenses cannot be sorted in every order of the list.
    search = replace(filter_.search, order=Search().order)
    filter_ = replace(filter_, search=search, texts={**filter_.texts, **_number_texts(search)})
    found = license_pages.find_page(tx, filter_.search, cursor=None, limit=1, now=request.now)
    names = license_filter.find_names(tx, [], filter_.search)
    ids = () if _is_for_all(request) else tuple(map(_parse_id, request.form.all("id")))
    return Selection(ids, filter_, found, filter_.chips(names))


def _is_for_all(request: PageRequest) -> bool:
    return request.form.get("scope", "") == "all"


def _number_texts(search: Search) -> dict[str, str]:
    """The product and customer by ID: a name could move to another record before the job starts."""
    numbers = {"product": search.product_id, "customer": search.customer_id}
    return {name: str(number) for name, number in numbers.items() if number is not None}


def _parse_id(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not int(text) <= MAX_ID:
        raise MalformedForm
    return int(text)


def _has_grown(request: PageRequest, selection: Selection) -> bool:
    """Whether more licenses match than the form stated, if it stated a number."""
    counted = request.form.get("counted", "")
    if not counted.isdecimal() or len(counted) > _MAX_DIGITS:
        return False
    return selection.total is None or selection.total > int(counted)


def _read_amount(request: PageRequest, operation: What) -> tuple[int | None, dict[str, str]]:
    text = request.form.get("amount", "")
    try:
        if operation in (What.EXTEND, What.RAISE_LIMIT):
            return parse_positive(text), {}
        if operation is What.SET_LIMIT:
            return (parse_limit(text) if text else None), {}
    except ValueError as reason:
        return None, {"amount": explain(reason)}
    return None, {}


def _selection_fields(selection: Selection) -> dict[str, Any]:
    """The fields of an order that select its licenses."""
    return {"search": selection.filter.search} if selection.is_all else {"license_ids": selection.ids}


def _start_job(request: PageRequest, order: Order, selection: Selection) -> Response:
    _require_right(request, order)
    command = orders.start_command(order, total=selection.total, context=request.context)
    return change_once(request, command, lambda job: Redirect(f"/jobs/{job.id}"))


def _require_right(request: PageRequest, order: Order) -> None:
    """Raise ``HTTPException`` 403 if the user may not place this order."""
    if not request.may(orders.right_for(order)):
        raise HTTPException(403)


def _preview_values(request: PageRequest, selection: Selection, operation: What) -> dict[str, Any]:
    """The values of the preview: what the change would do, if its amount is valid."""
    amount, errors = _read_amount(request, operation)
    if errors and "amount" not in request.form:
        amount, errors = _USUAL_AMOUNTS.get(operation), {}
    if errors:
        return {"preview": None, "lines": [], "total": selection.total}
    order = _build_change(request, selection, operation, amount)
    found = request.ask(lambda tx: preview(tx, order, request.now))
    lines = [
        PreviewLine(
            one.license,
            (write_label(one.field) if one.field else ""),
            write_value(one.field, one.before),
            write_value(one.field, one.after),
            isinstance(one.after, datetime) and one.after <= request.now,
        )
        for one in found.lines
    ]
    unchanged = {translate_reason(reason): amount for reason, amount in found.unchanged.items()}
    return {"preview": found, "lines": lines, "unchanged": unchanged, "total": selection.total}


def _render_form(
    request: PageRequest, selection: Selection, operation: What, errors: dict[str, str]
) -> Response:
    if operation is What.DELETE and not request.may(Right.ADMINISTER):
        raise HTTPException(403)
    return request.render(
        "licenses/bulk.html",
        selection=selection,
        operation=operation.value,
        label=_(OPERATIONS[operation]),
        errors=errors,
        keeps_deleted=request.site.settings.keep_deleted_days > 0,
        **_preview_values(request, selection, operation),
    )
