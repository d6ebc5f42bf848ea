"""A server saves its counters and updates the search terms in the background."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.asking import Client, a_key
from tests.http.conftest import assert_clean
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tools import postgres
from tools.postgres import FAST

WARNING = "the search of the administration pages waits for the database"


@pytest.fixture
def own(database: str, tmp_path: Path) -> Iterator[RunningServer]:
    """A separate server for a test."""
    with running(tmp_path / "data", database, **NO_LIMITS) as own:
        yield own
    assert_clean(own)


def validations(server: RunningServer) -> int:
    """The saved number of validations."""
    rows = server.sql("SELECT sum(amount) FROM daily_counts WHERE name = 'license.validated'")
    return int(rows[0][0] or 0)


def terms(server: RunningServer) -> list[str]:
    return [term for (term,) in server.sql("SELECT term FROM search_terms")]


def test_validations_refusals_at_the_limit_and_uses_of_api_keys_are_saved(own: RunningServer) -> None:
    used, unused = own.api_key(), own.api_key()
    with Client(own, used) as vendor, Client(own, (unused[0], "wrong")) as stranger:
        key, roomy = vendor.license(times_activated_max=1), vendor.license()
        token = vendor.activated(key)
        replies = [vendor.validate(key), vendor.validate(key, token), vendor.validate(a_key())]
        assert [one.status for one in replies] == [200, 200, 404]
        vendor.get(f"licenses/{key}")
        assert stranger.get("licenses").status == 401
        vendor.deactivate(key, token)
        vendor.activated(key)
        vendor.activated(roomy)
        refused = [vendor.activate(key), vendor.activate(key, token), vendor.activate(key, "0" * 40)]
        assert [one.status for one in refused] == [404] * 3
    assert own.stop() == 0
    assert validations(own) == 2
    [(times, last_refused_at)] = own.sql("SELECT refusals, last_refused_at FROM limit_refusals")
    [(last_used_at,), never] = own.sql("SELECT last_used_at FROM api_keys ORDER BY id")
    assert (times, never) == (2, (None,))
    assert max(abs(at - time.time()) for at in (last_refused_at, last_used_at)) < 60


def test_refused_calls_of_programs_are_kept_with_their_reason_device_and_address(own: RunningServer) -> None:
    with Client(own, own.api_key()) as vendor, Client(own, root="/v3/") as program:
        key = vendor.license(times_activated_max=1)
        token = vendor.activated(key)
        assert vendor.activate(key, query={"label": "Jane's desktop"}).status == 404
        assert vendor.activate(key, query={"token": "no token", "label": "no label \0"}).status == 404
        vendor.deactivate(key, token)
        vendor.activated(key)
        assert vendor.validate(key, token).status == 404
        assert vendor.validate(key, "no token \0").status == 404
        laptop = {"license_key": key, "fingerprint": "laptop-of-jane"}
        for _ in range(2):
            program.post("activate", json_body=laptop | {"name": "Laptop"})
        assert program.post("validate", json_body=laptop).json["valid"] is False
        # Neither reveals that a license exists and refuses a device.
        program.post("validate", json_body={"license_key": key})
        program.post("activate", json_body=laptop | {"license_key": a_key()})
    assert own.stop() == 0
    columns = "reason, operation, fingerprint, device_name, token, ip_address, times"
    found = own.sql(f"SELECT {columns} FROM refusals")  # noqa: S608
    here, unknown = "127.0.0.1", "unknown_device"
    assert len(found) == 6
    assert {*found} == {
        ("limit_reached", "activate", None, "Jane's desktop", None, here, 1),
        (unknown, "validate", None, None, token, here, 1),
        (unknown, "validate", None, None, None, here, 1),
        (unknown, "activate", None, None, None, here, 1),
        ("limit_reached", "activate", "laptop-of-jane", "Laptop", None, here, 2),
        ("not_activated", "validate", "laptop-of-jane", None, None, here, 1),
    }


def test_search_terms_follow_activations_and_deletions(own: RunningServer) -> None:
    with Client(own, own.api_key()) as vendor:
        key = vendor.license()
        token = vendor.activate(key, query={"label": "Studio LEFT"}).data["activationData"]["token"]
        wait_until(lambda: f"t{token}" in terms(own), "the search")
        assert {"lstudio left", "i127.0.0.1"} < set(terms(own))
        vendor.delete(f"licenses/{key}")
        wait_until(lambda: terms(own) == [], "the search")
    own.assert_consistent()


def test_each_worker_saves_its_own_counters(tmp_path: Path) -> None:
    with running(tmp_path / "data", "postgresql", workers=3, **NO_LIMITS) as server:
        with Client(server, server.api_key()) as vendor:
            key = vendor.license()
        for _ in range(40):
            with Client(server) as program:
                assert program.validate(key).status == 200
        assert server.stop() == 0
        assert validations(server) == 40


def test_during_an_outage_one_warning_is_logged_and_counters_are_saved_afterwards(tmp_path: Path) -> None:
    with postgres.running(**FAST) as server:
        url = server.url(server.create_database())
        with running(tmp_path / "data", database_url=url, **NO_LIMITS) as own:
            with Client(own, own.api_key()) as vendor:
                key = vendor.license()
                vendor.validate(key)
            server.stop("fast")
            wait_until(lambda: WARNING in own.log, "the warning")
            # Long enough for two more attempts.
            time.sleep(3.5)
            assert own.log.count(WARNING) == 1
            server.start()
            wait_until(lambda: validations(own) == 1, "the count")
            with Client(own) as program:
                program.validate(key)
            server.stop("fast")
            assert own.stop() == 0
            assert own.log.count(WARNING) <= 2
            server.start()
