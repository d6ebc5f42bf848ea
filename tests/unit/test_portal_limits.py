"""The rate limits of the portal: what counts, and what is refunded."""

import pytest

from keywright.core.errors import RateLimited
from keywright.http.portal.limits import Limits
from tests.tables import each_row

MANY = 200


def count(limits: Limits, *, kind: str = "mail", address: str = "192.0.2.1", about: str = "") -> int:
    """Count the attempts that pass; each has another subject, unless given."""
    for number in range(MANY):
        try:
            limits.take(kind, address, about or f"{address} {number}")
        except RateLimited:
            return number
    return MANY


def test_nothing_is_counted_about_a_mail_address() -> None:
    limits = Limits()
    for number in range(MANY):
        limits.take("mail", f"198.51.{number}.1", None)


@pytest.mark.parametrize("kind", ["known", "known-code", "mailed"])
def test_what_strangers_cannot_have_is_not_counted_by_address(kind: str) -> None:
    limits = Limits()
    assert count(limits, kind=kind) == MANY
    assert count(limits, kind=kind, about="a mark") == count(Limits(), kind=kind, about="a mark") < MANY


@each_row("kind", ["code", "key", "link", "file", "change", "export", "erase"])
def test_what_is_asked_about_is_limited_before_the_address_and_that_before_its_network(kind: str) -> None:
    limits = Limits()
    about = count(limits, kind=kind, about="ada@example.com")
    address = count(Limits(), kind=kind)
    assert 0 < about <= address < MANY
    assert count(limits, kind=kind, address="198.51.100.1", about="ada@example.com") == 0
    assert count(limits, kind=kind, address="198.51.100.1", about="bob@example.com") == about
    neighbors = Limits()
    for number in range(1, 4):
        assert count(neighbors, kind=kind, address=f"192.0.2.{number}") == address
    assert count(neighbors, kind=kind, address="192.0.2.4") == 0
    assert count(neighbors, kind=kind, address="203.0.113.4") == address


def test_an_attempt_that_was_right_is_not_counted() -> None:
    limits = Limits()
    for _ in range(MANY):
        limits.give_back(limits.take("key", "192.0.2.1", "KEY-1"))
    assert count(limits, kind="key", about="KEY-1") == 30


def test_a_license_key_is_the_same_however_it_is_typed() -> None:
    limits = Limits()
    assert count(limits, kind="key", about="KEY-1") == 30
    assert count(limits, kind="key", address="198.51.100.1", about=" k-e-y1") == 0


def test_a_refused_attempt_takes_nothing() -> None:
    limits = Limits()
    assert count(limits, kind="code", about="a mark") == 10
    for _ in range(MANY):
        with pytest.raises(RateLimited):
            limits.take("code", "192.0.2.1", "a mark")
    assert count(limits, kind="code") == 40 - 10
