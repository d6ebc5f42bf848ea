"""The disk is full: nothing can be changed, everything can be asked for, and nothing is lost."""

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import pytest

from keywright.db import open_storage
from keywright.db.migrate import HEAD, read_file_state
from keywright.identity.model import Permissions
from keywright.licensing.activations import store as activation_store
from keywright.maintenance.doctor import examine
from keywright.registry import open_executor
from tests.faults.altered import LATER, altering_command
from tests.faults.disks import Disk, a_disk
from tests.faults.judge import INNOCENT, Verdict, judge_calls
from tests.faults.load import READ_ONLY, RESTED, Call, Load, assert_answers_in_shape, run_load
from tests.http.asking import Client, Reply, assert_refused, license_path
from tests.makers import KEY_RING, NOW, SECRET, create, issue_api_key, make_sqlite_file, url_of
from tests.proving import IS_LONG, record, size
from tests.server import KEYWRIGHT, NO_LIMITS, RunningServer, environment, running, wait_until

KEYS = [f"CANARY-{number}" for number in range(4)]
#: A license that only the vendor changes, by hand.
OWN = "CANARY-OWN"
DEVICE = {"license_key": OWN, "fingerprint": "a device"}
SETTINGS = {"secret": SECRET.decode(), **NO_LIMITS}
#: How soon it must go on when there is room again, in seconds.
HEALED = 5.0


class Shop(NamedTuple):
    """A server whose data directory is a small disk, with some licenses without a limit."""

    disk: Disk
    server: RunningServer
    credentials: tuple[str, str]


def stock(folder: Path) -> tuple[str, str]:
    """Make a database with licenses; returns an API key for it."""
    with closing(open_storage(f"sqlite:///{folder}/keywright.db", KEY_RING)) as storage:
        open_executor(storage).execute([create(key) for key in (*KEYS, OWN)])
        issued = issue_api_key(storage, "a vendor", Permissions.READ_WRITE, NOW)
    return issued.consumer_key, issued.consumer_secret


@contextmanager
def a_shop(folder: Path, program: Sequence[str] = (KEYWRIGHT,), **settings: str) -> Iterator[Shop]:
    with a_disk(folder / "disk") as disk:
        credentials = stock(folder / "stock")
        disk.put(folder / "stock")
        with running(disk.folder, program=[*disk.enter, *program], **SETTINGS, **settings) as server:
            yield Shop(disk, server, credentials)


def verdict(shop: Shop, journal: Sequence[Call]) -> Verdict:
    """Compare the journal with what is on the disk after the server has ended; the doctor looks, too."""
    assert shop.server.stop() == 0
    found = shop.disk.take(shop.disk.folder.with_name("found"))
    with closing(open_storage(f"sqlite:///{found}/keywright.db", KEY_RING)) as storage:
        assert list(examine(storage, lambda _: None)) == []
        with storage.read() as tx:
            records = activation_store.list_activations(tx, range(1, len(KEYS) + 1)).values()
    return judge_calls(journal, Counter(str(one.label) for some in records for one in some))


def questions(client: Client) -> list[Reply]:
    asked = ("licenses", license_path(KEYS[0]), "/readyz", "/healthz")
    return [*map(client.validate, KEYS), *map(client.get, asked)]


def changes(vendor: Client, spare: str) -> list[Reply]:
    """Some of each kind; ``spare`` is a license with a place, for which nobody else asks."""
    return [
        vendor.activate(OWN),
        vendor.deactivate(spare),
        vendor.post("licenses", json_body={"license_key": f"CANARY-{time.monotonic_ns()}"}),
        change_little(vendor),
        vendor.delete(license_path(spare)),
    ]


def make_spare(vendor: Client) -> str:
    key = f"CANARY-{time.monotonic_ns()}"
    assert vendor.post("licenses", json_body={"license_key": key}).status == 200
    assert vendor.activate(key).status == 200
    return key


def change_little(vendor: Client) -> Reply:
    """No other change has less to write."""
    return vendor.put(license_path(OWN), json_body={"product_id": 7})


def count_refused(load: Load) -> int:
    return sum(answer.status == 503 for answer in load.answers)


class Told(NamedTuple):
    """What one server answered while its disk was full, again and again."""

    answers: list[Reply]
    changes: list[Reply]
    problems: list[Reply]
    waits: list[float]


def fill_often(shop: Shop, load: Load, vendor: Client, rounds: int) -> Told:
    told = Told([], [], [], [])
    for _ in range(rounds):
        spare = make_spare(vendor)
        shop.disk.fill()
        wait_until(lambda: change_little(vendor).status == 503, "a disk that is really full")
        load.wait_for_refusal(time.monotonic())
        told.answers.extend(questions(vendor))
        told.changes.extend(changes(vendor, spare))
        told.answers.extend(questions(vendor))
        wait_until(lambda: vendor.get("/readyz").json == {"status": "read_only"}, "a server that only reads")
        told.problems.append(vendor.post("/v3/activate", json_body=DEVICE))
        shop.disk.make_room()
        told.waits.append(load.wait_for_successes(1))
        wait_until(lambda: vendor.get("/readyz").json == {"status": "ready"}, "a server that is ready")
    load.wait_for_successes()
    return told


# What is activated between the rounds stays on the disk: after five, another run begins with a new one.
@pytest.mark.parametrize("_run", range(size(1, 10)))
def test_a_full_disk_refuses_changes_answers_questions_and_heals_by_itself(tmp_path: Path, _run: int) -> None:
    rounds = 5 if IS_LONG else 2
    with a_shop(tmp_path) as shop, Client(shop.server, shop.credentials) as vendor:
        with run_load(shop.server, KEYS, rest=RESTED) as load:
            told = fill_often(shop, load, vendor, rounds)
            journal = load.finish()
        found = verdict(shop, journal)
    statuses = Counter(answer.status for answer in load.answers)
    # The write-ahead log of SQLite may have room in its own file, once it begins from its start again.
    refusals = [reply for reply in told.changes if reply.status != 200]
    problems = [reply for reply in told.problems if reply.status not in (200, 201)]
    counted = {
        "times full": rounds,
        "acknowledged": statuses[200],
        "acknowledged and not there": len(found.missing),
        "changes refused with 503": statuses[503] + len(refusals),
        "answers 5xx that are not 503": sum(n for status, n in statuses.items() if status // 100 == 5)
        - statuses[503],
        "questions answered while full": len(told.answers),
    }
    record("R7", "sqlite", counted, {"seconds until it heals": max(told.waits)})
    assert set(statuses) == {200, 503}
    assert {reply.status for reply in told.answers} == {200}
    assert refusals
    for reply in refusals:
        assert_refused(reply, READ_ONLY, code="service_unavailable", status=503)
        assert reply.header("retry-after") == "1"
    for reply in problems:
        assert reply.header("content-type") == "application/problem+json"
        assert (reply.status, reply.json["code"]) == (503, "database_unavailable")
        assert reply.json["detail"].startswith("No change can be saved right now; reads still work.")
    assert_answers_in_shape(journal)
    assert re.search(r"the database cannot be written: .*full", shop.server.log)
    assert "changes are possible again after " in shop.server.log
    assert found == INNOCENT
    assert max(told.waits) < HEALED


def test_a_disk_filled_by_activations_loses_none_of_them(tmp_path: Path) -> None:
    with a_shop(tmp_path) as shop, Client(shop.server) as program:
        with run_load(shop.server, KEYS) as load:
            shop.disk.fill(leaving=1_000_000)
            load.wait_for_refusal(time.monotonic())
            full_at = time.monotonic()
            load.wait_for_refusal(full_at)
            validations = [program.validate(key).status for key in KEYS]
            shop.disk.grow(16)
            healed = load.wait_for_successes(1)
            load.wait_for_successes()
            journal = load.finish()
        found = verdict(shop, journal)
    counted = {
        "acknowledged": sum(call.is_acknowledged for call in journal),
        "acknowledged and not there": len(found.missing),
        "changes refused with 503": count_refused(load),
    }
    record("R7", "sqlite, filled by activations", counted, {"seconds until it heals": healed})
    assert set(validations) == {200}
    assert {answer.status for answer in load.answers} == {200, 503}
    assert_answers_in_shape(journal)
    assert found == INNOCENT
    assert healed < HEALED


def test_a_server_killed_on_a_full_disk_starts_there_and_heals(tmp_path: Path) -> None:
    with a_shop(tmp_path) as shop, Client(shop.server, shop.credentials) as vendor:
        with run_load(shop.server, KEYS, rest=RESTED) as load:
            shop.disk.fill()
            load.wait_for_refusal(time.monotonic())
            shop.server.kill()
            shop.server.start()
            load.wait_for_refusal(time.monotonic())
            answers = questions(vendor)
            shop.disk.make_room()
            healed = load.wait_for_successes(1)
            load.wait_for_successes()
            journal = load.finish()
        found = verdict(shop, journal)
    record("R7", "sqlite, killed", {"acknowledged and not there": len(found.missing)})
    assert {reply.status for reply in answers} == {200}
    assert_answers_in_shape(journal)
    assert found == INNOCENT
    assert healed < HEALED


def test_validations_go_on_while_the_log_cannot_be_written(tmp_path: Path) -> None:
    to_the_disk = ["sh", "-c", f'exec "$0" "$@" 2>>{tmp_path}/disk/log', KEYWRIGHT]
    statuses: Counter[int] = Counter()
    # What is no log goes elsewhere: the address that the tests wait for.
    with a_shop(tmp_path, to_the_disk, log_format="console") as shop, Client(shop.server) as program:
        assert program.validate(KEYS[0]).status == 200
        shop.disk.fill()
        for _ in range(size(200, 5_000)):
            try:
                statuses[program.validate(KEYS[0]).status] += 1
            except (OSError, HTTPException):
                statuses[0] += 1
        assert verdict(shop, []) == INNOCENT
    counted = {"validations": statuses.total(), "validations without an answer": statuses[0]}
    record("R7", "sqlite, a log on the full disk", counted)
    assert set(statuses) == {200}


def start(disk: Disk, program: Sequence[str | Path] = (KEYWRIGHT,)) -> "subprocess.CompletedProcess[str]":
    """Make the database or bring it up to date, as a starting server does, and end."""
    return subprocess.run(
        [*disk.enter, *program, "init", "--data-dir", str(disk.folder)],
        env=environment(secret=SECRET.decode()),
        capture_output=True,
        text=True,
        check=False,
    )


def assert_fails_in_a_sentence(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def assert_starts(disk: Disk, program: Sequence[str | Path] = (KEYWRIGHT,)) -> None:
    done = start(disk, program)
    assert done.returncode == 0, done.stderr


def revision(folder: Path) -> str | None:
    return read_file_state(folder / "keywright.db").revision


def test_a_database_is_made_when_there_is_room_for_it(tmp_path: Path) -> None:
    with a_disk(tmp_path / "disk") as disk:
        for leaving in (0, 50_000):
            disk.fill(leaving=leaving)
            assert_fails_in_a_sentence(start(disk))
            disk.make_room()
        assert_starts(disk)
        assert revision(disk.take(tmp_path / "found")) == HEAD


def test_what_was_stopped_starts_on_a_full_disk_when_there_is_room(tmp_path: Path) -> None:
    with a_disk(tmp_path / "disk") as disk:
        stock(tmp_path / "stock")
        disk.put(tmp_path / "stock")
        disk.fill()
        # What readers and writers share needs a little room.
        assert_fails_in_a_sentence(start(disk))
        disk.make_room()
        with running(disk.folder, program=[*disk.enter, KEYWRIGHT], **SETTINGS) as server:
            with Client(server) as program:
                assert program.activate(KEYS[0]).status == 200
            assert server.stop() == 0


@pytest.fixture
def outdated(tmp_path: Path) -> Path:
    """A folder with a database of this version, which a later one migrates."""
    folder = tmp_path / "outdated"
    folder.mkdir()
    make_sqlite_file(url_of(folder))
    return folder


def test_a_migration_that_finds_no_room_changes_nothing_and_is_done_later(
    tmp_path: Path, outdated: Path
) -> None:
    later = altering_command("with a later schema")
    with a_disk(tmp_path / "disk") as disk:
        disk.put(outdated)
        for number, leaving in enumerate((0, 40_000)):
            disk.fill(leaving=leaving)
            assert_fails_in_a_sentence(start(disk, later))
            assert revision(disk.take(tmp_path / f"found {number}")) == HEAD
            disk.make_room()
        assert_starts(disk, later)
        assert revision(disk.take(tmp_path / "found")) == LATER


def test_a_copy_that_finds_no_room_is_not_left_behind(tmp_path: Path, outdated: Path) -> None:
    with a_disk(tmp_path / "disk") as disk:
        disk.put(outdated)
        disk.fill(leaving=60_000)
        assert_fails_in_a_sentence(start(disk, altering_command("with a later schema")))
        copies = list((disk.take(tmp_path / "found") / "backups").iterdir())
        assert [read_file_state(copy).revision for copy in copies] == [HEAD] * len(copies)


def test_control_a_server_that_acknowledges_what_finds_no_room_is_found_out(tmp_path: Path) -> None:
    with a_shop(tmp_path, altering_command("acknowledging failures")) as shop:
        with run_load(shop.server, KEYS, rest=RESTED) as load:
            shop.disk.fill()
            load.wait_for_successes(200)
            shop.disk.make_room()
            journal = load.finish()
        missing = verdict(shop, journal).missing
    record("R7", "control: failed commits acknowledged", {"acknowledged and not there": len(missing)})
    assert missing
