"""What the command line says when something could not be done: one sentence, and what to do."""

from collections.abc import Callable
from typing import Any

from keywright.core import errors as e
from keywright.core.parsing import write_time


def sentence(problem: e.KeywrightError | OSError) -> str:
    """The sentence about this problem."""
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        return f"{where}{problem.strerror or problem}."
    for kind in type(problem).__mro__:
        if kind in SENTENCES:
            return SENTENCES[kind](problem)
    return f"this was refused ({problem.code})."


def _expired(problem: e.LicenseExpired) -> str:
    return (
        f"the license expired at {write_time(problem.expires_at)} (UTC). "
        "Give it more time with `keywright license update KEY --expires-at TIME`."
    )


def _limit_reached(problem: e.LimitReached) -> str:
    return (
        f"every place of the license {problem.key} is taken. Deactivate one, or raise its limit with "
        "`keywright license update KEY --max N`."
    )


def _not_usable(status: str) -> Callable[[e.LicenseRefusal], str]:
    return lambda problem: (
        f"the license {problem.key} is {status}. Change that with "
        "`keywright license update KEY --status active`."
    )


def _too_weak(problem: e.GeneratorTooWeak) -> str:
    return (
        f"its keys could be guessed: they have {problem.bits:.0f} bits of randomness, and 64 is the least. "
        "Use more chunks or characters, or --force it."
    )


def _invalid(problem: e.InvalidParameters) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in problem.reasons.items()) + "."


def _fault(problem: e.Fault) -> str:
    return (
        f"this is a fault of Keywright ({str(problem) or problem.code}), and nothing was changed; "
        "run with KEYWRIGHT_DEBUG=1 for the details."
    )


SENTENCES: dict[type[BaseException], Callable[[Any], str]] = {
    e.UnknownLicense: lambda x: (
        f"there is no license with the key {x.key}. `keywright license list` shows those there are."
    ),
    e.LicenseExpired: _expired,
    e.LicenseInactive: _not_usable("inactive"),
    e.LicenseDisabled: _not_usable("disabled"),
    e.LimitReached: _limit_reached,
    e.NothingActive: lambda x: f"the license {x.key} has no active place; there is nothing to deactivate.",
    e.InvalidLicenseKey: lambda _: (
        "this cannot be a license key: it must have 1 to 255 characters, and no control characters."
    ),
    e.LicenseKeyTaken: lambda _: "another license has this key already. Choose another key.",
    e.InvalidStatus: lambda _: "there is no such status. Use sold, delivered, active, inactive or disabled.",
    e.NothingToChange: lambda _: "nothing was said to change. Name at least one option such as --max.",
    e.FieldNotWritable: lambda x: f"the field {x.field} cannot be changed.",
    e.NoLicenses: lambda _: "there are no licenses. Make one with `keywright license create`.",
    e.UnknownToken: lambda x: (
        f"the license has no activation with the token {x.token}. `keywright license show KEY` lists them."
    ),
    e.AlreadyActivated: lambda x: f"the activation {x.token} is active already.",
    e.TokenNotActive: lambda x: (
        f"the license has no active place with the token {x.token}. "
        "`keywright license show KEY` lists its activations."
    ),
    e.UnknownGenerator: lambda x: (
        f"there is no generator {x.generator_id}. `keywright generator list` shows those there are."
    ),
    e.NoGenerators: lambda _: "there are no generators. Make one with `keywright generator create`.",
    e.GeneratorFieldMissing: lambda x: f"a generator needs a {x.field}.",
    e.GeneratorFieldInvalid: lambda x: f"the generator's {x.field} cannot be used.",
    e.GeneratorTooWeak: _too_weak,
    e.InvalidParameters: _invalid,
    e.UserExists: lambda _: "there is a user of this name already. Choose another name.",
    e.UnknownUser: lambda _: "there is no user of this name. `keywright user list` shows those there are.",
    e.LastAdministrator: lambda _: (
        "nobody would be left who may administer. Make another administrator first."
    ),
    e.SetupOver: lambda _: (
        "there are users already, so no link makes the first administrator any more. "
        "`keywright user create` makes another user."
    ),
    e.UnknownApiKey: lambda _: (
        "no API key with this number is in force. `keywright apikey list` shows those there are."
    ),
    e.StoreBusy: lambda _: "another program has been writing to the database for too long. Try again.",
    e.Unavailable: lambda x: (
        f"the database failed ({str(x) or x.code}). Look whether it runs and can be written, then try again."
    ),
    e.Fault: _fault,
    e.WorkerFailed: lambda _: "a server process could not start; the log says why.",
    # These two say it themselves.
    e.ConfigurationError: str,
    e.StoreError: str,
}
