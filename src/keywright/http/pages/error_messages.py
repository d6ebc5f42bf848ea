"""Error messages of the pages: a status, a heading and a sentence for every error."""

import re
from typing import NamedTuple

from keywright.core import errors as e
from keywright.http.pages.languages import N_, _, ngettext


class Message(NamedTuple):
    """A message that a page shows in place of what was requested."""

    status: int
    heading: str
    sentence: str


#: The heading for users whose role is too small.
NOT_ALLOWED = e.NoReadPermission.heading
_HEADINGS = {
    400: N_("The request is not valid"),
    403: N_("This is not allowed"),
    404: N_("Not found"),
    405: N_("This page cannot be requested like this"),
    409: N_("Nothing was changed"),
    422: N_("Nothing was changed"),
    429: N_("Too many attempts"),
    500: N_("Something went wrong"),
    503: N_("Please try again in a moment"),
}
#: The words with which facts of errors begin.
_THINGS = {
    *(N_("product"), N_("customer"), N_("policy"), N_("event"), N_("activation"), N_("change")),
    *(N_("licenses"), N_("policies")),
}
_AMOUNT = re.compile(r"([\d,]+) (second|day|lease)s?")


def message_for(error: e.KeywrightError, sentence: str = "") -> Message:
    """The message for this error, in the reader's language, without license keys, tokens or other secrets.

    ``sentence`` takes the place of the error's own, which speaks to the vendor.
    """
    heading = error.heading or _HEADINGS.get(error.status, _HEADINGS[400])
    facts = {name: _translate(value) for name, value in error.facts().items()}
    return Message(error.status, _(heading), _(sentence or error.sentence).format(**facts))


def _translate(fact: object) -> object:
    """A fact in the reader's language, where it is an amount or a thing: ``30 seconds``, ``product 7``."""
    if not isinstance(fact, str):
        return fact
    if (amount := _AMOUNT.fullmatch(fact)) is not None:
        return _translate_amount(int(amount[1].replace(",", "")), amount[2])
    thing, space, number = fact.partition(" ")
    return f"{_(thing)}{space}{number}" if thing in _THINGS else fact


def _translate_amount(number: int, noun: str) -> str:
    if noun == "second":
        return ngettext("%(num)s second", "%(num)s seconds", number)
    if noun == "day":
        return ngettext("%(num)s day", "%(num)s days", number)
    return ngettext("%(num)s lease", "%(num)s leases", number)
