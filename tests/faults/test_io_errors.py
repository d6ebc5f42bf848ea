"""The disk fails now and then while SQLite writes: nothing is acknowledged that is not on it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.altered import altering_command
from tests.faults.fiu import SYNC, WRITE, may_fail
from tests.faults.judge import INNOCENT, Verdict, judge_calls
from tests.faults.load import FATE_UNKNOWN, Call, Load, assert_answers_in_shape, run_load
from tests.faults.recorded import deeds, failures, find_used_after_failure
from tests.faults.traced import Step, steps, tracing_command
from tests.http.asking import Client
from tests.proving import record, size
from tests.server import KEYWRIGHT, RunningServer

KINDS = {"fdatasync": (SYNC,), "pwrite": (WRITE,), "fdatasync and pwrite": (SYNC, WRITE)}
#: In a run with so many refused calls, some commits have failed.
FAILURES = 5


def sell(server: RunningServer) -> list[str]:
    """The keys of some licenses without a limit."""
    with Client(server, server.api_key()) as vendor:
        return [vendor.license() for _ in range(4)]


def verdict(server: RunningServer, journal: Sequence[Call]) -> Verdict:
    return judge_calls(journal, Counter(label for (label,) in server.sql("SELECT label FROM activations")))


def validate_until(load: Load, keys: list[str], program: Client, *, calls: int) -> Counter[int]:
    """Ask for a license all the time until there have been that many calls more, and some were refused; how
    it was answered.
    """
    statuses: Counter[int] = Counter()
    before, refused = len(load.journal), 0
    while len(load.journal) - before < calls or refused < FAILURES:
        statuses += Counter(program.validate(key).status for key in keys * 5)
        if refused < FAILURES:
            refused = sum(one.status == 503 for one in load.answers)
    return statuses


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_acknowledged_that_failed_to_be_written(tmp_path: Path, kind: str) -> None:
    written = tmp_path / "record"
    with may_fail(tmp_path, altering_command("recording", record=written)) as disk:
        server = disk.server
        keys = sell(server)
        with run_load(server, keys) as load, Client(server) as program:
            with disk.failing(KINDS[kind]):
                validations = validate_until(load, keys, program, calls=size(300, 20_000))
            healed = load.wait_for_successes()
            journal = load.finish()
        found, done = verdict(server, journal), deeds(written)
        statuses = Counter(answer.status for answer in load.answers)
        counted = {
            "calls": len(journal),
            "acknowledged": sum(call.is_acknowledged for call in journal),
            "commits failed": failures(done),
            "answered 503": statuses[503],
            "acknowledged and not there": len(found.missing),
            "connections used after a failure": len(find_used_after_failure(done)),
            "validations": validations.total(),
            "validations refused": validations.total() - validations[200],
        }
        record("R6", kind, counted, {"seconds until 20 calls succeed again": healed})
        assert failures(done) > 0
        assert set(statuses) == {200, 503}
        assert set(validations) == {200}
        assert found == INNOCENT
        assert find_used_after_failure(done) == []
        assert_answers_in_shape(journal)
        server.assert_consistent()


class Traced(NamedTuple):
    """What a trace of a server shows whose syncs fail now and then, and how it answered meanwhile."""

    found: list[Step]
    statuses: Counter[int]

    @property
    def unsynced(self) -> int:
        """How many changes were acknowledged that were not written or not synced."""
        return sum(one.status == 200 and not (one.is_written and one.is_synced) for one in self.found)

    @property
    def kept(self) -> int:
        """After how many failures the log was not closed."""
        return sum(one.status == 503 and not (one.is_written and one.is_closed) for one in self.found)

    def record(self, part: str) -> None:
        counted = {
            "answers traced": len(self.found),
            "answered 503": self.statuses[503],
            "acknowledged without a sync": self.unsynced,
            "logs kept open after a failure": self.kept,
        }
        record("R6", part, counted)


def trace(folder: Path, of: Sequence[str], calls: int) -> Traced:
    """Ask for one change after the other."""
    with may_fail(folder, of, under=tracing_command(folder)) as disk:
        (key, *_) = sell(disk.server)
        with Client(disk.server) as program, disk.failing([SYNC], 0.2):
            statuses = Counter(program.activate(key).status for _ in range(calls))
        disk.server.assert_consistent()
        disk.server.stop()
    return Traced(steps(folder, disk.server.pid), statuses)


def test_the_log_is_synced_before_an_answer_and_closed_after_a_failed_sync(tmp_path: Path) -> None:
    seen = trace(tmp_path, [KEYWRIGHT], size(60, 3_000))
    seen.record("system calls")
    assert set(seen.statuses) == {200, 503}
    assert Counter(one.status for one in seen.found) - Counter({200: 4}) == seen.statuses
    assert seen.unsynced == 0
    assert seen.kept == 0


def test_what_is_refused_after_a_failed_sync_is_not_there_after_a_kill(tmp_path: Path) -> None:
    with may_fail(tmp_path, [KEYWRIGHT]) as disk:
        server = disk.server
        (key, *_) = sell(server)
        disk.fail([SYNC], 1.0)
        with Client(server) as program:
            replies = {label: program.activate(key, query={"label": label}) for label in ("one", "two")}
        server.kill()
        server.start()
        there = {label for (label,) in server.sql("SELECT label FROM activations")}
        denied = there & {label for label, reply in replies.items() if reply.message != FATE_UNKNOWN}
        record("R6", "killed after a failed sync", {"refused and there all the same": len(denied)})
        server.assert_consistent()
        assert [reply.status for reply in replies.values()] == [503, 503]
        assert denied == set()


def test_control_a_server_that_acknowledges_failed_commits_is_found_out(tmp_path: Path) -> None:
    with may_fail(tmp_path, altering_command("acknowledging failures")) as disk:
        keys = sell(disk.server)
        with run_load(disk.server, keys) as load, disk.failing([SYNC], 0.5):
            # In so many batches that not all of their syncs can have succeeded.
            load.wait_for_successes(500)
            journal = load.finish()
        missing = verdict(disk.server, journal).missing
        record("R6", "control: failed commits acknowledged", {"acknowledged and not there": len(missing)})
        assert missing


def test_control_a_trace_shows_what_is_acknowledged_without_a_sync(tmp_path: Path) -> None:
    seen = trace(tmp_path, altering_command("acknowledging failures"), 60)
    seen.record("control: system calls, failed commits acknowledged")
    assert seen.unsynced


def test_control_a_server_that_keeps_a_failed_connection_is_found_out(tmp_path: Path) -> None:
    written = tmp_path / "record"
    seen = trace(tmp_path, altering_command("recording", "keeping connections", record=written), 60)
    seen.record("control: system calls, connections kept")
    used = find_used_after_failure(deeds(written))
    record("R6", "control: connections kept", {"connections used after a failure": len(used)})
    assert seen.kept
    assert used
