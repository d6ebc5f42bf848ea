"""What is done with many licenses at once: with those that were ticked, or with all that a filter lets
through. It is long work, which a job does.
"""

from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from starlette.responses import Response

from keywright import jobs
from keywright import search as browsing
from keywright.core.errors import MalformedForm
from keywright.core.parsing import MAX_ID, parse_limit
from keywright.db import ReadTransaction
from keywright.http.admin.sections.licenses import filter as licenses_filter
from keywright.http.admin.sections.licenses.filter import Chip, Filter
from keywright.http.admin.sections.licenses.forms import parse_positive
from keywright.http.pages.once import Landing, change_once
from keywright.http.pages.page import Visit, page
from keywright.identity.rights import Right
from keywright.jobs import What
from keywright.search import Page, Search

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
    def choose(self, visit: Visit) -> Response:
        """Say what will be done with which licenses, and ask how; an export is begun at once."""
        meant = visit.ask(lambda tx: _meant(tx, visit))
        if meant.is_all and not _is_for_all(visit):
            return visit.back(meant.asked.path, _NOTHING, is_bad=True)
        text = visit.form.get("what", "")
        if text == EXPORT:
            return _ordered(visit, jobs.Export(**_where(meant)), meant.total)
        if text not in OFFERED:
            return visit.back(meant.asked.path, _UNDECIDED, is_bad=True)
        return _form(visit, meant, What(text), {})

    @page("/bulk/start", methods=("POST",), right=Right.CHANGE)
    def start(self, visit: Visit) -> Response:
        """Have it done."""
        meant = visit.ask(lambda tx: _meant(tx, visit))
        text = visit.form.get("what", "")
        if text not in OFFERED or (meant.is_all and not _is_for_all(visit)):
            raise MalformedForm
        what = What(text)
        amount, errors = _amount(visit, what)
        if what is What.DELETE and visit.form.get("is_sure", "") != "yes":
            errors["is_sure"] = _UNSURE
        elif what is What.DELETE and _has_grown(visit, meant):
            errors["is_sure"] = _GROWN
        if errors:
            return _form(visit, meant, what, errors)
        return _ordered(visit, _order(visit, meant, what, amount), meant.total)


def _meant(tx: ReadTransaction, visit: Visit) -> Meant:
    asked = licenses_filter.read(tx, visit.form)
    if asked.errors:
        raise MalformedForm
    asked = replace(asked, texts={**asked.texts, **_numbers(asked.search)})
    found = browsing.find_page(tx, asked.search, cursor=None, limit=1, now=visit.now)
    names = licenses_filter.names_of(tx, [], asked.search)
    ids = () if _is_for_all(visit) else tuple(map(_number, visit.form.all("id")))
    return Meant(ids, asked, found, asked.chips(names))


def _is_for_all(visit: Visit) -> bool:
    return visit.form.get("scope", "") == "all"


def _numbers(search: Search) -> dict[str, str]:
    """The product and the customer by their numbers: what is asked about and then done must not depend on who
    has the name when.
    """
    numbers = {"product": search.product_id, "customer": search.user_id}
    return {name: str(number) for name, number in numbers.items() if number is not None}


def _number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not is_number or not int(text) <= MAX_ID:
        raise MalformedForm
    return int(text)


def _has_grown(visit: Visit, meant: Meant) -> bool:
    """Whether more licenses are meant than the form said, as far as it was counted."""
    counted = visit.form.get("counted", "")
    if not counted.isdecimal() or len(counted) > _MOST_DIGITS:
        return False
    return meant.total is None or meant.total > int(counted)


def _amount(visit: Visit, what: What) -> tuple[int | None, dict[str, str]]:
    text = visit.form.get("amount", "")
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


def _order(visit: Visit, meant: Meant, what: What, amount: int | None) -> jobs.Change:
    is_from_now = visit.form.get("begin", "") == "now"
    return jobs.Change(what=what, amount=amount, is_from_now=is_from_now, **_where(meant))


def _ordered(visit: Visit, order: jobs.Order, total: int | None) -> Response:
    command = jobs.start(order, total=total, **visit.command_fields())
    return change_once(visit, command, lambda job: Landing(f"/jobs/{job.id}"))


def _form(visit: Visit, meant: Meant, what: What, errors: dict[str, str]) -> Response:
    return visit.page(
        "licenses/bulk.html",
        status=422 if errors else 200,
        meant=meant,
        what=what.value,
        label=OFFERED[what],
        errors=errors,
    )
