"""Error messages of the pages, and reasons why a value is refused, in the reader's language.

Parsers state the reason in English, as the end of a sentence (``ValueError("must be an e-mail address")``).
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from keywright.core import errors as e
from keywright.http.pages.formats import N_, _, ngettext, write_number

#: Every sentence that ``explain`` can translate; ``%(name)s`` matches any text.
SENTENCES = (
    N_("It must be an integer from 0 to %(most)s."),
    N_("It must be an integer from %(least)s to %(most)s."),
    N_("It must be a whole number from 1 to %(most)s."),
    N_("It must be YYYY-MM-DD HH:MM:SS, YYYY-MM-DD, or ISO 8601."),
    N_("It must be a text of at most %(most)s characters, without null characters."),
    N_("It must have 1 to %(most)s characters, and no control characters."),
    N_("It must be one of these."),
    N_("It must be an e-mail address."),
    N_("It must have no spaces."),
    N_("It must not be empty."),
    N_("It must have no control characters."),
    N_("It must be an address such as %(example)s."),
    N_("It must be a language such as %(example)s."),
    N_("It must begin with https://: over http://, others could read the credentials."),
    N_("It must not be a number, which would be an ID."),
    N_("It must be an object whose values are texts."),
    N_("It must not contain null characters."),
    N_("It must be at most %(most)s bytes as JSON."),
    N_("It must be a JSON object."),
    N_("It must be a JSON object with at most %(most)s keys."),
    N_("It must have at most %(most)s KiB, and no null characters."),
    N_("It must have at most %(most)s levels."),
    N_("It must have no integers beyond %(most)s: many programs would round them."),
    N_("It must have each meter once; %(name)s appears twice."),
    N_("It must have each code once; %(code)s appears twice."),
    N_("It must have 1 to %(most)s of a-z, 0-9, '_', '.', '-', and begin with a letter or a digit."),
    N_("It must have at most %(most)s features."),
    N_("It must have at most %(most)s codes."),
    N_("It must have at most %(most)s meters."),
    N_("It is a duplicate."),
    N_("It must not be stable, which every product has."),
    N_("It must not have duplicates."),
    N_("It must be a public key of Ed25519 or minisign, as base64."),
    N_("It must be base64."),
    N_("It is missing."),
    N_("It must be sold, delivered, active, inactive or disabled."),
    N_("It must be in UTF-8, without null characters."),
    N_("It must be a list of objects."),
    N_("It is neither an ID nor a name."),
    N_("It is the name of %(one)s and of %(other)s: type the ID."),
    N_("It is not valid here; search again."),
    N_("It is too long to be sorted like this; narrow the search to at most %(most)s licenses."),
    N_("It must be full or unused."),
    N_("It must be one of %(names)s."),
    N_("It is neither the ID nor the name of a policy."),
    N_("It must be a day, such as %(example)s."),
    N_("It must be a color such as %(example)s."),
    N_("It must have at most %(most)s kB."),
    N_("It must be a PNG, JPEG or WebP image."),
    N_("It must have at most %(most)s links."),
    N_("It must have a text and an address such as %(example)s in each line."),
    N_("It must have at most %(most)s characters."),
    N_("It must be %(names)s."),
    N_("The keys would contain control characters, or begin or end with white space."),
    N_("The keys would have %(length)s characters; the maximum is %(most)s."),
)
_VALUE = re.compile(r"%\\\((\w+)\\\)s")
_LARGE_NUMBER = re.compile(r"\d{1,3}(,\d{3})+")


def explain(reason: object, subject: str = "It") -> str:
    """The translated sentence about a value that a parser refused: ``It must be an e-mail address.``

    ``reason`` is the parser's ``ValueError``. A sentence that is not in ``SENTENCES`` stays English.
    """
    text = f"{subject} {reason}."
    found = find_sentence(text)
    if found is None:
        return text
    sentence, values = found
    return _(sentence, **{name: _localize(value) for name, value in values.items()})


def find_sentence(text: str) -> tuple[str, dict[str, str]] | None:
    """The member of ``SENTENCES`` that matches this text, and the values in it."""
    for sentence, pattern in _patterns():
        if (found := pattern.fullmatch(text)) is not None:
            return sentence, found.groupdict()
    return None


@cache
def _patterns() -> Sequence[tuple[str, re.Pattern[str]]]:
    return [(one, re.compile(_VALUE.sub(r"(?P<\1>.+)", re.escape(one)))) for one in SENTENCES]


def _localize(value: str) -> str:
    """A number with thousands separators in the language's format; any other value unchanged."""
    return write_number(int(value.replace(",", ""))) if _LARGE_NUMBER.fullmatch(value) else value


class Message(NamedTuple):
    """A message that is shown instead of the requested page."""

    status: int
    heading: str
    sentence: str


#: The heading for users whose role lacks the right.
NOT_ALLOWED = e.NoReadPermission.heading
_HEADINGS = {
    400: N_("The request is not valid"),
    403: N_("This is not allowed"),
    404: N_("Not found"),
    405: N_("This page does not accept this kind of request"),
    409: N_("Nothing was changed"),
    422: N_("Nothing was changed"),
    429: N_("Too many attempts"),
    500: N_("Something went wrong"),
    503: N_("Please try again in a moment"),
}
#: The nouns with which facts of errors can begin.
_THINGS = {
    *(N_("product"), N_("customer"), N_("policy"), N_("event"), N_("activation"), N_("change")),
    *(N_("licenses"), N_("policies")),
}
_AMOUNT = re.compile(r"([\d,]+) (second|day|lease)s?")


def message_for(error: e.KeywrightError, sentence: str = "") -> Message:
    """The message for this error, in the reader's language, without license keys, tokens or other secrets.

    ``sentence`` replaces the error's own, which addresses the vendor.
    """
    heading = error.heading or _HEADINGS.get(error.status, _HEADINGS[400])
    facts = {name: _translate(value) for name, value in error.facts().items()}
    return Message(error.status, _(heading), _(sentence or error.sentence).format(**facts))


def _translate(fact: object) -> object:
    """A fact in the reader's language if it is an amount or a noun with an ID: ``30 seconds``, ``product 7``.
    Other facts are returned unchanged.
    """
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
