"""After any commands, followed in steps of any size, what follows the events is what it has to be."""

from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from keywright.registry import open_executor
from tests.storage.conftest import RUN_AGAIN
from tests.storage.projected import assert_followed, follow, follow_all
from tests.storage.test_batches_model import BatchesAgainstModel, new_database

DATABASES = RUN_AGAIN
pytestmark = pytest.mark.tier("ordinary")

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
        self.executor = open_executor(self.storage)

    def teardown(self) -> None:
        follow_all(self.executor)
        assert_followed(self.storage)
        super().teardown()


def test_after_any_commands_the_search_terms_are_those_computed_from_scratch(database: str) -> None:
    few = settings(max_examples=40 if database == "sqlite" else 12, stateful_step_count=12, deadline=None)
    machine = partial(FollowedAgainstScratch, partial(new_database, database))
    run_state_machine_as_test(machine, settings=few)  # type: ignore[arg-type]
