"""The age of workers' claims on jobs, by a clock that does not jump."""

from collections.abc import Callable, Iterable
from time import monotonic

from keywright.jobs.handlers import CLAIM
from keywright.jobs.model import Claim


class Claims:
    """The claims of all workers, as one process has seen them. The time in a claim comes from the clock of
    another process, which may be wrong: a claim is over when it has not changed, since this process first saw
    it, for as long as claims hold.
    """

    def __init__(self, claimed_by: str, clock: Callable[[], float] = monotonic) -> None:
        """``clock`` is in seconds and does not jump."""
        self._claimed_by = claimed_by
        self._clock = clock
        self._seen_at: dict[Claim, float] = {}

    def find_over(self, claims: Iterable[Claim]) -> tuple[Claim, ...]:
        """Those of all claims that are over, are this process's own, or have no owner."""
        now = self._clock()
        self._seen_at = {one: self._seen_at.get(one, now) for one in claims}
        latest = now - CLAIM.total_seconds()
        return tuple(
            one
            for one, seen_at in self._seen_at.items()
            if seen_at <= latest or one.claimed_by in (None, self._claimed_by)
        )
