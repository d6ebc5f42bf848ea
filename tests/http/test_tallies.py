"""What a server does by itself: it counts, keeps the counts, and lets the search follow the events."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keywright.background.counters import Counters
from keywright.background.projector import _rest_after
from keywright.search.projector import Lag, Projected
from tests.http.asking import Client, a_key
from tests.http.conftest import assert_clean
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tools import postgres
from tools.postgres import FAST

#: How long a server may take to end when it has no calls to answer, in seconds.
SOON = 5.0
SAID = "the search of the administration pages waits for the database"


@pytest.fixture
def own(database: str, tmp_path: Path) -> Iterator[RunningServer]:
    """A server of the test's own."""
    with running(tmp_path / "data", database, **NO_LIMITS) as own:
        yield own
    assert_clean(own)


def validations(server: RunningServer) -> int:
    """How many were kept."""
    rows = server.sql("SELECT sum(amount) FROM daily_counts WHERE name = 'license.validated'")
    return int(rows[0][0] or 0)


def terms(server: RunningServer) -> list[str]:
    return [term for (term,) in server.sql("SELECT term FROM marks")]


def seconds(work: Callable[[], Any]) -> float:
    """How long it takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_validations_that_succeed_are_counted(own: RunningServer) -> None:
    with Client(own, own.api_key()) as vendor:
        key = vendor.license()
        token = vendor.activated(key)
        replies = [vendor.validate(key), vendor.validate(key, token), vendor.validate(a_key())]
        assert [one.status for one in replies] == [200, 200, 404]
        vendor.get(f"licenses/{key}")
    assert own.stop() == 0
    assert validations(own) == 2


@pytest.mark.databases("sqlite")
def test_counts_are_kept_while_the_server_runs(own: RunningServer) -> None:
    with Client(own, own.api_key()) as vendor:
        key = vendor.license()
        vendor.validate(key)
        wait_until(lambda: validations(own) == 1, "the count")


def test_activations_and_reactivations_without_a_free_place_are_counted_by_license(
    own: RunningServer,
) -> None:
    with Client(own, own.api_key()) as vendor:
        key, roomy = vendor.license(times_activated_max=1), vendor.license()
        token = vendor.activated(key)
        vendor.deactivate(key, token)
        vendor.activated(key)
        assert [vendor.activate(key).status, vendor.activate(key, token).status] == [404, 404]
        assert vendor.activate(key, "0" * 40).status == 404
        vendor.activated(roomy)
    assert own.stop() == 0
    [(times, last_at)] = own.sql("SELECT times, last_at FROM limit_refusals")
    assert times == 2
    assert abs(last_at - time.time()) < 60


def test_it_is_known_when_an_api_key_was_used_last(own: RunningServer) -> None:
    used, unused = own.api_key(), own.api_key()
    with Client(own, used) as vendor, Client(own, (unused[0], "wrong")) as stranger:
        vendor.license()
        assert stranger.get("licenses").status == 401
    assert own.stop() == 0
    found = own.sql("SELECT last_used_at FROM api_keys ORDER BY id")
    assert abs(found[0][0] - time.time()) < 60
    assert found[1] == (None,)


def test_a_license_is_found_by_what_its_activations_say_some_moments_later(own: RunningServer) -> None:
    with Client(own, own.api_key()) as vendor:
        key = vendor.license()
        token = vendor.activate(key, query={"label": "Studio LEFT"}).data["activationData"]["token"]
        wait_until(lambda: f"t{token}" in terms(own), "the search")
        assert {"lstudio left", "i127.0.0.1"} < set(terms(own))
        vendor.delete(f"licenses/{key}")
        wait_until(lambda: terms(own) == [], "the search")
    own.assert_consistent()


def test_a_server_that_is_never_idle_lets_the_search_follow_all_the_same(own: RunningServer) -> None:
    with Client(own, own.api_key()) as vendor:
        key = vendor.license()

        def is_found_by_its_first_token() -> bool:
            vendor.activated(key)
            return f"t{first}" in terms(own)

        wait_until(lambda: own.count("positions"), "it to begin")
        first = vendor.activated(key)
        wait_until(is_found_by_its_first_token, "the search")


def test_each_of_several_processes_keeps_what_it_counted(tmp_path: Path) -> None:
    with running(tmp_path / "data", "postgresql", workers=3, **NO_LIMITS) as server:
        with Client(server, server.api_key()) as vendor:
            key = vendor.license()
        for _ in range(40):
            with Client(server) as program:
                assert program.validate(key).status == 200
        assert server.stop() == 0
        assert validations(server) == 40


def test_while_the_database_is_away_little_is_said_and_the_counts_are_kept_for_later(tmp_path: Path) -> None:
    with postgres.running(**FAST) as server:
        url = server.url(server.create_database())
        with running(tmp_path / "data", database_url=url, **NO_LIMITS) as own:
            with Client(own, own.api_key()) as vendor:
                key = vendor.license()
                vendor.validate(key)
            server.stop("fast")
            wait_until(lambda: SAID in own.log, "a word about it")
            # It tries again twice meanwhile.
            time.sleep(3.5)
            assert own.log.count(SAID) == 1
            server.start()
            wait_until(lambda: validations(own) == 1, "the count")
            with Client(own) as program:
                program.validate(key)
            server.stop("fast")
            assert seconds(own.stop) < SOON
            assert own.stop() == 0
            assert own.log.count(SAID) <= 2
            server.start()


# --- resting --------------------------------------------------------------------------------------

MORE = Projected(100, Lag(5_000, None, 1.0))
ALL = Projected(100, Lag(0, None, 1.0))
HELD_UP = Projected(0, Lag(5_000, None, 1.0))


def test_with_nothing_left_or_nothing_to_be_done_about_it_it_looks_again_a_second_later() -> None:
    assert [_rest_after(one, 0.01, load) for one in (ALL, HELD_UP) for load in (0, 1)] == [1.0] * 4


def test_with_more_left_an_idle_server_rests_as_long_as_it_worked() -> None:
    assert _rest_after(MORE, 0.01, 0.0) == 0.01


def test_the_busier_a_server_is_the_longer_it_rests_but_a_hundred_times_at_most_and_five_seconds() -> None:
    rests = [_rest_after(MORE, 0.01, load / 100) for load in range(101)]
    assert rests == sorted(rests)
    assert rests[10] >= 50 * 0.01
    assert rests[50:] == [1.0] * 51
    assert _rest_after(MORE, 0.1, 1.0) == 5.0


def test_on_a_busy_server_steps_that_take_very_long_take_a_tenth_of_the_time() -> None:
    assert _rest_after(MORE, 3.0, 0.5) == 30.0


# --- counting -------------------------------------------------------------------------------------

NOW = datetime(2026, 1, 15, 12, 30, 45, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_what_was_taken_is_not_counted_again() -> None:
    tallies = Counters()
    assert tallies.take() is None
    tallies.validations += 2
    tallies.refuse("a")
    tallies.refuse("a")
    tallies.used_api_keys[7] = NOW
    command = tallies.take()
    assert command is not None
    assert (command.validations, command.refused, command.used_api_keys) == (2, {"a": 2}, {7: NOW})
    assert tallies.take() is None


def test_what_could_not_be_kept_is_counted_again_beside_what_came_meanwhile() -> None:
    tallies = Counters()
    tallies.validations += 2
    tallies.refuse("a")
    tallies.used_api_keys |= {7: NOW, 8: NOW}
    first = tallies.take()
    assert first is not None
    tallies.validations += 3
    tallies.refuse("a")
    tallies.refuse("b")
    tallies.used_api_keys[7] = LATER
    tallies.give_back(first)
    command = tallies.take()
    assert command is not None
    assert (command.validations, command.refused) == (5, {"a": 2, "b": 1})
    assert command.used_api_keys == {7: LATER, 8: NOW}


def test_of_very_many_license_keys_the_first_thousand_are_counted() -> None:
    tallies = Counters()
    for number in range(1500):
        tallies.refuse(f"{number}")
    tallies.refuse("7")
    tallies.refuse("1007")
    assert len(tallies.refused) == 1000
    assert tallies.refused["7"] == 2
