"""One caller does not stop the others: an honest caller beside each attack, and what the attack may cost.

How late the honest caller is answered is a figure of the benchmark (``--only attacks``), not of these tests.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import psutil
import pytest

from keywright.identity.model import Permissions
from keywright.registry import open_executor
from tests.connections import SECRET, connect
from tests.http.admin_browser import PASSWORD, make_users
from tests.http.asking import Client, basic
from tests.proving import record, size
from tests.server import KEYWRIGHT, MAIL_WAITS, RunningServer, running, wait_until
from tools.attacks import ATTACKS, with_few_descriptors
from tools.attacks.histories import grow
from tools.attacks.honest import Figures, Honest
from tools.attacks.stranger import Stranger
from tools.attacks.wire import Target

pytestmark = pytest.mark.tier("rest")

#: Where an attack is not about what is kept, the database plays no part in it.
DATABASES = ("sqlite",)
KINDS = ("sqlite", "postgresql")
#: How long each attack goes on, in seconds; how long the honest caller waits, however slow the machine is.
SECONDS, PATIENCE = size(2, 60), 30.0
MEBIBYTE = 2**20
MEMORY = 50 * MEBIBYTE
#: More activations of one license than succeed by default before the first is refused: 1,000 at once, and
#: 120 in each minute.
MOST_RECORDS = 1_240
#: Wrong keys in a minute; and how many may be looked up during an attack, which may take some seconds longer.
GUESSES = 60
MOST_GUESSES = GUESSES * (1 + (SECONDS + 30) / 60)

#: Sign-in codes in a quarter of an hour, for one address.
MOST_CODES = 40


class Seen(NamedTuple):
    """What came of an attack: for the honest caller, for the attackers, for the server."""

    honest: Figures
    outcomes: Counter[str]
    largest: int
    memory: int
    processor_seconds: float


def a_target(server: RunningServer) -> Target:
    make_users(server, "ada")
    with Client(server, server.api_key()) as vendor:
        honest, changed = vendor.license(), vendor.license()
        single, full = vendor.license(times_activated_max=1), vendor.license(times_activated_max=1)
        vendor.activated(full)
        # What a reader of one product waits for and lists.
        vendor.license(product_id=5)
    with server.storage() as storage:
        connect(open_executor(storage), mapping=())
    reader = basic(*server.api_key(Permissions.READ, product_id=5))
    place = "/in/generic/1"
    return Target(server.port, honest, changed, single, full, "ada", PASSWORD, place, SECRET, reader)


def attacked(server: RunningServer, target: Target, name: str) -> Seen:
    """The attack, and an honest caller beside it whom nothing may fail."""
    before, used = usage(server)
    stranger, figures = asyncio.run(_beside(target, name))
    # A password that is still being checked takes its memory with it.
    wait_until(lambda: usage(server)[0] - before <= MEMORY, "the memory that the attack took")
    after, used_then = usage(server)
    return Seen(figures, stranger.outcomes, stranger.largest, after - before, used_then - used)


def usage(server: RunningServer) -> tuple[int, float]:
    """The memory of the server and its workers, in bytes, and the processor time they used, in seconds."""
    process = psutil.Process(server.pid)
    processes = [process, *process.children(recursive=True)]
    return (
        sum(one.memory_info().rss for one in processes),
        sum(sum(one.cpu_times()[:2]) for one in processes),
    )


async def _beside(target: Target, name: str) -> tuple[Stranger, Figures]:
    attack, honest = ATTACKS[name], Honest(target, PATIENCE)
    stranger = Stranger(target, SECONDS, attack.address)
    await honest.prepare()
    stranger.begin()
    async with asyncio.TaskGroup() as both:
        calling = both.create_task(honest.call(SECONDS))
        both.create_task(attack.strike(stranger))
    honest.close()
    # What was closed ends in the loop's next turn.
    await asyncio.sleep(0)
    return stranger, calling.result()


def assert_harmless(seen: Seen, part: str) -> None:
    """No call of the honest caller failed, and the server needed little more memory."""
    honest = seen.honest
    record(
        "R19",
        part,
        {
            "attacks": 1,
            "calls": honest.calls + honest.changes,
            "failed calls": honest.failed + honest.changes_failed,
        },
        {"memory growth MiB": seen.memory / MEBIBYTE, "largest answer MiB": seen.largest / MEBIBYTE},
    )
    assert (honest.failed, honest.changes_failed) == (0, 0)
    assert seen.memory <= MEMORY


# --- by the holder of one license key ---------------------------------------------------------------


class Grown(NamedTuple):
    """A server on which the holder of a license key has made its history as long as they could."""

    server: RunningServer
    target: Target


@pytest.fixture(scope="module")
def grown(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grown]:
    with running(tmp_path_factory.mktemp("grown") / "data", database) as server:
        target = a_target(server)
        asyncio.run(_grow(target))
        yield Grown(server, target)
        server.assert_consistent()


async def _grow(target: Target, records: int = size(3_000, 8_000)) -> None:
    await grow(Stranger(target, 0), records)
    await asyncio.sleep(0)


def records_of(server: RunningServer) -> int:
    """How many the longest history has."""
    return int(server.sql("SELECT count(*) FROM activations GROUP BY license_id ORDER BY 1 DESC")[0][0])


@pytest.mark.databases(*KINDS)
def test_the_holder_of_a_license_key_cannot_make_its_history_long(grown: Grown) -> None:
    assert records_of(grown.server) < MOST_RECORDS


@pytest.mark.databases(*KINDS)
@pytest.mark.parametrize("name", ["A2-grow", "A2-validate", "A2-read-slowly", "A2-give-up"])
def test_no_answer_grows_with_a_history_that_is_used_against_others(
    grown: Grown, name: str, database: str
) -> None:
    seen = attacked(grown.server, grown.target, name)
    assert_harmless(seen, database)
    assert seen.largest <= 1.25 * MEBIBYTE


@pytest.mark.databases(*KINDS)
@pytest.mark.parametrize("name", ["A3-events", "A3-refusals"])
def test_what_changed_nothing_leaves_nothing_behind(name: str, database: str, tmp_path: Path) -> None:
    with running(tmp_path / "data", database) as server:
        seen = attacked(server, a_target(server), name)
        assert server.count("idempotency_records") == 0
        assert server.count("events") <= 30 + sum(seen.outcomes.values()) * (name == "A3-events")
    assert_harmless(seen, database)


# --- by strangers -----------------------------------------------------------------------------------


def beside(name: str, tmp_path: Path, **settings: Any) -> Seen:
    """The attack on a new server, as most systems start one."""
    program = with_few_descriptors([KEYWRIGHT])
    with running(tmp_path / "data", program=program, **settings) as server:
        return attacked(server, a_target(server), name)


def test_cookies_full_of_backslashes_cost_no_time(tmp_path: Path) -> None:
    seen = beside("A1", tmp_path)
    assert_harmless(seen, "sqlite")
    assert seen.processor_seconds < 2


def publish_for_all(server: RunningServer) -> str:
    """A release of 64 MiB, open to all; the path of its download."""
    vendor = httpx.Client(base_url=f"{server.base_url}/v3", auth=server.api_key(), timeout=60)
    with vendor:
        product = {"name": "Downloaded", "updates": "open"}
        number = vendor.post("/products", json=product).raise_for_status().json()["id"]
        release = vendor.post("/releases", json={"product_id": number, "version": "1.0"}).json()["id"]
        file = vendor.post(f"/releases/{release}/files", json={"name": "large.zip"}).json()["id"]
        pieces = (bytes(MEBIBYTE) for _ in range(64))
        vendor.put(f"/files/{file}/content", content=pieces).raise_for_status()
        vendor.post(f"/releases/{release}/publish").raise_for_status()
        offered = vendor.post("/updates", json={"product": number}).raise_for_status().json()
    return "/d/" + str(offered["file"]["url"].partition("/d/")[2])


def test_slow_downloads_keep_nobody_waiting(tmp_path: Path) -> None:
    with running(tmp_path / "data", program=with_few_descriptors([KEYWRIGHT])) as server:
        target = msgspec.structs.replace(a_target(server), download=publish_for_all(server))
        seen = attacked(server, target, "A9")
    assert_harmless(seen, "sqlite")
    assert seen.outcomes["HTTP/1.1 200"] == 64, seen.outcomes


def test_large_bodies_of_strangers_are_not_read(tmp_path: Path) -> None:
    seen = beside("A4", tmp_path)
    assert_harmless(seen, "sqlite")
    assert seen.outcomes["413"]
    assert not seen.outcomes.keys() - {"413", "429", "503", "not answered"}


@pytest.mark.parametrize("name", ["A5-unread", "A5-idle"])
def test_connections_that_do_nothing_take_nothing_from_others(name: str, tmp_path: Path) -> None:
    assert_harmless(beside(name, tmp_path), "sqlite")


@pytest.mark.parametrize(
    ("name", "wrong", "setting"),
    [("A6-keys", "404", "unknown_key_limit"), ("A6-credentials", "401", "bad_credentials_limit")],
)
def test_250_connections_guess_no_more_often_than_one(
    name: str, wrong: str, setting: str, tmp_path: Path
) -> None:
    seen = beside(name, tmp_path, **{setting: GUESSES})
    assert_harmless(seen, "sqlite")
    assert 0 < seen.outcomes[wrong] <= MOST_GUESSES
    # Each connection gets at most four refusals in a second.
    assert seen.outcomes["429"] <= 250 * (4 * SECONDS + 2)


def test_a_stranger_at_the_same_address_does_not_lock_a_customer_out(tmp_path: Path) -> None:
    seen = beside("A7", tmp_path)
    assert_harmless(seen, "sqlite")
    assert seen.outcomes["429"]


def test_a_known_browser_signs_in_while_passwords_are_guessed(tmp_path: Path) -> None:
    seen = beside("A8", tmp_path)
    assert_harmless(seen, "sqlite")
    assert seen.outcomes["browser let in"]
    assert not seen.outcomes["browser refused"]


@pytest.mark.parametrize("name", ["A9-forged", "A9-large", "A9-slow"])
def test_an_honest_shop_is_heard_beside_forged_events(name: str, tmp_path: Path) -> None:
    seen = beside(name, tmp_path)
    assert_harmless(seen, "sqlite")
    assert seen.outcomes["sale taken"]
    assert not seen.outcomes["sale refused"]
    assert not seen.outcomes["200"]


def test_customers_sign_in_beside_a_flood_of_sign_ins(tmp_path: Path) -> None:
    seen = beside("A10", tmp_path, **MAIL_WAITS)
    assert_harmless(seen, "sqlite")
    assert seen.outcomes["customer taken"]
    assert seen.outcomes["sale taken"]
    assert not seen.outcomes["customer refused"] + seen.outcomes["sale refused"]
    assert seen.outcomes["200"] <= MOST_CODES


def test_who_asks_in_a_customers_name_leaves_few_mails_and_no_work(tmp_path: Path) -> None:
    with running(tmp_path / "data", **MAIL_WAITS) as server:
        seen = attacked(server, a_target(server), "A11")
        codes = server.sql("SELECT count(*) FROM mail_outbox WHERE template = 'sign_in_code'")[0][0]
    assert_harmless(seen, "sqlite")
    assert not seen.outcomes["customer refused"] + seen.outcomes["sale refused"]
    # Three for the buyer, and one for each address that the honest customer has typed.
    assert codes <= 3 + seen.outcomes["customer taken"]


def test_calls_that_wait_for_events_take_no_list_from_others(tmp_path: Path) -> None:
    seen = beside("A12", tmp_path)
    assert_harmless(seen, "sqlite")
    assert seen.outcomes["list answered"]
    assert not seen.outcomes["list refused"]
    assert seen.outcomes["429"] >= 100
    assert not seen.outcomes.keys() - {"200", "429", "list answered"}


def test_one_license_key_fills_no_disk_with_answers(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        seen = attacked(server, a_target(server), "A13")
        ((rows, size_of),) = server.sql("SELECT count(*), sum(length(sealed_body)) FROM idempotency_records")
    assert_harmless(seen, "sqlite")
    # Half of the calls change nothing, and leave nothing.
    assert rows <= (seen.outcomes["200"] + seen.outcomes["201"]) / 2 + 8
    assert size_of <= 24 * MEBIBYTE


def test_the_owner_of_a_second_factor_signs_in_while_codes_are_guessed(tmp_path: Path) -> None:
    seen = beside("A14", tmp_path)
    assert_harmless(seen, "sqlite")
    assert seen.outcomes["owner let in"]
    assert not seen.outcomes["owner refused"]
    assert seen.outcomes["429"]


@pytest.mark.parametrize("name", ["A15", "A16", "A17", "A18"])
def test_strangers_at_other_doors_take_nothing_from_others(name: str, tmp_path: Path) -> None:
    seen = beside(name, tmp_path)
    assert_harmless(seen, "sqlite")
    assert sum(seen.outcomes.values()) > 20
    assert not {one for one in seen.outcomes if one.startswith("5")} - {"503"}


# --- several processes, PostgreSQL -------------------------------------------------------------------


@pytest.mark.databases("postgresql")
def test_no_attack_fails_an_honest_caller_of_two_processes_on_postgresql(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process counts for itself: what is bounded there is so for each."""
    monkeypatch.setattr("tests.http.test_beside_attacks.SECONDS", size(1, 60))
    failed: dict[str, Any] = {}
    with running(tmp_path / "data", database, workers=2, **MAIL_WAITS) as server:
        target = a_target(server)
        for name in ATTACKS:
            seen = attacked(server, target, name)
            wrong = {one for one in seen.outcomes if one.endswith("refused") or one.startswith("5")}
            if seen.honest.failed or seen.honest.changes_failed or wrong - {"503"}:
                failed[name] = seen
            record("R19", f"{database}, two processes", {"attacks": 1, "failed calls": seen.honest.failed})
        server.assert_consistent()
    assert failed == {}


# --- controls ---------------------------------------------------------------------------------------


def test_a_history_without_limits_is_found_to_be_long(tmp_path: Path) -> None:
    with running(tmp_path / "data", license_change_limit=0, address_change_limit=0) as server:
        asyncio.run(_grow(a_target(server), MOST_RECORDS))
        found = records_of(server)
    record("R19", "control: no limits on changes", {"records of one license": found})
    assert found >= MOST_RECORDS


def test_guesses_without_a_limit_are_found_to_be_many(tmp_path: Path) -> None:
    seen = beside("A6-keys", tmp_path, unknown_key_limit=0)
    record("R19", "control: no limit on unknown keys", {"keys guessed": seen.outcomes["404"]})
    assert seen.outcomes["404"] > MOST_GUESSES
