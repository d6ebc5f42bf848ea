"""Histories that nobody lived through: drawn from the model, right at first, and then broken."""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

from hypothesis import strategies as st

from tests.histories.license import Answer, Done, License, Operation, Refused, What, carry_out

LABELS = "abcdef"
_TAKEN = st.lists(st.sampled_from(LABELS), unique=True).map(frozenset)
#: All that a program may ask.
_WISHES: st.SearchStrategy[tuple[Any, Any]] = st.one_of(
    st.tuples(
        st.sampled_from(["activate", "reactivate", "deactivate", "validate one"]), st.sampled_from(LABELS)
    ),
    st.tuples(st.sampled_from(["activate device", "deactivate device"]), st.sampled_from("uv")),
    st.tuples(st.sampled_from(["deactivate all", "validate"]), st.none()),
    st.tuples(st.just("set limit"), st.one_of(st.none(), st.integers(1, 3))),
)
_ANSWERS: st.SearchStrategy[Answer] = st.one_of(
    st.builds(Refused, st.sampled_from(["full", "active", "not active"])),
    st.builds(Done, st.integers(0, 4), st.just(2), _TAKEN, _TAKEN, st.none()),
)


def _is_possible(what: What, about: Any, asked: set[str]) -> bool:
    """A label is given to one activation."""
    return what != "activate" or about not in asked


@st.composite
def histories(
    draw: st.DrawFn, *, overlap: float = 3.0, are_known: bool = True, only: What | None = None, most: int = 12
) -> tuple[License, list[Operation]]:
    """A license, and a history that it can have had, in the order in which it happened.

    Each operation happens one second after the last, begins up to ``overlap`` seconds before and ends up to
    ``overlap`` seconds after that moment; some have no answer, and did not happen perhaps.
    """
    start = license = License(draw(st.integers(1, 3)))
    history: list[Operation] = []
    asked: set[str] = set()
    wishes = _WISHES if only is None else st.tuples(st.just(only), st.sampled_from("abcdefghijkl"))
    lead = st.floats(0.0, overlap)
    for moment, (what, about) in enumerate(draw(st.lists(wishes, min_size=1, max_size=most))):
        if not _is_possible(what, about, asked):
            continue
        if what == "activate":
            asked.add(about)
        operation = Operation(what, about, None, moment - draw(lead), moment + draw(lead))
        if not are_known and draw(st.booleans()):
            operation = operation._replace(ended_at=math.inf)
            if draw(st.booleans()):
                license, _ = carry_out(license, operation)
        else:
            license, answer = carry_out(license, operation)
            operation = operation._replace(answer=answer)
        history.append(operation)
    return start, history


@st.composite
def guesses(draw: st.DrawFn, *, most: int = 5) -> tuple[License, list[Operation]]:
    """A history with any answers at all."""
    start, history = draw(histories(are_known=False, most=most))
    places = draw(st.lists(st.tuples(st.integers(0, most - 1), _ANSWERS), max_size=2))
    for place, answer in places:
        if place < len(history) and history[place].answer is not None:
            history[place] = history[place]._replace(answer=answer)
    return start, history


@st.composite
def sales(draw: st.DrawFn) -> tuple[int, list[Operation]]:
    """A limit, and a history of activations; often one that can have been."""
    start, history = draw(histories(only="activate", are_known=False, overlap=6.0))
    assert start.limit is not None
    for place in draw(st.lists(st.integers(0, len(history) - 1), max_size=2)):
        if isinstance(history[place].answer, Done):
            value = draw(st.integers(1, start.limit + 1))
            label = frozenset({str(history[place].about)})
            history[place] = history[place]._replace(answer=Done(value, start.limit, label))
    return start.limit, history


def has_order(history: Sequence[Operation], start: License) -> bool:
    """Whether one of all orders of all that may have happened explains the answers: slow, and plain."""
    known = [one for one in history if one.answer is not None]
    unknown = [one for one in history if one.answer is None]
    return any(
        _explains(order, start)
        for bits in range(1 << len(unknown))
        for order in permutations(
            [*known, *(one for number, one in enumerate(unknown) if bits >> number & 1)]
        )
    )


def _explains(order: Sequence[Operation], license: License) -> bool:
    latest = -math.inf
    for one in order:
        if one.ended_at < latest:
            return False
        latest = max(latest, one.started_at)
        license, answer = carry_out(license, one)
        if one.answer not in (None, answer):
            return False
    return True
