"""With several concurrent writers and projectors, no event is skipped or projected twice."""

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from keywright.core.command import Command
from keywright.core.errors import StoreBusy
from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.registry import open_executor
from keywright.search.terms_store import Checkpoints, find_checkpoints
from tests.makers import a_storage, activate, create, deactivate_all, delete, update
from tests.server import wait_until
from tests.storage.conftest import RUN_AGAIN, Opener
from tests.storage.projected import assert_followed, follow, follow_all, list_counts
from tests.storage.test_batches_model import BatchesAgainstModel, new_database

pytestmark = [pytest.mark.tier("ordinary"), pytest.mark.of_the_database]


def all_at_once(*works: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


def lively(executor: Executor, seed: int) -> None:
    """Repeatedly change a few licenses, in batches of any size."""
    chance = random.Random(seed)

    def limit() -> int | None:
        return chance.choice([None, 1, 2])

    def any_command() -> Command:
        key, kind = str(chance.randrange(6)), chance.randrange(20)
        if kind < 12:
            return activate(key)
        if kind < 15:
            return create(key, limit())
        if kind < 17:
            return deactivate_all(key)
        return update(key, times_activated_max=limit()) if kind < 19 else delete(key)

    for _ in range(40):
        executor.execute([any_command() for _ in range(chance.randrange(1, 9))])


def test_while_several_change_and_several_follow_nothing_is_skipped_and_nothing_followed_twice(
    database: str, open_again: Opener, storage: Storage
) -> None:
    over = threading.Event()

    def follow_until_over(executor: Executor) -> None:
        while not over.is_set():
            executor.execute([follow(limit=7)])

    changing = [open_executor(open_again()) for _ in range(1 if database == "sqlite" else 3)]
    following = [open_executor(open_again()) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(follow_until_over, one) for one in following]
        all_at_once(*(partial(lively, one, seed) for seed, one in enumerate(changing)))
        over.set()
        for end in ends:
            end.result()
    follow_all(open_executor(storage))
    assert_followed(storage)
    assert sum(list_counts(storage).values()) > 50


def test_who_follows_waits_for_no_other_process(tmp_path: Path) -> None:
    with closing(a_storage(tmp_path)) as storage, closing(a_storage(tmp_path)) as other:
        executor = open_executor(storage)
        follow_all(executor)
        with other.write_lock():
            [outcome] = executor.execute([follow()])
        assert isinstance(outcome, StoreBusy)
        assert follow_all(executor) == 0


_FOLLOWER = """
import sys
from keywright.registry import open_executor
from keywright.db import open_storage
from tests.makers import KEY_RING
from tests.storage.projected import follow
executor = open_executor(open_storage(sys.argv[1], KEY_RING))
print("ready", flush=True)
while True:
    executor.execute([follow(limit=3)])
"""


def _has_moved(storage: Storage, before: Checkpoints | None) -> bool:
    return run_read(storage, find_checkpoints) != before


def test_whoever_is_killed_while_following_has_followed_each_event_once_or_not_at_all(
    url: str, storage: Storage
) -> None:
    executor = open_executor(storage)
    executor.execute([create("a"), create("b", 2)])
    for number in range(2):
        commands = [activate("a", label=f"{number} {one}") for one in range(60)]
        executor.execute([*commands, activate("b"), deactivate_all("b")])
        before = run_read(storage, find_checkpoints)
        with subprocess.Popen([sys.executable, "-c", _FOLLOWER, url], stdout=subprocess.PIPE) as follower:
            wait_until(partial(_has_moved, storage, before), "some steps")
            follower.send_signal(signal.SIGKILL)
    follow_all(executor, 10)
    assert_followed(storage)


# --- in any order ---------------------------------------------------------------------------------

LIMITS = st.integers(1, 8)


class FollowedAgainstScratch(BatchesAgainstModel):
    """The commands of ``BatchesAgainstModel``, with projection steps in between."""

    @rule(limit=LIMITS)
    def follow(self, limit: int) -> None:
        self.executor.execute([follow(limit)])

    @rule(limit=LIMITS)
    def follow_to_the_end(self, limit: int) -> None:
        follow_all(self.executor, limit)
        assert_followed(self.storage)

    @rule()
    def begin_anew(self) -> None:
        self.executor = open_executor(self.storage)

    def teardown(self) -> None:
        follow_all(self.executor)
        assert_followed(self.storage)
        super().teardown()


@pytest.mark.databases(*RUN_AGAIN)
def test_after_any_commands_the_search_terms_are_those_computed_from_scratch(database: str) -> None:
    few = settings(max_examples=40 if database == "sqlite" else 12, stateful_step_count=12, deadline=None)
    machine = partial(FollowedAgainstScratch, partial(new_database, database))
    run_state_machine_as_test(machine, settings=few)  # type: ignore[arg-type]
