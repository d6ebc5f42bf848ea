"""The drill's judge finds what is wrong. A check that cannot fail proves nothing."""

from dataclasses import replace
from typing import Any

import pytest

from drill.journal import Activation, Answer, Journal, LicenseKey
from drill.judge import NO_PLACE, Counted, Findings, Kept, Row, judge
from drill.outages import longest_gap, outage, percentile
from drill.report import Report
from drill.rounds import Round

LIMITED = LicenseKey(1, "LIMITED", 2)
UNLIMITED = LicenseKey(2, "UNLIMITED", None)

FIRST = Activation(LIMITED, "first", True, "done", token="t1", times_activated=1)
SECOND = Activation(LIMITED, "second", False, "done", token="t2", times_activated=2)
REFUSED = Activation(LIMITED, "late", True, "refused", message=f"404 License Key: LIMITED {NO_PLACE}")
GIVEN_UP = Activation(UNLIMITED, "back", True, "done", token="t3", times_activated=1, given_up="done")

ROWS = [
    Row(1, 11, "t1", "first", True),
    Row(1, 12, "t2", "second", True),
    Row(2, 13, "t3", "back", False),
]
ALL = [FIRST, SECOND, REFUSED, GIVEN_UP]


def a_journal(*activations: Activation) -> Journal:
    return Journal([LIMITED, UNLIMITED], list(activations))


def database(
    *rows: Row, counters: tuple[int, int] | None = None, events: dict[int, int] | None = None
) -> Kept:
    """What a database holds with these rows, whose counters and events are right unless they are given."""
    ours = counters or (number(rows, 1, active=True), number(rows, 2, active=True))
    licenses = [Counted(1, ours[0], 2), Counted(2, ours[1], None)]
    return Kept(licenses, list(rows), events or {id: number(rows, id) for id in (1, 2)})


def number(rows: tuple[Row, ...], id: int, *, active: bool = False) -> int:
    return sum(row.license_id == id and (row.is_active or not active) for row in rows)


def only(**found: list[str]) -> Findings:
    return Findings(**found)


def test_nothing_is_found_where_all_is_right() -> None:
    assert judge(a_journal(*ALL), database(*ROWS)) == Findings()


def test_an_acknowledged_activation_without_its_row_is_missing() -> None:
    found = judge(a_journal(FIRST, SECOND, GIVEN_UP), database(*ROWS[1:]))
    assert found == only(missing=["the activation first is gone"])


def test_an_activation_with_another_token_than_was_told_is_missing() -> None:
    found = judge(a_journal(*ALL), database(ROWS[0]._replace(token="other"), *ROWS[1:]))
    assert found == only(missing=["the activation first is gone"])


def test_an_acknowledged_deactivation_that_was_undone_is_missing() -> None:
    found = judge(a_journal(*ALL), database(*ROWS[:2], ROWS[2]._replace(is_active=True)))
    assert found == only(missing=["the deactivation of back is gone"])


def test_a_license_that_is_gone_is_missing() -> None:
    found = judge(a_journal(*ALL), database(*ROWS)._replace(licenses=[Counted(1, 2, 2)]))
    assert found == only(missing=["license 2 is gone"])


def test_a_label_with_two_rows_is_doubled() -> None:
    found = judge(a_journal(*ALL), database(*ROWS, Row(2, 14, "t4", "back", False)))
    assert found == only(doubled=["back has 2 places"])


def test_a_number_that_was_given_out_twice_is_doubled_whosever_it_is() -> None:
    found = judge(a_journal(*ALL), database(*ROWS, Row(99, 11, "t5", "of another round", True)))
    assert found == only(doubled=["2 activations have the number 11"])


def test_more_active_rows_than_places_are_over_the_limit() -> None:
    third = Activation(LIMITED, "third", True, "done", token="t6", times_activated=3)
    found = judge(a_journal(*ALL, third), database(*ROWS, Row(1, 16, "t6", "third", True)))
    assert found == only(over_limit=["license 1 has 3 of 2 places taken"])


def test_a_counter_that_is_not_the_number_of_active_rows_is_found() -> None:
    found = judge(a_journal(*ALL), database(*ROWS, counters=(1, 0)))
    assert found == only(miscounted=["license 1 counts 1, and has 2 active"])


def test_an_activation_without_its_event_is_found() -> None:
    found = judge(a_journal(*ALL), database(*ROWS, events={1: 1, 2: 1}))
    assert found == only(miscounted=["license 1 has 2 activations, and 1 events say so"])


def test_a_row_that_nobody_asked_for_is_found() -> None:
    found = judge(a_journal(*ALL), database(*ROWS, Row(2, 17, "t7", "who?", True)))
    assert found == only(unasked=["nobody asked for who?"])


@pytest.mark.parametrize("fate", ["refused", "failed"])
def test_a_row_of_a_call_that_was_said_not_to_be_carried_out_is_found(fate: Any) -> None:
    turned_away = Activation(UNLIMITED, "turned away", False, fate, message=f"503 {NO_PLACE}")
    found = judge(a_journal(*ALL, turned_away), database(*ROWS, Row(2, 18, "t8", "turned away", True)))
    assert found.unasked == [f"turned away was answered '503 {NO_PLACE}' and has a place"]


def test_a_place_that_was_given_up_without_being_asked_is_found() -> None:
    found = judge(a_journal(*ALL), database(ROWS[0]._replace(is_active=False), *ROWS[1:], counters=(1, 0)))
    assert found.unasked == ["first was given up, and nobody asked for that"]


def test_a_refusal_for_want_of_a_place_where_there_is_one_is_found() -> None:
    found = judge(a_journal(FIRST, REFUSED, GIVEN_UP), database(ROWS[0], ROWS[2]))
    assert found == only(misinformed=["late was refused for want of a place, and there are free ones"])


def test_any_other_refusal_is_found() -> None:
    odd = replace(REFUSED, message="422 This Idempotency-Key was used before.")
    found = judge(a_journal(FIRST, SECOND, GIVEN_UP, odd), database(*ROWS))
    assert found == only(misinformed=["late was refused: 422 This Idempotency-Key was used before."])


def test_a_refused_deactivation_of_an_active_place_is_found() -> None:
    stuck = replace(GIVEN_UP, given_up="refused", message="404 unknown")
    found = judge(
        a_journal(FIRST, SECOND, REFUSED, stuck), database(*ROWS[:2], ROWS[2]._replace(is_active=True))
    )
    assert found == only(misinformed=["back could not be given up: 404 unknown"])


def test_two_callers_with_the_same_place_are_found() -> None:
    found = judge(a_journal(FIRST, replace(SECOND, times_activated=1), REFUSED, GIVEN_UP), database(*ROWS))
    assert found == only(misinformed=["license 1 told 2 callers that theirs is place 1"])


def test_what_clients_saw_that_cannot_be_is_found() -> None:
    journal = a_journal(*ALL)
    journal.contradictions.append("odd")
    assert judge(journal, database(*ROWS)) == only(misinformed=["odd"])


@pytest.mark.parametrize("rows", [ROWS, ROWS[1:]])
def test_what_nobody_knows_may_be_there_or_not(rows: list[Row]) -> None:
    asked = [replace(FIRST, fate="unknown", token=""), SECOND, GIVEN_UP]
    assert judge(a_journal(*asked), database(*rows)) == Findings()


@pytest.mark.parametrize("is_active", [True, False])
def test_a_deactivation_that_nobody_knows_may_be_there_or_not(is_active: bool) -> None:
    asked = [FIRST, SECOND, replace(GIVEN_UP, given_up="unknown")]
    assert judge(a_journal(*asked), database(*ROWS[:2], ROWS[2]._replace(is_active=is_active))) == Findings()


def test_licenses_of_other_rounds_are_judged_with_theirs() -> None:
    others = Kept([Counted(99, 5, 1)], [Row(99, 40, "t9", "other", True)], {})
    here = database(*ROWS)
    both = Kept(here.licenses + others.licenses, here.activations + others.activations, here.activated_events)
    assert judge(a_journal(*ALL), both) == Findings()


# --- outages and the verdict ----------------------------------------------------------------------


def test_an_outage_begins_at_the_fault_and_ends_with_an_answer() -> None:
    assert longest_gap([9.0, 9.9, 13.0, 13.5], 10.0, 15.0) == 3.0


def test_an_outage_that_begins_later_counts_and_so_does_one_without_an_end() -> None:
    assert longest_gap([10.5, 11.0, 17.0], 10.0, 18.0) == 6.0
    assert longest_gap([10.5], 10.0, 18.0) == 7.5
    assert longest_gap([], 10.0, 18.0) == 8.0


def test_an_outage_is_that_of_the_instance_that_fares_worst_and_only_successes_end_it() -> None:
    journal = a_journal()
    journal.answers += [Answer(moment, "write", 0, "ok", 0.1) for moment in (11, 12, 13, 14)]
    journal.answers += [
        Answer(12, "write", 1, "503", 0.1),
        Answer(12, "read", 1, "ok", 0.1),
        Answer(14, "write", 1, "ok", 0.1),
    ]
    assert outage(journal, "write", 10, 15, range(2)) == 4
    assert outage(journal, "write", 10, 15, range(1)) == 1


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(20, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.95, 1.0)] == [10.0, 19.0, 20.0]
    assert percentile([7.0], 0.5) == 7.0


def report(*findings: Findings, is_synchronous: bool = True, trouble: str | None = None) -> Report:
    journal = a_journal()
    rounds = [Round("kill", 1.0, 1.0, 1.0, 1.0, 1, 0, journal.troubles(), one) for one in findings]
    return Report(is_synchronous, rounds, trouble)


@pytest.mark.parametrize("name", Findings.__struct_fields__)
def test_any_finding_fails_the_drill(name: str) -> None:
    assert not report(Findings(), Findings(**{name: ["something"]})).is_right


def test_a_drill_without_findings_is_right_if_it_came_to_its_end() -> None:
    assert report(Findings()).is_right
    assert not report(Findings(), trouble="no primary").is_right
    assert not report().is_right


def test_without_synchronous_replication_a_drill_must_lose_something() -> None:
    assert not report(Findings(), is_synchronous=False).is_right
    assert report(Findings(), Findings(missing=["a"]), is_synchronous=False).is_right


def test_without_synchronous_replication_nothing_is_doubled_either() -> None:
    assert not report(Findings(missing=["a"], doubled=["b"]), is_synchronous=False).is_right
