"""Two processes that write to one SQLite file: one of them at a time, whatever becomes of the other."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.concurrency.callers import calling
from tests.concurrency.selling import acknowledgements_in, activate_path, shuffle_plan, tokens_in
from tests.faults.load import RESTED, run_load
from tests.faults.pairs import Pair, a_pair, is_stopped, stop_while_it_writes
from tests.http.asking import Client
from tests.proving import IS_LONG, record, size
from tests.server import wait_until

#: Whoever waits for the lock gives up after 20 s; in the short form, after one.
ALTERATIONS = () if IS_LONG else ("impatient",)
BOTH_WAYS = pytest.mark.parametrize("is_first_hurt", [True, False], ids=["the first", "the second"])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers on a new file."""
    with a_pair(tmp_path_factory.mktemp("pair"), *ALTERATIONS) as pair:
        yield pair


def test_two_servers_on_one_file_sell_no_place_twice_and_never_write_at_once(pair: Pair) -> None:
    product, keys = pair.licenses(size(40, 2_000), times_activated_max=5)
    plans = shuffle_plan([activate_path(key) for key in keys] * 20, processes=2)
    with calling((pair.first, pair.second), plans, connections=16) as callers:
        journal = callers.journal()
    statuses = Counter(entry.status for entry in journal)
    sold = pair.first.sql("SELECT DISTINCT times_activated FROM licenses WHERE product_id = ?", product)
    counted = {"attempts": len(journal), "successes": statuses[200], **pair.counted()}
    record("R5", "two servers", counted)
    assert statuses == {200: 5 * len(keys), 404: 35 * len(keys)}
    assert sold == [(5,)]
    assert tokens_in(pair.first, product) == acknowledgements_in(journal)
    assert {pair.first.pid, pair.second.pid} <= {turn.process for turn in pair.turns()}
    assert counted["interleaved"] == 0
    pair.first.assert_consistent()


def test_commands_beside_a_busy_server_wait_for_their_turn(pair: Pair) -> None:
    product, keys = pair.licenses()
    done = []
    with run_load(pair.first, keys, rest=RESTED) as load:
        for _ in range(size(1, 50)):
            commands = [pair.command("license", "create", "--product-id", "0") for _ in range(2)]
            done += [(one.communicate(timeout=60)[0], one.returncode, one.pid) for one in commands]
        journal = load.finish()
    counted = {"commands": len(done), **pair.counted()}
    record("R5", "commands beside a server", counted)
    assert [status for _, status, _ in done] == [0] * len(done), done
    assert {process for _, _, process in done} <= {turn.process for turn in pair.turns()}
    assert pair.first.sql("SELECT count(*) FROM licenses WHERE product_id = 0") == [(len(done),)]
    assert counted["interleaved"] == 0
    pair.assert_right(product, journal)


@BOTH_WAYS
def test_who_holds_the_lock_and_stands_still_is_waited_for_and_the_others_refused(
    pair: Pair, is_first_hurt: bool
) -> None:
    product, keys = pair.licenses()
    stopped, other = (pair.first, pair.second) if is_first_hurt else (pair.second, pair.first)
    waits = []
    with (
        run_load(stopped, keys, rest=RESTED) as its,
        run_load(other, keys, rest=RESTED) as others,
        Client(other) as program,
    ):
        for _ in range(size(1, 10)):
            stop_while_it_writes(stopped, pair.lock)
            began = time.monotonic()
            others.wait_for_refusal(began)
            waits.append(time.monotonic() - began)
            assert program.validate(keys[0]).status == 200
            assert others.successes_since(began) == 0
            stopped.signal(signal.SIGCONT)
            its.wait_for_successes()
            others.wait_for_successes()
        journals = (its.finish(), others.finish())
    refused = sum(answer.status == 503 for answer in others.answers)
    counted = {"stops": len(waits), "refused": refused, **pair.counted()}
    record("R5", "the lock's holder stops", counted, {"seconds until refused": max(waits)})
    assert counted["interleaved"] == 0
    pair.assert_right(product, *journals)


@BOTH_WAYS
def test_who_holds_the_lock_and_is_killed_lets_the_others_go_on_at_once(
    pair: Pair, is_first_hurt: bool
) -> None:
    product, keys = pair.licenses()
    killed, other = (pair.first, pair.second) if is_first_hurt else (pair.second, pair.first)
    waits = []
    with run_load(killed, keys, rest=RESTED) as its, run_load(other, keys, rest=RESTED) as others:
        for _ in range(size(1, 50)):
            stop_while_it_writes(killed, pair.lock)
            # From now on it does nothing any more.
            pair.killed_at[killed.pid] = time.monotonic()
            killed.kill()
            waits.append(others.wait_for_successes())
            killed.start()
            its.wait_for_successes()
        journals = (its.finish(), others.finish())
    counted = {"kills": len(waits), **pair.counted()}
    record("R5", "the lock's holder is killed", counted, {"seconds until others succeed": max(waits)})
    assert {answer.status for answer in others.answers} == {200}
    assert counted["interleaved"] == 0
    pair.assert_right(product, *journals)


def test_a_command_that_holds_the_lock_and_stands_still_is_waited_for(pair: Pair) -> None:
    product, keys = pair.licenses()
    with run_load(pair.first, keys, rest=RESTED) as load:
        stopped = pair.command("license", "create", alterations=("standing still",))
        wait_until(lambda: is_stopped(stopped.pid), "a command that stands still")
        began = time.monotonic()
        refused = pair.command("license", "create", alterations=ALTERATIONS)
        load.wait_for_refusal(began)
        said, _ = refused.communicate(timeout=60)
        assert load.successes_since(began) == 0
        stopped.send_signal(signal.SIGCONT)
        stopped.communicate(timeout=60)
        load.wait_for_successes()
        journal = load.finish()
    counted = {"commands": 2, **pair.counted()}
    record("R5", "a command stops", counted)
    assert (refused.returncode, stopped.returncode) == (1, 0)
    assert said.startswith("Error: ")
    assert counted["interleaved"] == 0
    pair.assert_right(product, journal)


@contextmanager
def removing(lock: Path) -> Iterator[list[float]]:
    """Somebody who takes the lock file for a forgotten one, again and again, and when that was."""
    is_over = threading.Event()
    moments: list[float] = []

    def remove() -> None:
        while not is_over.wait(0.002):
            if lock.exists():
                lock.unlink()
                moments.append(time.monotonic())

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        yield moments
    finally:
        is_over.set()
        thread.join()


def test_a_removed_lock_file_lets_nobody_in_between(tmp_path: Path) -> None:
    removals = size(300, 5_000)
    with a_pair(tmp_path) as pair:
        product, keys = pair.licenses()
        with run_load(pair.first, keys) as one, run_load(pair.second, keys) as two:
            with removing(pair.lock) as moments:
                while len(moments) < removals and not pair.counted()["interleaved"]:
                    one.wait_for_successes()
            one.wait_for_successes()
            two.wait_for_successes()
            journals = (one.finish(), two.finish())
        counted = {"removals": len(moments), **pair.counted()}
        record("R5", "the lock file is removed", counted)
        pair.assert_right(product, *journals)
        assert counted["interleaved"] == 0


def test_control_without_the_lock_transactions_meet(tmp_path: Path) -> None:
    with a_pair(tmp_path, "unlocked") as pair:
        _, keys = pair.licenses()
        with run_load(pair.first, keys), run_load(pair.second, keys):
            wait_until(lambda: pair.counted()["interleaved"], "transactions that meet")
        record("R5", "control: no lock", pair.counted())
