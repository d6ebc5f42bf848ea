"""The reader's language, and the formats of numbers, days and times in it.

The texts in code and templates are English, inside ``_()``, ``ngettext()`` or, where the text is translated
later, ``N_()``; ``python -m tools.texts`` collects them. A site has a folder of catalogs, one file per
language. The language of the current request is a context variable.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from keywright.core.parsing import format_size
from keywright.languages import ENGLISH, Language

if TYPE_CHECKING:
    from babel import Locale

#: The cookie with the name of the browser's time zone.
_COOKIE = "keywright_zone"
_MAX_NAME_LENGTH = 64
UTC_NAME = "UTC"
_A_SECOND = timedelta(seconds=1)


def zone_of(cookies: Mapping[str, str], default: str) -> ZoneInfo:
    """The reader's time zone: that of the browser's cookie, else the one named ``default``, else UTC."""
    names = (cookies.get(_COOKIE, ""), default, UTC_NAME)
    return next(zone for name in names if (zone := find_zone(name)) is not None)


def last_day(end: datetime, zone: ZoneInfo) -> date:
    """The last day, in the time zone, of a period that ends at this moment (exclusive). Where the conversion
    overflows, the UTC date of the end.
    """
    try:
        return last_second(end).astimezone(zone).date()
    except OverflowError:
        return end.date()


def last_second(end: datetime) -> datetime:
    """The last second of a period that ends at this moment (exclusive)."""
    return end if end.replace(tzinfo=None) == datetime.min else end - _A_SECOND


@lru_cache(maxsize=100)
def find_zone(name: str) -> ZoneInfo | None:
    """The time zone of this name in the IANA database; None if it is unknown here."""
    if not 0 < len(name) <= _MAX_NAME_LENGTH:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


#: The size of each cache of formatted numbers or days. Babel takes 30 µs for one, and a page has a hundred,
#: most of them repeated.
_KEPT = 5_000


def write_number(value: Any) -> str:
    """``12,345``; ``0.5``."""
    return _format_number(value, current_language().locale)


@lru_cache(maxsize=_KEPT, typed=True)
def _format_number(value: Any, locale: "Locale") -> str:
    from babel.numbers import format_decimal

    return format_decimal(value, locale=locale)


def write_size(size: int) -> str:
    """``12 kB``, ``3.4 MB``: like ``format_size``."""
    from babel.numbers import format_decimal

    number, unit = format_size(size).split(" ")
    pattern = "#,##0.0" if "." in number else "#,##0"
    return f"{format_decimal(float(number), pattern, locale=current_language().locale)} {unit}"


def write_moment(moment: datetime) -> str:
    """``Nov 23, 2026, 2:12 PM UTC``."""
    from babel.dates import format_datetime

    written = format_datetime(moment, "medium", tzinfo=UTC, locale=current_language().locale)
    return f"{written} UTC"


def write_day(day: date) -> str:
    """``Nov 23, 2026``."""
    return _format_day(day.toordinal(), current_language().locale)


@lru_cache(maxsize=_KEPT)
def _format_day(ordinal: int, locale: "Locale") -> str:
    from babel.dates import format_date

    return format_date(date.fromordinal(ordinal), "medium", locale=locale)


def write_short_day(day: date) -> str:
    """``Nov 23``, for charts."""
    from babel.dates import format_skeleton

    return format_skeleton("MMMd", day, locale=current_language().locale)


def write_month(day: date) -> str:
    """``Nov 2026``."""
    from babel.dates import format_skeleton

    return format_skeleton("yMMM", day, locale=current_language().locale)


def write_ago(moment: datetime, now: datetime) -> str:
    """``3 minutes ago``, ``in 2 days``: the difference in its largest unit."""
    from babel.dates import format_timedelta

    if moment == now:
        return _("just now")
    return format_timedelta(moment - now, threshold=1, add_direction=True, locale=current_language().locale)


def is_near(moment: datetime, now: datetime) -> bool:
    """Whether the moment is less than a day away, so that its time of day matters."""
    return abs(moment - now) < timedelta(days=1)


def write_clock(moment: datetime) -> str:
    """``2:12 PM``, in UTC."""
    from babel.dates import format_time

    return format_time(moment, "short", tzinfo=UTC, locale=current_language().locale)


#: The catalogs of the portal, and of other pages for customers.
PORTAL_CATALOGS = Path(__file__).parent.parent / "portal" / "locale"
#: The tags that a text may contain to count as HTML; a text with any other tag does not.
_TAG = re.compile(r"</?(b|code|em|kbd|a|span)( (class|href)='[^'<>]*')*>")
#: The most languages of an ``Accept-Language`` header that are considered.
_MAX_ACCEPTED = 20
#: The size of the cache of translated texts. A page has hundreds of texts, most of them repeated.
_KEPT_LANGUAGE = 10_000


class Languages:
    """The languages of a site: English, and one per catalog in the folder."""

    def __init__(self, folder: Path) -> None:
        catalogs = {one.stem.replace("_", "-"): one for one in sorted(folder.glob("*.po"))}
        self._languages = {ENGLISH: _ENGLISH} | {code: Language(code, at) for code, at in catalogs.items()}

    def __iter__(self) -> Iterator[Language]:
        return iter(self._languages.values())

    def __contains__(self, code: object) -> bool:
        return code in self._languages

    def choose(self, chosen: str | None, accepted: str) -> Language:
        """The ``chosen`` language, if the site has it; otherwise, the most preferred one of an
        ``Accept-Language`` header that it has, or English.
        """
        for code in (chosen or "", *_parse_accepted(accepted)):
            language = code.partition("-")[0]
            others = [one for one in self._languages if language and one.startswith(f"{language}-")]
            for known in (code, language, *others):
                if known in self._languages:
                    return self._languages[known]
        return self._languages[ENGLISH]


def _parse_accepted(header: str) -> Sequence[str]:
    """The languages in an ``Accept-Language`` header, in order of preference: ``de``, ``pt-BR``."""
    found: list[tuple[float, str]] = []
    for one in header.split(",")[:_MAX_ACCEPTED]:
        code, _, quality = one.partition(";")
        language, _, region = code.strip().partition("-")
        try:
            weight = float(quality.strip().removeprefix("q=") or 1)
        except ValueError:
            weight = 0.0
        if 0 < weight <= 1:
            found.append((weight, f"{language.lower()}-{region.upper()}" if region else language.lower()))
    return [code for _, code in sorted(found, key=lambda one: -one[0])]


_ENGLISH = Language(ENGLISH)
_current: ContextVar[Language] = ContextVar("language", default=_ENGLISH)


@contextmanager
def speaking(language: Language) -> Iterator[None]:
    """Use this language for every text in the ``with`` block."""
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)


def current_language() -> Language:
    """The language of the request in progress; otherwise English."""
    return _current.get()


def N_(text: str) -> str:
    """Mark a text for translation and return it unchanged; ``_`` translates it where it is shown."""
    return text


def gettext(text: str, /, **values: Any) -> str:
    """The text in the reader's language, with values in place of ``%(name)s``; ``%`` is written ``%%``.

    A text with only the tags of ``_TAG``, or with a value that is HTML, is HTML; all other values are
    escaped.
    """
    language = _current.get()
    if not values:
        return _translate(language, text)
    return _fill(text, language.translations.gettext(text), values)


@lru_cache(maxsize=_KEPT_LANGUAGE)
def _translate(language: Language, text: str) -> str:
    return _fill(text, language.translations.gettext(text), {})


def pgettext(context: str, text: str, /, **values: Any) -> str:
    """Like ``gettext``, for an English text whose translation depends on the ``context``."""
    return _fill(text, current_language().translations.pgettext(context, text), values)


def ngettext(singular: str, plural: str, number: int, /, **values: Any) -> str:
    """The text for this number. ``%(num)s`` in it becomes the number in the language's format."""
    from babel.numbers import format_decimal

    language = current_language()
    values.setdefault("num", format_decimal(number, locale=language.locale))
    return _fill(singular, language.translations.ngettext(singular, plural, number), values)


_ = gettext


def _fill(original: str, text: str, values: dict[str, Any]) -> str:
    """Insert the values. Only ``original`` decides whether the text is HTML; the catalog's text cannot."""
    if "<" in original and "<" not in _TAG.sub("", original):
        return Markup(text) % values  # noqa: S704
    # Not any(): its generator would cost a call per value, and a page has hundreds of values.
    for one in values.values():
        if hasattr(one, "__html__"):
            return escape(text) % values
    return text % values
