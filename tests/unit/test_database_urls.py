"""Database URLs: the errors for invalid ones, and which use an unprotected network connection."""

import pytest

from keywright.core.errors import ConfigurationError
from keywright.db import find_unverified_hosts
from keywright.db.session import Session


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://kw:100%sure-Secret@db/keywright",
        "postgresql://kw:Secret@[::1/keywright",
        "postgresql://kw:Se/cret@db/keywright",
        "postgresql://kw:Secret@db/keywright?fish=3",
    ],
)
def test_what_may_be_a_password_is_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Session(url)
    said = str(refused.value)
    assert said.startswith("the database URL is invalid: ")
    for part in ("Se", "cret", "100", "kw", "db"):
        assert part not in said


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://kw@db.example/k", ["db.example"]),
        ("postgresql://kw@db.example/k?sslmode=prefer", ["db.example"]),
        ("postgresql://kw@db.example/k?sslmode=require", ["db.example"]),
        ("postgresql://kw@db.example/k?sslmode=verify-ca", []),
        ("postgresql://kw@db.example/k?sslmode=verify-full", []),
        ("postgresql://kw@db.example/k?sslrootcert=system", []),
        ("postgresql://kw@localhost/k", []),
        ("postgresql://kw@127.0.0.2:5433/k", []),
        ("postgresql://kw@[::1]/k", []),
        ("postgresql:///k?host=/run/postgresql", []),
        ("postgresql:///k?host=@socket", []),
        ("postgresql:///k", []),
        ("postgresql://kw@localhost,a.example,10.0.0.7/k", ["a.example", "10.0.0.7"]),
        ("postgresql:///k?host=db.example&hostaddr=127.0.0.1", []),
        ("postgresql:///k?host=localhost&hostaddr=10.0.0.7", ["localhost"]),
        ("postgresql:///k?hostaddr=10.0.0.7", ["10.0.0.7"]),
    ],
)
def test_a_server_over_a_network_without_verified_tls_is_known(
    url: str, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    assert find_unverified_hosts(url) == hosts


def test_libpqs_environment_counts_where_the_url_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    assert find_unverified_hosts("postgresql:///k") == ["db.example"]
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert find_unverified_hosts("postgresql:///k") == []
    assert find_unverified_hosts("postgresql:///k?sslmode=require") == ["db.example"]
