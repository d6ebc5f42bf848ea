"""After any commands, followed in steps of any size, what follows the events is what it has to be."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from keywright.db import Storage
from keywright.engine.executor import Executor
from tests.storage.conftest import ISOLATED
from tests.storage.marked import assert_followed, follow, follow_all
from tests.storage.test_batches_model import BatchesAgainstModel, a_file, on_a_server
from tests.storage.unlucky import Unlucky

LIMITS = st.integers(1, 8)


class FollowedAgainstScratch(BatchesAgainstModel):
    """The commands of ``BatchesAgainstModel``, and steps of following between them."""

    @rule(limit=LIMITS)
    def follow(self, limit: int) -> None:
        self.executor.execute([follow(limit)])

    @rule(limit=LIMITS)
    def follow_to_the_end(self, limit: int) -> None:
        follow_all(self.executor, limit)
        assert_followed(self.storage)

    @rule()
    def begin_anew(self) -> None:
        self.executor = Executor(self.storage)

    def teardown(self) -> None:
        follow_all(self.executor)
        assert_followed(self.storage)
        super().teardown()


@pytest.mark.parametrize(
    "a_database",
    [
        pytest.param(a_file, id="sqlite"),
        pytest.param(on_a_server, id="postgresql"),
        *(
            pytest.param(partial(on_a_server, options, Unlucky), id=isolation)
            for isolation, options in ISOLATED.items()
        ),
    ],
)
def test_after_any_commands_the_marks_are_those_computed_from_scratch(
    a_database: Callable[[], AbstractContextManager[Storage]],
) -> None:
    few = settings(max_examples=40 if a_database is a_file else 12, stateful_step_count=12, deadline=None)
    machine = partial(FollowedAgainstScratch, a_database)
    run_state_machine_as_test(machine, settings=few)  # type: ignore[arg-type]
