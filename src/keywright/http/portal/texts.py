"""The portal's texts about license states and errors."""

from typing import NamedTuple

from keywright.core import errors as e
from keywright.http.pages.formats import N_, _, ngettext, write_day
from keywright.licensing.licenses.model import State

STATES = {
    State.VALID: N_("Valid"),
    State.GRACE: N_("Expired, still usable"),
    State.EXPIRED: N_("Expired"),
    State.INACTIVE: N_("Not active"),
    State.DISABLED: N_("Blocked"),
}
#: Texts from code that is shared with the admin pages; listed here for the portal's catalogs.
_SHARED = (N_("just now"),)
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_NOT_USABLE = N_("This license cannot be used at the moment, so there is no license file for it.")
_SENTENCES: dict[type[e.KeywrightError], str] = {
    e.NoRemovalLeft: N_("Devices of this license cannot be removed here. Please write to us."),
    e.OfflineNotAllowed: N_(
        "There is no license file for this license: the program needs the internet from time to time."
    ),
    e.LicenseExpired: N_("This license has expired, so there is no license file for it."),
    e.LicenseDisabled: _NOT_USABLE,
    e.LicenseInactive: _NOT_USABLE,
    e.NotActivated: N_("This device no longer uses the license."),
    e.NotFound: N_("This device is no longer there."),
    e.TooMuchStored: N_(
        "There is too much data for a file here. Please write to us, and we will make the file for you."
    ),
    e.UnknownLicenseId: N_("This license is no longer there."),
    e.UnknownLease: N_("This use has already ended."),
    e.HandedOnBefore: N_("This license was already given to somebody else once. That is possible only once."),
    e.SubscriptionRuns: N_(
        "A subscription pays for this license. You can give it to somebody else when the subscription has "
        "ended."
    ),
    e.NotTransferable: N_("This license cannot be given to somebody else. Please write to us."),
    e.TransferPending: N_("This license is already offered to somebody else. Cancel that offer first."),
}
_OTHERS: dict[int, tuple[str, str]] = {
    403: (N_("This is not allowed"), N_("Please go back, load the page again, and try once more.")),
    404: (N_("This page does not exist"), N_("The address may be misspelled, or the page no longer exists.")),
    405: (N_("This page does not exist"), N_("The address may be misspelled, or the page no longer exists.")),
    413: (N_("That was too long"), N_("Please go back and shorten what you have typed.")),
    429: (N_("Too many attempts"), N_("Please wait a while, and try again.")),
    500: (N_("Something went wrong"), N_("That is our fault, not yours. Please try again in a moment.")),
    503: (
        N_("Please try again in a moment"),
        N_("The server is very busy at the moment. Nothing was changed."),
    ),
}


class Message(NamedTuple):
    """A message in place of a page."""

    status: int
    heading: str
    sentence: str


def message_of(status: int) -> Message:
    """Return the message for an HTTP status, in the reader's language."""
    heading, sentence = _OTHERS.get(status, _OTHERS[500 if status >= 500 else 403])
    return Message(status, _(heading), _(sentence))


def message_for(error: e.KeywrightError) -> Message:
    """Return the message for an error, in the reader's language and without secrets."""
    message = message_of(error.status)
    if isinstance(error, e.CustomerSignInOver):
        return Message(
            error.status,
            _("This link is no longer valid"),
            _("A link works once, and only for a short time. Ask for a new one."),
        )
    return message._replace(sentence=explain(error) or message.sentence)


def explain(error: e.KeywrightError) -> str:
    """Return a sentence about an error that a customer can cause; "" for other errors."""
    if isinstance(error, e.RateLimited):
        return _("Please try again in %(time)s.", time=write_duration(error.retry_after))
    if isinstance(error, e.NoRemovalLeft) and error.retry_after_seconds is not None:
        return _(
            "You cannot remove more devices for now. You can remove the next one in %(time)s.",
            time=write_duration(error.retry_after_seconds),
        )
    if isinstance(error, e.ClaimedLately):
        return _(
            "You have added this license with its key. You can get a new key for it, or give it to somebody "
            "else, from %(day)s on.",
            day=write_day(error.until),
        )
    if isinstance(error, e.TransferTooEarly):
        return _("You can give this license to somebody else from %(day)s on.", day=write_day(error.until))
    found = next((text for kind, text in _SENTENCES.items() if isinstance(error, kind)), "")
    return _(found) if found else ""


def write_duration(seconds: int) -> str:
    """Format a duration, rounded up: ``5 minutes``, ``3 hours``, ``12 days``."""
    if seconds <= _HOUR:
        return ngettext("%(num)s minute", "%(num)s minutes", -(-seconds // _MINUTE))
    if seconds <= 2 * _DAY:
        return ngettext("%(num)s hour", "%(num)s hours", -(-seconds // _HOUR))
    return ngettext("%(num)s day", "%(num)s days", -(-seconds // _DAY))
