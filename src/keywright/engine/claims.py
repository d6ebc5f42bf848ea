"""The age of workers' claims on jobs and the like, by a clock that does not jump."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from time import monotonic
from typing import Generic, Protocol, TypeVar

#: How long a claim that its owner does not renew holds.
CLAIM = timedelta(seconds=5)


class _Claim(Protocol):
    @property
    def claimed_by(self) -> str | None: ...


Claim = TypeVar("Claim", bound=_Claim)


class Claims(Generic[Claim]):
    """The claims of all workers, as one process has seen them. The time in a claim comes from the clock of
    another process, which may be wrong: a claim is over when it has not changed, since this process first saw
    it, for as long as claims hold.
    """

    def __init__(
        self, claimed_by: str, clock: Callable[[], float] = monotonic, holds_for: timedelta = CLAIM
    ) -> None:
        """``clock`` is in seconds and does not jump."""
        self._holds_for = holds_for.total_seconds()
        self._claimed_by = claimed_by
        self._clock = clock
        self._seen_at: dict[Claim, float] = {}

    def find_over(self, claims: Iterable[Claim]) -> tuple[Claim, ...]:
        """Those of all claims that are over, are this process's own, or have no owner."""
        now = self._clock()
        self._seen_at = {one: self._seen_at.get(one, now) for one in claims}
        latest = now - self._holds_for
        return tuple(
            one
            for one, seen_at in self._seen_at.items()
            if seen_at <= latest or one.claimed_by in (None, self._claimed_by)
        )
