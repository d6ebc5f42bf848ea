"""Error messages of the pages: a status, a heading and a sentence for every error."""

from collections.abc import Callable
from typing import Any, NamedTuple

from keywright.core import errors as e
from keywright.core.parsing import write_time


class Message(NamedTuple):
    """A message that a page shows in place of what was requested."""

    status: int
    heading: str
    sentence: str


#: The heading for users whose role is too small.
NOT_ALLOWED = "Your role does not allow this"
_GONE = "There is nothing here (any more)"
_NOT_DONE = "This was not done"
_NOT_SENT = "This cannot be read"
_WAIT = "Please try again in a moment"
_INTERNAL = Message(
    500,
    "Something went wrong",
    "This is a fault of ours, and nothing was changed. The server's log says more.",
)
_UNAVAILABLE = Message(
    503, _WAIT, "The database does not answer right now. Nothing was changed; try again in a moment."
)

_MESSAGES: dict[type[e.KeywrightError], Message] = {
    e.UnknownLicense: Message(404, _GONE, "There is no such license. Somebody may have deleted it."),
    e.LicenseExpired: Message(409, _NOT_DONE, "The license expired on {when} (UTC). Extend it first."),
    e.LicenseInactive: Message(409, _NOT_DONE, "The license is inactive. Make it active first."),
    e.LicenseDisabled: Message(409, _NOT_DONE, "The license is disabled. Enable it first."),
    e.LimitReached: Message(
        409, _NOT_DONE, "Every place of the license is taken. Deactivate one, or raise the limit."
    ),
    e.NothingActive: Message(409, _NOT_DONE, "The license has no active places."),
    e.InvalidLicenseKey: Message(
        422, _NOT_DONE, "This cannot be a license key: it has 1 to 255 characters, none of them unprintable."
    ),
    e.LicenseKeyTaken: Message(409, _NOT_DONE, "Another license has this key already."),
    e.InvalidStatus: Message(422, _NOT_DONE, "A license is sold, delivered, active, inactive or disabled."),
    e.NothingToChange: Message(422, _NOT_DONE, "Nothing was given that could be changed."),
    e.FieldNotWritable: Message(422, _NOT_DONE, "The field {words} cannot be changed."),
    e.NoLicenses: Message(404, _GONE, "There are no licenses yet."),
    e.UnknownToken: Message(404, _GONE, "The license has no such activation."),
    e.AlreadyActivated: Message(409, _NOT_DONE, "This place is taken already."),
    e.TokenNotActive: Message(409, _NOT_DONE, "This place was given up already."),
    e.UnknownGenerator: Message(404, _GONE, "There is no such generator. Somebody may have deleted it."),
    e.NoGenerators: Message(404, _GONE, "There are no generators yet."),
    e.GeneratorFieldMissing: Message(422, _NOT_DONE, "A generator needs its {words}."),
    e.GeneratorFieldInvalid: Message(422, _NOT_DONE, "The generator's {words} cannot be this."),
    e.GeneratorFieldNotInteger: Message(422, _NOT_DONE, "The generator's {words} must be a whole number."),
    e.GeneratorTooWeak: Message(
        422, _NOT_DONE, "These keys could be guessed: they have {bits} bits, and need at least 64."
    ),
    e.InvalidParameters: Message(422, _NOT_DONE, "Please look at these again: {reasons}."),
    e.IdempotencyKeyReused: Message(409, _NOT_DONE, "This was sent before, with other values."),
    e.IdempotencyKeyBusy: Message(409, _WAIT, "This was sent before, and is being done."),
    e.UserExists: Message(409, _NOT_DONE, "There is a user of this name already."),
    e.UnknownUser: Message(404, _GONE, "There is no such user."),
    e.LastAdministrator: Message(
        409, _NOT_DONE, "Nobody else is an administrator. Make somebody else one first."
    ),
    e.SetupOver: Message(409, _NOT_DONE, "The first administrator was made already. Sign in instead."),
    e.NeverExpires: Message(409, _NOT_DONE, "The license never expires, so there is nothing to put off."),
    e.ExpiresLater: Message(409, _NOT_DONE, "The license is good for longer than that already."),
    e.NoLimit: Message(409, _NOT_DONE, "The license has no limit that could be raised."),
    e.UnknownJob: Message(404, _GONE, "There is no such job."),
    e.JobOver: Message(409, _NOT_DONE, "The job has ended already."),
    e.StepOver: Message(409, _NOT_DONE, "The job has moved on already."),
    e.TooManyJobs: Message(409, _NOT_DONE, "Too many jobs are waiting. Let some of them end first."),
    e.FileGone: Message(404, _GONE, "There is no file here (any more): files are kept for 24 hours."),
    e.UnknownApiKey: Message(404, _GONE, "There is no such API key in force."),
    e.CredentialsMissing: Message(403, _NOT_DONE, "Name and password are needed."),
    e.CredentialsInvalid: Message(403, _NOT_DONE, "The name or the password is wrong."),
    e.NoReadPermission: Message(403, NOT_ALLOWED, "You may not look at this."),
    e.NoWritePermission: Message(403, NOT_ALLOWED, "You may look at this, not change it."),
    e.RateLimited: Message(429, "Too many attempts", "Too many attempts failed. Please wait {seconds}."),
    e.NoSuchAddress: Message(404, "There is no such page", "The address may be old, or have a typing error."),
    e.MethodNotAllowed: Message(
        405, "This cannot be done here", "The page exists, but not for what was sent."
    ),
    e.PrefetchRefused: Message(403, _NOT_DONE, "A prefetch must not change anything."),
    e.MalformedRequest: Message(400, _NOT_SENT, "What was sent is not a well-formed request."),
    e.BodyIncomplete: Message(
        400, _NOT_SENT, "What was sent did not arrive completely. Please send it again."
    ),
    e.MalformedJson: Message(400, _NOT_SENT, "What was sent is not well-formed."),
    e.MalformedForm: Message(400, _NOT_SENT, "What was sent is not a form of these pages."),
    e.BodyTooLarge: Message(413, _NOT_SENT, "What was sent is too large."),
    e.AddressTooLong: Message(414, _NOT_SENT, "The address is too long."),
    e.HeadersTooLarge: Message(431, _NOT_SENT, "The request's headers are too large."),
    e.RequestTooSlow: Message(408, _NOT_SENT, "What was sent took too long to arrive. Please send it again."),
    e.EncodedBody: Message(415, _NOT_SENT, "Compressed forms are not accepted."),
    e.QueueFull: Message(
        503, _WAIT, "Too many others are waiting. Nothing was changed; try again in a moment."
    ),
    e.ShuttingDown: Message(503, _WAIT, "The server is about to stop. Nothing was changed; try again later."),
    e.FateUnknown: Message(
        503,
        "It is not known whether this was done",
        "The connection to the database broke at the last moment. Look whether it was done, then try again.",
    ),
    e.Refusal: Message(409, _NOT_DONE, "Keywright declined this ({code})."),
    e.AccessDenied: Message(403, _NOT_DONE, "You may not do this."),
    e.BadRequest: Message(400, _NOT_SENT, "What was sent cannot be understood."),
    e.Unavailable: _UNAVAILABLE,
    e.Fault: _INTERNAL,
    e.KeywrightError: _INTERNAL,
}


def message_for(error: e.KeywrightError) -> Message:
    """The message for this error. It never contains a license key, a token or another secret."""
    message = next(_MESSAGES[kind] for kind in type(error).__mro__ if kind in _MESSAGES)
    facts: dict[str, Any] = {"code": error.code}
    for kind, find in _FACTS.items():
        if isinstance(error, kind):
            facts |= find(error)
    return message._replace(sentence=message.sentence.format(**facts))


def counted(amount: int, thing: str) -> str:
    """An amount with its noun: ``1 place``, ``2,000 places``."""
    return f"{amount:,} {thing}" if amount == 1 else f"{amount:,} {thing}s"


#: The facts that the sentences of some errors contain.
_FACTS: dict[type[e.KeywrightError], Callable[[Any], dict[str, Any]]] = {
    e.LicenseExpired: lambda error: {"when": write_time(error.expires_at)},
    e.FieldRefusal: lambda error: {"words": error.field.replace("_", " ")},
    e.GeneratorTooWeak: lambda error: {"bits": f"{error.bits:.0f}"},
    e.RateLimited: lambda error: {"seconds": counted(error.retry_after, "second")},
    e.InvalidParameters: lambda error: {
        "reasons": "; ".join(f"{name.replace('_', ' ')} {why}" for name, why in error.reasons.items())
    },
}
