"""Commits whose fate is unknown: connections that end around a COMMIT."""

import random
from collections import Counter
from contextlib import closing

import pytest

from keywright.db import open_storage, run_read
from keywright.licensing.licenses import store as license_store
from tests.faults.installations import KEY_RING, Database, rounds
from tests.faults.judge import INNOCENT, assert_right, judge_calls
from tests.faults.load import MIXED, Call, Programs, assert_answers_in_shape, run_load
from tests.faults.proxy import CHANGES, Place, Proxy
from tests.proving import record
from tests.server import RunningServer

pytestmark = pytest.mark.tier("ordinary")

CUTS = 20
PLAIN = Programs(careful=0, plain=6)
HASTY = Programs(careful=0, plain=0, hasty=8)


def cut_under_load(
    server: RunningServer, store: Database, proxy: Proxy, places: list[Place], programs: Programs
) -> list[Call]:
    """What the programs were told while connections were cut at these places, one after the other."""
    with run_load(server, store.keys, programs) as load:
        for place in places:
            proxy.cut(place)
            # Somebody works again on a new connection.
            load.wait_for_successes(5)
        return load.finish()


@rounds(25)
def test_a_cut_commit_is_neither_doubled_nor_acknowledged_falsely(
    distant: RunningServer, store: Database, proxy: Proxy, round_number: int
) -> None:
    places = [CHANGES[number % len(CHANGES)] for number in range(CUTS)]
    random.shuffle(places)
    journal = cut_under_load(distant, store, proxy, places, MIXED)
    assert proxy.cuts == places
    told = Counter(answer.status for call in journal for answer in call.answers)
    verdict = judge_calls(journal, store.labels())
    record(
        "R10",
        "postgresql",
        counted={
            "cut commits": len(proxy.cuts),
            "calls": len(journal),
            "acknowledged": sum(call.is_acknowledged for call in journal),
            "answers that the fate is unknown, or none": sum(
                one.is_open for call in journal for one in call.answers
            ),
            "doubled": len(verdict.doubled),
            "acknowledged and missing": len(verdict.missing),
            "carried out though denied": len(verdict.denied),
        },
    )
    # What was cut before its COMMIT was decided again; of the others, somebody was told each time.
    assert told[503] >= CUTS * 4 // 5
    assert {call.answers[0].status for call in journal if call.is_careful} == {200, 503}
    assert_answers_in_shape(journal)
    assert_right(journal, store)


def test_the_judge_finds_a_program_that_takes_an_unknown_fate_for_success(
    distant: RunningServer, store: Database, proxy: Proxy
) -> None:
    places = [Place.BEFORE, Place.AFTER] * 3
    journal = cut_under_load(distant, store, proxy, places, PLAIN)
    open_calls = [call for call in journal if call.may_have_happened]
    done = next(call for call in journal if call.is_acknowledged)
    assert judge_calls(journal, store.labels()) == INNOCENT
    for call in open_calls:
        call.answers = done.answers
    missing = judge_calls(journal, store.labels()).missing
    found = {"unknown fates": len(open_calls), "found missing": len(missing)}
    record("R10", "control: a program that takes an unknown fate for success", found)
    assert missing
    assert set(missing) <= {call.label for call in open_calls}


def test_the_judge_finds_a_program_that_asks_again_without_an_idempotency_key(
    distant: RunningServer, store: Database, proxy: Proxy
) -> None:
    # A cut may meet a change that the server has given itself.
    journal = cut_under_load(distant, store, proxy, [Place.AFTER] * 12, HASTY)
    open_calls = {call.label for call in journal if call.may_have_happened}
    doubled = judge_calls(journal, store.labels()).doubled
    found = {"unknown fates": len(open_calls), "found doubled": len(doubled)}
    record("R10", "control: a program that asks again without an Idempotency-Key", found)
    assert set(doubled) == open_calls
    assert len(open_calls) >= 2


def test_the_judge_finds_what_is_there_though_it_was_denied(distant: RunningServer, store: Database) -> None:
    with run_load(distant, store.keys) as load:
        journal = load.finish()
    lost, *_ = journal
    lost.answers = []
    assert judge_calls(journal, store.labels()).denied == [lost.label]
    assert judge_calls(journal[1:], store.labels()).strange == [lost.label]


def test_a_question_whose_end_is_cut_is_asked_again(store: Database, proxy: Proxy) -> None:
    url = store.server.url(store.name, port=proxy.port)
    with closing(open_storage(url, KEY_RING)) as storage:
        proxy.arm(Place.QUESTION)
        found = run_read(storage, lambda tx: license_store.find_licenses(tx, store.keys))
    assert (set(found), proxy.cuts) == (set(store.keys), [Place.QUESTION])


def test_what_is_cut_before_its_commit_is_decided_again(
    distant: RunningServer, store: Database, proxy: Proxy
) -> None:
    journal = cut_under_load(distant, store, proxy, [Place.STATEMENT] * 5, PLAIN)
    assert {answer.status for call in journal for answer in call.answers} == {200}
    assert_right(journal, store)
