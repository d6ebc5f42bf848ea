"""Sign-ins are counted per address, per network, and per name."""

from collections.abc import Iterable

from keywright.core.errors import RateLimited
from keywright.http.pages.passwords import SIGN_IN_LIMITS, Attempts, sources_of
from tests.tables import each_row


def count_allowed(attempts: Attempts, sources: Iterable[dict[str, str]]) -> int:
    """Count how many of these wrong passwords are checked."""
    allowed = 0
    for one in sources:
        try:
            attempts.begin(one)
        except RateLimited:
            continue
        allowed += 1
    return allowed


@each_row(
    ("address", "allowed"),
    [
        # One address, or one IPv6 /64.
        ("192.0.2.1", 10),
        ("2001:db8:1:1::{n:x}", 10),
        # Addresses of one network.
        ("192.0.2.{n}", 30),
        ("2001:db8:1:{n:x}::1", 30),
        # Many networks.
        ("192.0.{n}.1", 100),
        ("2001:db8:{n:x}::1", 100),
    ],
)
def test_changing_the_address_within_a_network_does_not_help(address: str, allowed: int) -> None:
    sources = [sources_of(address.format(n=number), f"name {number}") for number in range(100)]
    assert count_allowed(Attempts(**SIGN_IN_LIMITS), sources) == allowed


def test_a_name_counts_in_any_case_and_from_any_address() -> None:
    sources = [sources_of(f"192.0.{number}.1", ("ADA", "ada")[number % 2]) for number in range(100)]
    assert count_allowed(Attempts(**SIGN_IN_LIMITS), sources) == 20


def test_an_attempt_that_one_limit_refuses_costs_nothing_elsewhere() -> None:
    attempts = Attempts(**SIGN_IN_LIMITS)
    count_allowed(attempts, [sources_of(f"192.0.{number}.1", "ada") for number in range(20)])
    assert count_allowed(attempts, [sources_of("198.51.100.1", "ada")] * 50) == 0
    assert count_allowed(attempts, [sources_of("198.51.100.1", "bob")] * 50) == 10
    # Nor does a correct password.
    attempts, source = Attempts(**SIGN_IN_LIMITS), sources_of("192.0.2.1", "ada")
    for _ in range(100):
        attempts.begin(source)
        attempts.undo(source)
