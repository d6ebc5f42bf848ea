"""Counters in memory: nothing is counted twice or lost, and memory is bounded."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keywright.background.counters import Counters, _save
from keywright.core.command import Command
from keywright.core.errors import FateUnknown, Fault, StoreUnavailable
from keywright.engine.desk import Desk

NOW = datetime(2026, 1, 15, 12, 30, 45, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_counts_are_taken_once_and_those_that_could_not_be_saved_are_added_to_the_new_ones() -> None:
    counters = Counters()
    assert counters.take() is None
    counters.validations += 2
    counters.count_refusal("a")
    counters.used_api_keys |= {7: NOW, 8: NOW}
    counters.count_release(3, "offers")
    first = counters.take()
    assert first is not None
    assert (first.validations, first.refused, first.used_api_keys) == (2, {"a": 1}, {7: NOW, 8: NOW})
    assert first.releases == {(3, "offers"): 1}
    assert counters.take() is None
    counters.validations += 3
    counters.count_refusal("a")
    counters.count_refusal("b")
    counters.used_api_keys[7] = LATER
    counters.count_release(3, "offers")
    counters.give_back(first)
    command = counters.take()
    assert command is not None
    assert (command.validations, command.refused) == (5, {"a": 2, "b": 1})
    assert command.used_api_keys == {7: LATER, 8: NOW}
    assert command.releases == {(3, "offers"): 2}


@pytest.mark.parametrize(("fault", "validations"), [(FateUnknown("cut"), 0), (StoreUnavailable("away"), 2)])
def test_counts_that_may_be_saved_are_not_counted_again(fault: Fault, validations: int) -> None:
    class Failing(Desk):
        def __init__(self) -> None:
            """Without anything that it needs."""

        async def execute(self, command: Command, waiting_call: Any = None) -> Any:
            raise fault

    counters = Counters()
    counters.validations += 2
    counters.used_api_keys[7] = NOW
    asyncio.run(_save(Failing(), counters))
    assert (counters.validations, counters.used_api_keys) == (validations, {7: NOW})


def test_refusals_are_counted_for_a_thousand_license_keys() -> None:
    counters = Counters()
    for number in range(1500):
        counters.count_refusal(f"{number}")
    counters.count_refusal("7")
    counters.count_refusal("1007")
    assert len(counters.refused) == 1000
    assert counters.refused["7"] == 2
