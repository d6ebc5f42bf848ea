"""The checker of histories is itself checked: what can have been is accepted, what cannot is not."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories.checker import find_order, in_words, is_in_order
from tests.histories.license import Answer, Done, License, Operation, Refused, What, carry_out, report
from tests.histories.made_up import guesses, has_order, histories, sales
from tests.proving import record

LIMIT = 2
NEW = License(LIMIT)
FULL = Refused("full")
#: However slow the machine is.
patiently = settings(deadline=None)


def take(label: str, value: int, began: float, ended: float, limit: int | None = LIMIT) -> Operation:
    """Somebody took a place."""
    return Operation("activate", label, Done(value, limit, frozenset({label})), began, ended)


def ask(
    what: What, about: Any, answer: Done | Refused | None, began: float, ended: float = math.inf
) -> Operation:
    return Operation(what, about, answer, began, ended)


def see(active: str, ended: str, moment: float, limit: int | None = LIMIT) -> Operation:
    """A validation between this moment and the next that told of these labels."""
    told = report(License(limit, frozenset(active), frozenset(ended)))
    return Operation("validate", None, told, moment, moment + 0.5)


def give_up(labels: str, left: int, began: float, ended: float) -> Operation:
    what: What = "deactivate" if len(labels) == 1 else "deactivate all"
    about = labels if len(labels) == 1 else None
    return Operation(what, about, Done(left, LIMIT, ended=frozenset(labels)), began, ended)


BROKEN = {
    "a counter is read twice": [take("a", 1, 0, 3), take("b", 1, 1, 2), see("ab", "", 4)],
    "an update is lost": [take("a", 1, 0, 1), take("b", 1, 2, 3), see("b", "", 4)],
    "a place beyond the limit": [take("a", 1, 0, 1), take("b", 2, 0, 1), take("c", 3, 2, 3)],
    "a counter that skips": [take("a", 1, 0, 1), take("b", 3, 2, 3, None)],
    "a validation that is late": [take("a", 1, 0, 1), see("", "", 2)],
    "a validation that goes back": [take("a", 1, 0, 9), see("a", "", 1), see("", "", 2)],
    "a validation that is early": [see("a", "", 0), take("a", 1, 1, 2)],
    "a refusal though there was room": [take("a", 1, 0, 1), ask("activate", "b", FULL, 2, 3)],
    "a refusal before the places are taken": [
        take("a", 1, 0, 1),
        ask("activate", "c", FULL, 2, 3),
        take("b", 2, 4, 5),
    ],
    "values against the order in time": [take("a", 2, 0, 1), take("b", 1, 2, 3)],
    "an acknowledged place is gone after a crash": [
        take("a", 1, 0, 1),
        take("b", 2, 2, 3),
        ask("activate", "c", None, 3),
        see("a", "", 9),
    ],
    "an acknowledged end is taken back": [
        take("a", 1, 0, 1),
        give_up("a", 0, 2, 3),
        ask("activate", "c", None, 3),
        see("a", "", 9),
    ],
    "what was refused happened all the same": [
        take("a", 1, 0, 1),
        take("b", 2, 0, 1),
        ask("activate", "c", FULL, 2, 3),
        give_up("a", 1, 4, 5),
        see("bc", "a", 6),
    ],
    "a place that nobody asked for": [take("a", 1, 0, 1), see("ax", "", 2)],
    "two answers for the same end": [
        take("a", 1, 0, 1),
        take("b", 2, 0, 1),
        give_up("a", 1, 2, 4),
        give_up("a", 0, 3, 5),
    ],
    "an end of all that forgets one": [
        take("a", 1, 0, 1),
        take("b", 2, 2, 3),
        ask("deactivate all", None, Done(1, LIMIT, ended=frozenset("a")), 4, 5),
    ],
    "a place is taken back twice": [
        take("a", 1, 0, 1),
        give_up("a", 0, 2, 3),
        ask("reactivate", "a", Done(1, LIMIT, frozenset("a")), 4, 6),
        ask("reactivate", "a", Done(2, LIMIT, frozenset("a")), 5, 7),
    ],
    "a limit that is too late": [
        ask("set limit", 1, Done(0, 1), 0, 1),
        take("a", 1, 2, 3, 1),
        take("b", 2, 4, 5),
    ],
    "free places that are counted wrong": [
        ask("validate", None, Done(0, LIMIT, remaining=1), 0, 1),
    ],
    "two effects of one call without an answer": [
        ask("activate", "a", None, 0),
        take("b", 3, 1, 2, None),
    ],
}


@pytest.mark.parametrize("history", BROKEN.values(), ids=[name.replace(" ", "-") for name in BROKEN])
def test_what_cannot_have_been_is_rejected(history: list[Operation]) -> None:
    is_found = find_order(history, NEW) is None
    record("R2", "control: broken histories", {"made": 1, "found": int(is_found)})
    assert is_found


def test_what_had_no_answer_may_have_happened_late_or_never() -> None:
    lost = ask("activate", "x", None, 0)
    assert find_order([lost, take("a", 1, 1, 2), see("a", "", 3)], NEW) is not None
    assert find_order([lost, take("a", 2, 1, 2), see("ax", "", 3)], NEW) is not None
    assert find_order([lost, take("a", 1, 1, 2), see("a", "", 3), see("ax", "", 4)], NEW) is not None
    assert find_order([lost, take("a", 1, 1, 2), see("ax", "", 3), see("a", "", 4)], NEW) is None


def test_an_order_that_is_found_is_one() -> None:
    history = [take("b", 2, 0, 9), take("a", 1, 0, 9), ask("activate", "c", FULL, 0, 9)]
    order = find_order(history, NEW)
    assert order is not None
    assert [one.about for one in order] == ["a", "b", "c"]


@patiently
@given(histories(are_known=False, overlap=4.0))
def test_what_a_license_did_is_accepted_however_calls_overlapped(
    made: tuple[License, list[Operation]],
) -> None:
    start, history = made
    order = find_order(history, start)
    assert order is not None, in_words(history)
    license = start
    for number, one in enumerate(order):
        license, answer = carry_out(license, one)
        assert one.answer in (None, answer)
        assert not any(later.ended_at < one.started_at for later in order[number + 1 :])


@patiently
@given(histories(overlap=0.4), st.data())
def test_any_other_answer_is_rejected_where_calls_did_not_overlap(
    made: tuple[License, list[Operation]], data: st.DataObject
) -> None:
    start, history = made
    place = data.draw(st.integers(0, len(history) - 1))
    answer = history[place].answer
    if isinstance(answer, Done):
        other = answer._replace(times_activated=answer.times_activated + data.draw(st.sampled_from([-1, 1])))
        answers: list[Answer] = [other, FULL]
        history[place] = history[place]._replace(answer=data.draw(st.sampled_from(answers)))
    else:
        history[place] = history[place]._replace(answer=Done(1, start.limit))
    assert find_order(history, start) is None


@patiently
@given(guesses())
def test_the_search_finds_what_trying_every_order_finds(made: tuple[License, list[Operation]]) -> None:
    start, history = made
    assert (find_order(history, start) is not None) == has_order(history, start), in_words(history)


@patiently
@given(sales())
def test_the_witness_says_what_the_search_says(made: tuple[int, list[Operation]]) -> None:
    limit, history = made
    assert is_in_order(history, limit) == (find_order(history, License(limit)) is not None), in_words(history)


def test_the_witness_judges_a_large_sale_at_once() -> None:
    amount = 20_000
    history = [take(f"{one}", one, one - 3.0, one + 3.0, None) for one in range(1, amount + 1)]
    assert is_in_order(history, amount)
    history[7] = history[7]._replace(answer=history[8].answer)
    assert not is_in_order(history, amount)
