"""What is done with many licenses at once: with those that were ticked, or with all that a filter lets
through. It is long work, which a job does.
"""

from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from starlette.responses import Response

from keywright.core.errors import MalformedForm
from keywright.core.parsing import MAX_ID, parse_limit
from keywright.db import ReadTransaction
from keywright.http.admin.sections.licenses import filter as licenses_filter
from keywright.http.admin.sections.licenses.filter import Chip, Filter
from keywright.http.admin.sections.licenses.forms import parse_positive
from keywright.http.pages.once import Landing, change_once
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.jobs import orders
from keywright.jobs.orders import Change, Export, Order, What
from keywright.search import license_pages
from keywright.search.filters import Search
from keywright.search.license_pages import Page

#: What can be done, as it is said on a button.
OFFERED: Final = {
    What.EXTEND: "Extend",
    What.SET_LIMIT: "Change the limit",
    What.RAISE_LIMIT: "Allow more places",
    What.DISABLE: "Disable",
    What.ENABLE: "Enable",
    What.DEACTIVATE_ALL: "Deactivate all places",
    What.DELETE: "Delete",
}
EXPORT: Final = "export"
_NOTHING = "Tick the licenses first that you want to change."
_UNDECIDED = "Choose what is to be done with the licenses."
_UNSURE = "Tick this if you are sure."
_GROWN = "More licenses match now than a moment ago. Tick this if you mean all of them."
#: How many digits a number of a license has at most.
_MOST_DIGITS = len(str(MAX_ID))


class Meant(NamedTuple):
    """Which licenses are meant: those with these numbers, or all that the filter lets through."""

    ids: tuple[int, ...]
    asked: Filter
    page: Page
    chips: list[Chip]

    @property
    def is_all(self) -> bool:
        """Whether they are all that the filter lets through."""
        return not self.ids

    @property
    def total(self) -> int | None:
        """How many they are; None where nobody has counted."""
        if self.ids:
            return len(self.ids)
        return None if self.page.total_is_least else self.page.total


class Bulk:
    """Pages of the area of licenses that change many."""

    @page("/bulk", methods=("POST",), right=Right.CHANGE)
    def choose(self, request: PageRequest) -> Response:
        """Say what will be done with which licenses, and ask how; an export is begun at once."""
        meant = request.ask(lambda tx: _meant(tx, request))
        if meant.is_all and not _is_for_all(request):
            return request.redirect(meant.asked.path, _NOTHING, is_error=True)
        text = request.form.get("what", "")
        if text == EXPORT:
            return _ordered(request, Export(**_where(meant)), meant.total)
        if text not in OFFERED:
            return request.redirect(meant.asked.path, _UNDECIDED, is_error=True)
        return _form(request, meant, What(text), {})

    @page("/bulk/start", methods=("POST",), right=Right.CHANGE)
    def start(self, request: PageRequest) -> Response:
        """Have it done."""
        meant = request.ask(lambda tx: _meant(tx, request))
        text = request.form.get("what", "")
        if text not in OFFERED or (meant.is_all and not _is_for_all(request)):
            raise MalformedForm
        what = What(text)
        amount, errors = _amount(request, what)
        if what is What.DELETE and request.form.get("is_sure", "") != "yes":
            errors["is_sure"] = _UNSURE
        elif what is What.DELETE and _has_grown(request, meant):
            errors["is_sure"] = _GROWN
        if errors:
            return _form(request, meant, what, errors)
        return _ordered(request, _order(request, meant, what, amount), meant.total)


def _meant(tx: ReadTransaction, request: PageRequest) -> Meant:
    asked = licenses_filter.read(tx, request.form)
    if asked.errors:
        raise MalformedForm
    asked = replace(asked, texts={**asked.texts, **_numbers(asked.search)})
    found = license_pages.find_page(tx, asked.search, cursor=None, limit=1, now=request.now)
    names = licenses_filter.names_of(tx, [], asked.search)
    ids = () if _is_for_all(request) else tuple(map(_number, request.form.all("id")))
    return Meant(ids, asked, found, asked.chips(names))


def _is_for_all(request: PageRequest) -> bool:
    return request.form.get("scope", "") == "all"


def _numbers(search: Search) -> dict[str, str]:
    """The product and the customer by their numbers: what is asked about and then done must not depend on who
    has the name when.
    """
    numbers = {"product": search.product_id, "customer": search.customer_id}
    return {name: str(number) for name, number in numbers.items() if number is not None}


def _number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not is_number or not int(text) <= MAX_ID:
        raise MalformedForm
    return int(text)


def _has_grown(request: PageRequest, meant: Meant) -> bool:
    """Whether more licenses are meant than the form said, as far as it was counted."""
    counted = request.form.get("counted", "")
    if not counted.isdecimal() or len(counted) > _MOST_DIGITS:
        return False
    return meant.total is None or meant.total > int(counted)


def _amount(request: PageRequest, what: What) -> tuple[int | None, dict[str, str]]:
    text = request.form.get("amount", "")
    try:
        if what in (What.EXTEND, What.RAISE_LIMIT):
            return parse_positive(text), {}
        if what is What.SET_LIMIT:
            return (parse_limit(text) if text else None), {}
    except ValueError as reason:
        return None, {"amount": f"It {reason}."}
    return None, {}


def _where(meant: Meant) -> dict[str, Any]:
    return {"search": meant.asked.search} if meant.is_all else {"license_ids": meant.ids}


def _order(request: PageRequest, meant: Meant, what: What, amount: int | None) -> Change:
    is_from_now = request.form.get("begin", "") == "now"
    return Change(what=what, amount=amount, is_from_now=is_from_now, **_where(meant))


def _ordered(request: PageRequest, order: Order, total: int | None) -> Response:
    command = orders.start_command(order, total=total, context=request.context)
    return change_once(request, command, lambda job: Landing(f"/jobs/{job.id}"))


def _form(request: PageRequest, meant: Meant, what: What, errors: dict[str, str]) -> Response:
    return request.render(
        "licenses/bulk.html",
        status=422 if errors else 200,
        meant=meant,
        what=what.value,
        label=OFFERED[what],
        errors=errors,
    )
