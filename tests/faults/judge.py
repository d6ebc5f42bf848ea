"""Compare what programs were told with what the database holds."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.faults.installations import Store
from tests.faults.load import Call


class Verdict(NamedTuple):
    """Labels of calls that went wrong."""

    #: It was said to be done, and is not there.
    missing: list[str]
    #: It is there more than once.
    doubled: list[str]
    #: It is there, though every answer said that it was not carried out.
    denied: list[str]
    #: It is there, and nobody asked for it.
    strange: list[str]
    #: A careful program asked until the end, and never knew.
    undecided: list[str]


INNOCENT = Verdict([], [], [], [], [])


def judge_calls(journal: Iterable[Call], found: Mapping[str, int]) -> Verdict:
    """The verdict on these calls; ``found`` is how often each label is in the database."""
    calls = list(journal)
    times = {one.label: found.get(one.label, 0) for one in calls}
    return Verdict(
        missing=[one.label for one in calls if one.is_acknowledged and not times[one.label]],
        doubled=[label for label, number in times.items() if number > 1],
        denied=[
            one.label
            for one in calls
            if times[one.label] and not one.is_acknowledged and not one.may_have_happened
        ],
        strange=sorted(found.keys() - times.keys()),
        undecided=[one.label for one in calls if one.is_careful and not one.is_acknowledged],
    )


def assert_right(journal: list[Call], store: Store) -> None:
    """What was acknowledged is there exactly once, with the token that was told; nothing else happened."""
    found = store.sql("SELECT label, token FROM activations")
    assert judge_calls(journal, Counter(label for label, _ in found)) == INNOCENT
    tokens = dict(found)
    done = [call for call in journal if call.is_acknowledged]
    assert [one.label for one in done if one.activation["token"] != tokens[one.label]] == []
    counters = defaultdict(list)
    for call in done:
        reply = call.answers[-1].reply
        assert reply is not None
        counters[call.key].append(reply.data["timesActivated"])
    for values in counters.values():
        assert len(values) == len(set(values))
