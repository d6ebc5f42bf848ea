"""What the clients asked and what they were told. Moments are seconds of ``time.monotonic``."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

#: What is known about a change: it was acknowledged; it was refused; it was said not to have been carried
#: out; nobody can tell.
Fate = Literal["done", "refused", "failed", "unknown"]
Lane = Literal["write", "read"]


class LicenseKey(NamedTuple):
    """A license, and how many places it has; None is no limit."""

    id: int
    key: str
    limit: int | None


@dataclass(slots=True)
class Activation:
    """One place that was asked for, however often until there was an answer."""

    license: LicenseKey
    #: Its own among all; with ``is_keyed`` it is the Idempotency-Key, too.
    label: str
    is_keyed: bool
    fate: Fate = "unknown"
    #: Why it was refused.
    message: str = ""
    token: str = ""
    times_activated: int = 0
    #: None until somebody asks to give the place up.
    given_up: Fate | None = None


class Answer(NamedTuple):
    """What one attempt came to: ``ok``, ``refused``, a status such as ``503``, or how it failed.

    ``503?`` is the status with the words that it is not known whether the call was carried out.
    """

    at: float
    lane: Lane
    instance: int
    what: str
    #: How long it took, in seconds.
    took: float


#: What an attempt can come to that is no trouble.
FINE = ("ok", "refused")


@dataclass(slots=True)
class Journal:
    """Everything that the clients of a round know."""

    licenses: list[LicenseKey]
    activations: list[Activation] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    #: Validations that said what cannot be, in words.
    contradictions: list[str] = field(default_factory=list)

    def troubles(self) -> Counter[str]:
        """How often each kind of trouble was met."""
        return Counter(answer.what for answer in self.answers if answer.what not in FINE)

    def last(self, lane: Lane, instance: int) -> float:
        """When this instance last succeeded in this lane; 0 is never."""
        for answer in reversed(self.answers):
            if (answer.lane, answer.instance, answer.what) == (lane, instance, "ok"):
                return answer.at
        return 0.0
