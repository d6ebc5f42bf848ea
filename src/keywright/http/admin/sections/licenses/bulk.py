"""Changes of many licenses at once: of those that are selected, or of all that match a filter. A job does
them.
"""

from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from starlette.responses import Response

from keywright.core.errors import MalformedForm
from keywright.core.parsing import MAX_ID, parse_limit
from keywright.db import ReadTransaction
from keywright.http.admin.sections.licenses import filter as license_filter
from keywright.http.admin.sections.licenses.filter import Chip, Filter
from keywright.http.pages.inputs import parse_positive
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.jobs import orders
from keywright.jobs.orders import Change, Export, Order, What
from keywright.search import license_pages
from keywright.search.filters import Search
from keywright.search.license_pages import Page

#: The changes, and their labels.
OPERATIONS: Final = {
    What.EXTEND: "Extend",
    What.SET_LIMIT: "Change the limit",
    What.RAISE_LIMIT: "Allow more places",
    What.DISABLE: "Disable",
    What.ENABLE: "Enable",
    What.DEACTIVATE_ALL: "Deactivate all places",
    What.DELETE: "Delete",
}
EXPORT: Final = "export"
_NONE_SELECTED = "Select the licenses first that you want to change."
_NO_OPERATION = "Choose what to do with the licenses."
_NOT_CONFIRMED = "Check this box if you are sure."
_MORE_MATCH = "More licenses match now than a moment ago. Check this box if you mean all of them."
#: The most digits of the number of a license.
_MAX_DIGITS = len(str(MAX_ID))


class Selection(NamedTuple):
    """Licenses: those with these numbers, or all that match the filter."""

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


class Bulk:
    """Pages that change many licenses."""

    @page("/bulk", methods=("POST",), right=Right.CHANGE)
    def choose(self, request: PageRequest) -> Response:
        """Ask for the details of a change; an export starts at once."""
        selection = request.ask(lambda tx: _read_selection(tx, request))
        if selection.is_all and not _is_for_all(request):
            return request.redirect(selection.filter.path, _NONE_SELECTED, is_error=True)
        operation = request.form.get("what", "")
        if operation == EXPORT:
            return _start_job(request, Export(**_selection_fields(selection)), selection.total)
        if operation not in OPERATIONS:
            return request.redirect(selection.filter.path, _NO_OPERATION, is_error=True)
        return _render_form(request, selection, What(operation), {})

    @page("/bulk/start", methods=("POST",), right=Right.CHANGE)
    def start(self, request: PageRequest) -> Response:
        """Start the job that does the change."""
        selection = request.ask(lambda tx: _read_selection(tx, request))
        text = request.form.get("what", "")
        if text not in OPERATIONS or (selection.is_all and not _is_for_all(request)):
            raise MalformedForm
        operation = What(text)
        amount, errors = _read_amount(request, operation)
        if operation is What.DELETE and request.form.get("is_sure", "") != "yes":
            errors["is_sure"] = _NOT_CONFIRMED
        elif operation is What.DELETE and _has_grown(request, selection):
            errors["is_sure"] = _MORE_MATCH
        if errors:
            return _render_form(request, selection, operation, errors)
        order = Change(
            what=operation,
            amount=amount,
            is_from_now=request.form.get("begin", "") == "now",
            **_selection_fields(selection),
        )
        return _start_job(request, order, selection.total)


def _read_selection(tx: ReadTransaction, request: PageRequest) -> Selection:
    filter_ = license_filter.read(tx, request.form)
    if filter_.errors:
        raise MalformedForm
    filter_ = replace(filter_, texts={**filter_.texts, **_number_texts(filter_.search)})
    found = license_pages.find_page(tx, filter_.search, cursor=None, limit=1, now=request.now)
    names = license_filter.find_names(tx, [], filter_.search)
    ids = () if _is_for_all(request) else tuple(map(_parse_id, request.form.all("id")))
    return Selection(ids, filter_, found, filter_.chips(names))


def _is_for_all(request: PageRequest) -> bool:
    return request.form.get("scope", "") == "all"


def _number_texts(search: Search) -> dict[str, str]:
    """The product and the customer by number: a name could move to another number before the job starts."""
    numbers = {"product": search.product_id, "customer": search.customer_id}
    return {name: str(number) for name, number in numbers.items() if number is not None}


def _parse_id(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not int(text) <= MAX_ID:
        raise MalformedForm
    return int(text)


def _has_grown(request: PageRequest, selection: Selection) -> bool:
    """Whether there are more licenses than the form said, if it said a number."""
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
        return None, {"amount": f"It {reason}."}
    return None, {}


def _selection_fields(selection: Selection) -> dict[str, Any]:
    """The fields of an order that say which licenses it is for."""
    return {"search": selection.filter.search} if selection.is_all else {"license_ids": selection.ids}


def _start_job(request: PageRequest, order: Order, total: int | None) -> Response:
    command = orders.start_command(order, total=total, context=request.context)
    return change_once(request, command, lambda job: Redirect(f"/jobs/{job.id}"))


def _render_form(
    request: PageRequest, selection: Selection, operation: What, errors: dict[str, str]
) -> Response:
    return request.render(
        "licenses/bulk.html",
        selection=selection,
        operation=operation.value,
        label=OPERATIONS[operation],
        errors=errors,
    )
