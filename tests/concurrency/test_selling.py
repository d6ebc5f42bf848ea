"""The limit is never exceeded, whoever asks however often; and who looks for that finds it when it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.concurrency.instances import instances
from tests.concurrency.selling import PLACES, Shop, Sold, sell_out, write_down
from tests.databases import execute
from tests.histories import faulty
from tests.http.asking import Client
from tests.proving import size
from tests.server import NO_LIMITS, RunningServer, running

FOUR = 4
#: Of the controls.
LICENSES = 10
ATTEMPTS = 400


def test_of_20000_attempts_on_1000_places_exactly_1000_succeed(database: str, tmp_path: Path) -> None:
    with instances(tmp_path, FOUR, database) as servers:
        sell_out(servers, size(20_000, 1_000_000))


@pytest.mark.tier("rest")
def test_of_20000_attempts_at_four_workers_on_1000_places_exactly_1000_succeed(tmp_path: Path) -> None:
    with running(tmp_path / "data", "postgresql", workers=FOUR, **NO_LIMITS) as server:
        sell_out([server])


# --- controls -------------------------------------------------------------------------------------


def sell_with(fault: Callable[[], None], database: str, folder: Path, *, is_checked: bool) -> Sold:
    """What becomes of a sale where Keywright has this fault."""
    program = faulty.program(fault)
    with running(folder / "data", database, program=program, **NO_LIMITS) as server:
        if not is_checked and database == "postgresql":
            drop_the_check(server)
        with Client(server, server.api_key()) as vendor:
            sold = Shop([server], vendor, 1, licenses=LICENSES, connections=8).sell(ATTEMPTS)
    words = "with" if is_checked else "without"
    write_down(f"control: a limit off by one, {words} the CHECK, {database}", sold)
    return sold


def drop_the_check(server: RunningServer) -> None:
    execute(server.database_url, "ALTER TABLE licenses DROP CONSTRAINT ck_licenses_within_places")


def test_a_place_too_many_is_found_in_every_license(database: str, tmp_path: Path) -> None:
    fault = faulty.one_place_too_many
    if database == "sqlite":
        fault = faulty.one_place_too_many_unchecked
    sold = sell_with(fault, database, tmp_path, is_checked=False)
    assert sold.successes_over_the_limit == LICENSES
    assert sold.disordered == LICENSES
    assert sold.check_fired == 0


def test_the_database_stops_who_would_get_a_place_too_many_and_that_is_seen(
    database: str, tmp_path: Path
) -> None:
    sold = sell_with(faulty.one_place_too_many, database, tmp_path, is_checked=True)
    assert sold.successes_over_the_limit == 0
    assert sold.successes == LICENSES * PLACES
    assert sold.other_answers == ATTEMPTS - sold.successes
    assert sold.check_fired == sold.other_answers
