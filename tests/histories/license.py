"""What one license does when it is asked one thing after the other: the contract in a few lines, and nothing
of Keywright's own code.

An activation is named by its label, which no other one of the license has.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

What = Literal[
    "activate",
    "reactivate",
    "deactivate",
    "deactivate all",
    "validate",
    "validate one",
    "set limit",
    "activate device",
    "deactivate device",
]
#: Why it was refused, by the end of the sentence in the contract (§4).
REFUSALS = {
    "reached maximum activation count.": "full",
    "is already activated.": "active",
    "could not be found or is deactivated.": "not active",
    "could not be found.": "unknown",
    "has not been activated yet.": "nothing active",
}


class License(NamedTuple):
    """A license at one moment: the limit, and the labels of its activations."""

    limit: int | None
    active: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()

    @property
    def is_full(self) -> bool:
        return self.limit is not None and len(self.active) >= self.limit

    def with_active(self, label: str) -> "License":
        return self._replace(active=self.active | {label}, ended=self.ended - {label})

    def without(self, labels: frozenset[str]) -> "License":
        return self._replace(active=self.active - labels, ended=self.ended | labels)


class Done(NamedTuple):
    """A success: the counter and the limit after it, and the labels of the activations that it told of."""

    times_activated: int
    limit: int | None
    active: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    #: Free places, which only validations tell.
    remaining: int | None = None


class Refused(NamedTuple):
    """It was refused, and changed nothing."""

    why: str


Answer = Done | Refused


class Operation(NamedTuple):
    """Something that somebody asked of a license, when, and what the answer was.

    Without an answer it is not known what became of it: it may have happened at any time since, or never.
    """

    what: What
    #: A label; or the new limit.
    about: Any
    answer: Answer | None
    started_at: float
    ended_at: float = math.inf


def carry_out(license: License, operation: Operation) -> tuple[License, Answer]:
    """The license after it, and what the contract says that the answer is."""
    return _RULES[operation.what](license, operation.about)


def report(license: License) -> Done:
    """What a validation tells."""
    taken, limit = len(license.active), license.limit
    return Done(taken, limit, license.active, license.ended, None if limit is None else limit - taken)


def _take(license: License, label: str) -> tuple[License, Answer]:
    if license.is_full:
        return license, Refused("full")
    after = license.with_active(label)
    return after, Done(len(after.active), after.limit, active=frozenset({label}))


def _give_up(license: License, labels: frozenset[str], otherwise: str) -> tuple[License, Answer]:
    if not labels:
        return license, Refused(otherwise)
    after = license.without(labels)
    return after, Done(len(after.active), after.limit, ended=labels)


def _reactivate(license: License, label: str) -> tuple[License, Answer]:
    if label in license.active:
        return license, Refused("active")
    return _take(license, label) if label in license.ended else (license, Refused("unknown"))


def _deactivate(license: License, label: str) -> tuple[License, Answer]:
    return _give_up(license, frozenset({label}) & license.active, "not active")


def _deactivate_all(license: License, _: None) -> tuple[License, Answer]:
    return _give_up(license, license.active, "nothing active")


def _validate(license: License, _: None) -> tuple[License, Answer]:
    return license, report(license)


def _validate_one(license: License, label: str) -> tuple[License, Answer]:
    if label not in license.active:
        return license, Refused("not active")
    return license, report(license)._replace(active=frozenset({label}), ended=frozenset())


def _set_limit(license: License, limit: int | None) -> tuple[License, Answer]:
    changed = license._replace(limit=limit)
    return changed, Done(len(changed.active), changed.limit)


def _activate_device(license: License, label: str) -> tuple[License, Answer]:
    """Over v3: a device has one place at most."""
    if label in license.active:
        return license, Done(len(license.active), license.limit, active=frozenset({label}))
    return _take(license, label)


def _deactivate_device(license: License, label: str) -> tuple[License, Answer]:
    if label not in license.active | license.ended:
        return license, Refused("unknown device")
    after = license.without(frozenset({label}))
    return after, Done(len(after.active), after.limit, ended=frozenset({label}))


_RULES: dict[What, Callable[[License, Any], tuple[License, Answer]]] = {
    "activate": _take,
    "reactivate": _reactivate,
    "deactivate": _deactivate,
    "deactivate all": _deactivate_all,
    "validate": _validate,
    "validate one": _validate_one,
    "set limit": _set_limit,
    "activate device": _activate_device,
    "deactivate device": _deactivate_device,
}
