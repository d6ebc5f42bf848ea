"""Token buckets: bursts, and refills over time."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keywright.core.errors import RateLimited, TooManyChanges
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.server.sockets import site_of, source_of
from tests.tables import each_row

NOW = 1_000_000.0


def takes(limit: RateLimit, times: int, source: str = "a", now: float = NOW) -> int:
    """Count how many of these attempts are allowed."""
    return sum(may_take(limit, source, now) for _ in range(times))


def may_take(limit: RateLimit, source: str = "a", now: float = NOW) -> bool:
    try:
        limit.take(now, source)
    except RateLimited:
        return False
    return True


@each_row("per_minute", [1, 7, 60, 120, 600, 10_000])
def test_as_many_as_a_minute_refills_are_allowed_at_once(per_minute: int) -> None:
    limit = RateLimit(per_minute)
    assert takes(limit, per_minute + 5) == per_minute
    assert takes(limit, 1, "b") == 1


def test_a_burst_can_be_larger_than_what_a_minute_refills() -> None:
    limit = RateLimit(120, burst=1_000)
    assert takes(limit, 1_100) == 1_000
    assert takes(limit, 100, now=NOW + 10) == 20
    assert takes(limit, 2_000, now=NOW + 3_600) == 1_000
    # Zero means no limit.
    limit = RateLimit(0, burst=10)
    assert takes(limit, 1_000) == 1_000
    assert len(limit) == 0


def test_what_is_given_back_or_refused_was_not_taken() -> None:
    limit = RateLimit(10)
    for _ in range(100):
        limit.take(NOW, "a")
        limit.give_back(NOW, "a")
    assert len(limit) == 0
    assert takes(limit, 20) == 10
    # Of several sources, all are charged or none.
    with pytest.raises(RateLimited):
        limit.take(NOW, "b", "a")
    assert takes(limit, 20, "b") == 10
    limit = RateLimit(60)
    takes(limit, 10_000)
    assert takes(limit, 5, now=NOW + 1.001) == 1


def test_who_waits_as_long_as_told_may_take_one() -> None:
    limit = RateLimit(7, error=TooManyChanges)
    takes(limit, 7)
    with pytest.raises(TooManyChanges) as told:
        limit.take(NOW, "a")
    assert told.value.retry_after == 9
    assert may_take(limit, now=NOW + told.value.retry_after)


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=200))
def test_no_more_is_used_up_than_the_burst_and_what_time_refills(steps: list[tuple[float, bool]]) -> None:
    limit, now, used = RateLimit(30, burst=10), NOW, 0
    for seconds, is_used in steps:
        now += seconds
        if may_take(limit, now=now):
            used += is_used
            if not is_used:
                limit.give_back(now, "a")
        assert used <= 10 + (now - NOW) / 2 + 0.01


def test_the_number_of_sources_is_bounded() -> None:
    limit = RateLimit(10, max_sources=1_000)
    for number in range(5_000):
        limit.take(NOW, f"source {number}")
    assert len(limit) == 1_000


def test_sources_that_come_once_do_not_make_a_debt_forgotten() -> None:
    limit = RateLimit(10, max_sources=100)
    assert takes(limit, 20, "guesser") == 10
    for number in range(10_000):
        limit.take(NOW, f"passer-by {number}")
        assert not may_take(limit, "guesser")


def test_a_debt_that_is_paid_is_forgotten_first() -> None:
    limit = RateLimit(60, max_sources=100)
    numbers = count()
    takes(limit, 60, "long ago")
    for _ in range(150):
        limit.take(NOW + 61, f"passer-by {next(numbers)}")
    assert takes(limit, 70, "long ago", NOW + 61) == 60


@each_row(
    ("address", "source", "site"),
    [
        ("203.0.113.9", "203.0.113.9", "203.0.113.0/24"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/64", "fe80::/48"),
        ("", "", ""),
        ("no address", "no address", "no address"),
        ("a:b", "a:b", "a:b"),
    ],
)
def test_an_address_counts_for_its_network(address: str, source: str, site: str) -> None:
    assert (source_of(address), site_of(address)) == (source, site)
