"""What jobs say about themselves, in the reader's language. Jobs store it in English, line by line."""

import re
from collections.abc import Callable

from keywright.http.pages.languages import N_, _
from keywright.http.pages.reasons import explain

#: Why a license is not changed: ``jobs.reasons``, and what a job finds by itself.
REASONS = (
    N_("the history does not hold what there was before"),
    N_("it is good for longer already"),
    N_("the limit would be too large"),
    N_("another license has its key now"),
    N_("too few places are free"),
    N_("it has no expiry that could be put off"),
    N_("it has no limit"),
    N_("no place is taken"),
    N_("it is like that already"),
    N_("another license is of its order line now"),
    N_("it is not there any more"),
    N_("it does not match any more"),
)
#: Why a job failed or was stopped.
SENTENCES = (
    N_("The policy has been deleted."),
    N_("The policy cannot make that many new keys: almost all that it can make exist already."),
    N_("The API key that ordered it was revoked."),
    N_("The user who ordered it is not there any more."),
)

_CHANGED_SINCE = re.compile(r"it has been changed since \((.+)\)")
_WRONG_VALUE = re.compile(r"(\w+) ((?:must|is) .+)")


def translate_message(line: str) -> str:
    """A line of a job's messages; one that is not known, as it is."""
    if line in SENTENCES:
        return _(line)
    for pattern, translate in _PATTERNS:
        if (found := pattern.fullmatch(line)) is not None:
            return translate(*found.groups())
    return line


def translate_reason(reason: str) -> str:
    """Why a license is not changed."""
    if reason in REASONS:
        return _(reason)
    found = _CHANGED_SINCE.fullmatch(reason)
    return reason if found is None else _("it has been changed since (%(fields)s)", fields=found[1])


def explain_line(reason: str) -> str:
    """Why a line of a table cannot be used: the column, and what is wrong with it."""
    found = _WRONG_VALUE.fullmatch(reason)
    return reason if found is None else f"{found[1]}: {explain(found[2])}"


def _of_license(number: str, reason: str) -> str:
    return _("License %(number)s: %(reason)s.", number=number, reason=translate_reason(reason))


def _of_line(number: str, reason: str) -> str:
    return _("Line %(number)s: %(reason)s", number=number, reason=explain_line(reason))


#: Lines with values in them.
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[..., str]], ...] = (
    (re.compile(r"License (\d+): (.+)\."), _of_license),
    (re.compile(r"Line (\d+): (.+)\."), _of_line),
    (re.compile(r"(.+) was disabled\."), lambda name: _("%(name)s was disabled.", name=name)),
    (
        re.compile(r"(.+) may not change licenses any more\."),
        lambda name: _("%(name)s may not change licenses any more.", name=name),
    ),
)
