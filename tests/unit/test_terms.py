"""Terms: their texts in the database, and changes by merge patch."""

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from keywright.core.errors import FieldError, InvalidTerms
from keywright.core.parsing import MAX_COUNT
from keywright.licensing.terms import model, rules
from keywright.licensing.terms.model import (
    AfterExpiry,
    Allowance,
    DeviceRule,
    Meter,
    Overage,
    Period,
    Starts,
    Terms,
    Transferable,
    WhenFull,
)
from keywright.licensing.terms.rules import (
    copy_terms,
    merge_terms,
    multiply_terms,
    parse_policy_terms,
    parse_terms,
    policy_to_text,
    select_terms,
    set_by_hand,
    to_text,
    write_by_hand,
    write_by_rule,
)
from tests.tables import each_row

CODES = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,63}", fullmatch=True)
DAYS, SECONDS = st.integers(0, model.MAX_DAYS), st.integers(10, model.MAX_SECONDS)
LIMITS = st.none() | st.integers(1, MAX_COUNT)
ALLOWANCES, NEW_DEVICES = (
    st.none() | st.builds(Allowance, st.integers(1, most), st.integers(1, model.MAX_DAYS))
    for most in (MAX_COUNT, model.MAX_NEW_DEVICES)
)
METERS = st.builds(
    Meter, st.integers(0, rules.MAX_METER_LIMIT), st.sampled_from(Period), st.sampled_from(Overage)
)
TERMS = st.builds(
    Terms,
    max_activations=LIMITS,
    valid_for_days=LIMITS,
    starts=st.sampled_from(Starts),
    grace_days=DAYS,
    after_expiry=st.sampled_from(AfterExpiry),
    device=st.sampled_from(DeviceRule),
    max_leases=st.none() | st.integers(1, model.MAX_LEASES),
    lease_seconds=SECONDS,
    offline_days=DAYS,
    next_check_seconds=SECONDS,
    portal_removals=ALLOWANCES,
    new_devices=NEW_DEVICES,
    entitlements=st.lists(CODES, max_size=3, unique=True).map(tuple),
    meters=st.dictionaries(CODES, METERS, max_size=3),
    trial=st.booleans(),
    claimable=st.booleans(),
    transferable=st.sampled_from(Transferable),
    transfer_after_days=DAYS,
    when_full=st.sampled_from(WhenFull),
    unseen_days=st.integers(1, model.MAX_UNSEEN_DAYS),
    devices_visible=st.booleans(),
).map(lambda terms: copy_terms(terms, {}))
INTEGERS = {
    "max_activations": (1, MAX_COUNT),
    "valid_for_days": (1, MAX_COUNT),
    "grace_days": (0, 36_500),
    "max_leases": (1, 10_000),
    "lease_seconds": (10, 31_536_000),
    "offline_days": (0, 36_500),
    "next_check_seconds": (1, 31_536_000),
    "unseen_days": (1, 3_650),
}
CALLS = Meter(1000, Period.MONTH)


def errors_of(patch: dict[str, Any], terms: Terms | None = None) -> list[tuple[str, str]]:
    """Pointers and codes of what is wrong with a patch."""
    with pytest.raises(InvalidTerms) as refusal:
        merge_terms(terms or Terms(), patch)
    return [(one.pointer.removeprefix("/terms"), one.code) for one in refusal.value.errors]


@given(TERMS)
def test_terms_of_a_license_come_back_from_its_columns_as_they_were(terms: Terms) -> None:
    assert parse_terms(to_text(terms), terms.max_activations, terms.valid_for_days) == terms


@given(TERMS)
def test_terms_of_a_policy_come_back_from_its_column_as_they_were(terms: Terms) -> None:
    assert parse_policy_terms(policy_to_text(terms)) == terms


@given(TERMS, TERMS)
def test_a_patch_of_all_members_leaves_nothing_of_what_was(before: Terms, after: Terms) -> None:
    patch = json.decode(json.encode(after))
    patch["meters"] |= {name: None for name in before.meters if name not in after.meters}
    assert merge_terms(before, patch) == after


@given(TERMS)
def test_an_empty_patch_changes_nothing_and_nulls_restore_the_defaults(terms: Terms) -> None:
    assert merge_terms(terms, {}) == terms
    assert merge_terms(terms, dict.fromkeys(Terms.__struct_fields__)) == Terms()


def test_every_example_of_the_documents_is_a_value_that_is_kept_as_it_is() -> None:
    members = json.schema(Terms)["$defs"]["Terms"]["properties"]
    examples = {name: one["examples"][0] for name, one in members.items()}
    assert json.decode(json.encode(merge_terms(Terms(), examples))) == examples


def test_only_so_many_faults_are_named() -> None:
    many = {"entitlements": [""] * 100, "trial": 1, "grace_days": -1}
    assert len(errors_of(many)) == 100


def test_a_license_without_a_text_has_the_defaults_and_its_columns() -> None:
    assert parse_terms(None, 3, None) == Terms(max_activations=3)
    assert to_text(Terms(max_activations=3)) is None


@pytest.mark.parametrize("text", [None, '{"grace_days":7}'])
def test_days_are_counted_from_the_first_activation_where_a_text_does_not_say(text: str | None) -> None:
    assert parse_terms(text, None, 30).starts is Starts.FIRST_ACTIVATION
    assert parse_terms(text, None, None).starts is Starts.CREATION
    assert parse_terms('{"starts":"creation"}', None, 30).starts is Starts.CREATION
    assert parse_policy_terms('{"valid_for_days":30}').starts is Starts.CREATION


def test_texts_have_what_differs_from_the_defaults_sorted_by_name() -> None:
    terms = Terms(2, 30, Starts.FIRST_ACTIVATION, grace_days=7, meters={"b": CALLS, "a": CALLS})
    meter = '{"limit":1000,"overage":"refuse","per":"month"}'
    assert to_text(terms) == f'{{"grace_days":7,"meters":{{"a":{meter},"b":{meter}}}}}'
    assert policy_to_text(Terms(2, 30)) == '{"max_activations":2,"valid_for_days":30}'
    assert policy_to_text(Terms()) == "{}"


def test_members_of_a_newer_version_are_passed_over() -> None:
    assert parse_terms('{"colour":"red","trial":true}', None, None) == Terms(trial=True)
    assert parse_policy_terms('{"colour":"red"}') == Terms()


def test_terms_of_the_same_columns_are_parsed_once() -> None:
    assert parse_terms('{"trial":true}', 1, 2) is parse_terms('{"trial":true}', 1, 2)


@each_row(("name", "least", "most"), [(name, *pair) for name, pair in INTEGERS.items()])
def test_an_integer_of_terms_has_a_range(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(merge_terms(Terms(), {name: value}), name) == value
    for value, code in ((least - 1, "too_small"), (most + 1, "too_large")):
        assert errors_of({name: value}) == [(f"/{name}", code)]
    odds: list[Any] = [True, 1.0, "1", [], {}]
    for odd in odds:
        assert errors_of({name: odd}) == [(f"/{name}", "wrong_type")]


@pytest.mark.parametrize(
    ("name", "words"), [("starts", Starts), ("after_expiry", AfterExpiry), ("device", DeviceRule)]
)
def test_a_choice_is_one_of_its_words(name: str, words: type[StrEnum]) -> None:
    for word in words:
        assert getattr(merge_terms(Terms(), {name: word.value}), name) is word
    for odd in ("", next(iter(words)).name, 1):
        assert errors_of({name: odd}) == [(f"/{name}", "invalid")]


@pytest.mark.parametrize("value", [0, 1, "true", "", []])
def test_a_boolean_is_true_or_false(value: Any) -> None:
    assert merge_terms(Terms(), {"trial": True}).trial
    assert errors_of({"trial": value}) == [("/trial", "wrong_type")]


@pytest.mark.parametrize("name", ["portal_removals", "new_devices"])
def test_an_allowance_is_merged_member_by_member(name: str) -> None:
    terms = merge_terms(Terms(), {name: {"count": 2, "per_days": 30}})
    assert getattr(terms, name) == Allowance(2, 30)
    assert getattr(merge_terms(terms, {name: {"count": 3}}), name) == Allowance(3, 30)
    assert errors_of({name: {"count": 3}}) == [(f"/{name}/per_days", "missing")]
    assert errors_of({name: {"count": None}}, terms) == [(f"/{name}/count", "missing")]
    assert errors_of({name: {"per_days": 0, "days": 1}}, terms) == [
        (f"/{name}/per_days", "too_small"),
        (f"/{name}/days", "unknown"),
    ]
    assert errors_of({name: 3}) == [(f"/{name}", "wrong_type")]


def test_a_customer_may_be_allowed_no_removal_but_some_device_must_be_new() -> None:
    assert merge_terms(Terms(), {"portal_removals": {"count": 0, "per_days": 1}}).portal_removals
    assert errors_of({"new_devices": {"count": 0, "per_days": 1}}) == [("/new_devices/count", "too_small")]


@pytest.mark.parametrize("code", ["a", "0", "pro", "a_b.c-d", "9" * 64])
def test_an_entitlement_is_a_code(code: str) -> None:
    assert merge_terms(Terms(), {"entitlements": [code]}).entitlements == (code,)


@each_row("code", ["", "A", "_a", "-", ".", "a b", "ä", "a" * 65, "a\n", 1, None, []])
def test_what_is_no_code_cannot_be_an_entitlement(code: Any) -> None:
    assert errors_of({"entitlements": ["ok", code]}) == [("/entitlements/1", "invalid")]


def test_entitlements_are_replaced_whole_and_there_are_a_hundred_at_most_without_doubles() -> None:
    hundred = [f"code-{number}" for number in range(100)]
    terms = merge_terms(Terms(entitlements=("old",)), {"entitlements": hundred})
    assert terms.entitlements == tuple(hundred)
    assert errors_of({"entitlements": [*hundred, "one-more"]}) == [("/entitlements", "too_long")]
    assert errors_of({"entitlements": ["a", "b", "a"]}) == [("/entitlements/2", "duplicate")]
    assert errors_of({"entitlements": "pro"}) == [("/entitlements", "wrong_type")]


def test_meters_are_merged_and_null_removes_one() -> None:
    terms = Terms(meters={"calls": CALLS, "pages": CALLS})
    patch = {"calls": None, "pages": {"overage": "allow"}, "files": {"limit": 0, "per": "day"}}
    assert merge_terms(terms, {"meters": patch}).meters == {
        "pages": Meter(1000, Period.MONTH, Overage.ALLOW),
        "files": Meter(0, Period.DAY),
    }
    assert merge_terms(terms, {"meters": {"never": None}}) == terms
    assert merge_terms(terms, {"meters": None}) == Terms()


def test_a_meter_needs_a_name_like_a_code_a_limit_and_a_period() -> None:
    patch = {"Calls": {"limit": 1, "per": "day"}, "a": {"per": "week"}, "b": 5, "c": {"limit": -1}}
    assert errors_of({"meters": patch}) == [
        ("/meters/Calls", "invalid"),
        ("/meters/a/per", "invalid"),
        ("/meters/a/limit", "missing"),
        ("/meters/b", "wrong_type"),
        ("/meters/c/limit", "too_small"),
        ("/meters/c/per", "missing"),
    ]
    assert errors_of({"meters": []}) == [("/meters", "wrong_type")]


def test_a_license_has_twenty_meters_at_most() -> None:
    meter = {"limit": 1, "per": "day"}
    twenty = merge_terms(Terms(), {"meters": {f"m{number}": meter for number in range(20)}})
    assert len(twenty.meters) == 20
    assert errors_of({"meters": {"another": meter}}, twenty) == [("/meters", "too_long")]
    assert len(merge_terms(twenty, {"meters": {"another": meter, "m0": None}}).meters) == 20


def test_an_unknown_member_is_told_the_nearest_known_name() -> None:
    with pytest.raises(InvalidTerms) as refusal:
        merge_terms(Terms(), {"max_activation": 3, "a/b~c": None, "x" * 10_000: 1})
    assert refusal.value.errors == (
        FieldError(
            "/terms/max_activation", "unknown", "is unknown; the nearest known name is max_activations"
        ),
        FieldError("/terms/a~1b~0c", "unknown", "is unknown"),
        FieldError("/terms/" + "x" * 200, "unknown", "is unknown"),
    )


def test_all_faults_are_told_at_once_but_a_hundred_at_most() -> None:
    assert errors_of({"grace_days": -1, "trial": 1, "device": "maybe"}) == [
        ("/grace_days", "too_small"),
        ("/trial", "wrong_type"),
        ("/device", "invalid"),
    ]
    assert len(errors_of({f"unknown-{number}": 1 for number in range(200)})) == 100


def test_an_object_of_any_depth_is_refused_like_another_wrong_value() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"limit": deep}
    assert (
        errors_of({"meters": {"a": {"limit": deep, "per": "day"}}, "trial": deep})
        == [
            ("/trial", "wrong_type"),
            ("/meters/a/limit", "wrong_type"),
        ][::-1]
    )
    while deep:
        deep = deep["limit"]


def test_faults_of_terms_are_told_in_one_sentence() -> None:
    errors = (FieldError("/terms/trial", "wrong_type", "must be true or false"),) * 2
    assert InvalidTerms(errors).fill("{errors_in_words}") == (
        "trial must be true or false; trial must be true or false"
    )


def test_terms_that_an_older_version_has_written_are_read_by_their_new_names() -> None:
    old, allowed = '{"portal_releases":{"count":2,"per_days":7}}', Allowance(2, 7)
    members = {"portal_releases": {"count": 2, "per_days": 7}}
    found = (parse_terms(old, None, None), parse_policy_terms(old), copy_terms(Terms(), members))
    assert [one.portal_removals for one in found] == [allowed] * 3
    assert set_by_hand(old) == {"portal_removals": {"count": 2, "per_days": 7}}
    assert to_text(found[0]) == '{"portal_removals":{"count":2,"per_days":7}}'


def test_a_member_that_needs_another_one_is_refused_without_it() -> None:
    removals = {"portal_removals": {"count": 1, "per_days": 30}}
    wrong: list[tuple[dict[str, Any], Terms, tuple[str, str]]] = [
        ({"when_full": "replace_unseen"}, Terms(), ("/unseen_days", "missing")),
        ({"devices_visible": True}, Terms(), ("/devices_visible", "invalid")),
        (
            {"unseen_days": None},
            Terms(when_full=WhenFull.REPLACE_UNSEEN, unseen_days=9),
            ("/unseen_days", "missing"),
        ),
        (
            dict.fromkeys(removals),
            merge_terms(Terms(), removals | {"devices_visible": True}),
            ("/devices_visible", "invalid"),
        ),
    ]
    for patch, before, error in wrong:
        assert errors_of(patch, before) == [error]
    new = {"new_devices": {"count": 1, "per_days": 30}}
    for allowance in (removals, new):
        assert merge_terms(Terms(), allowance | {"devices_visible": True}).devices_visible
    healing = merge_terms(Terms(), {"when_full": "replace_unseen", "unseen_days": 90})
    assert select_terms(healing, ["when_full"]) == {"when_full": "replace_unseen", "unseen_days": 90}


def test_terms_that_a_rule_writes_leave_no_member_without_the_one_that_it_needs() -> None:
    members = {"when_full": "replace_unseen", "devices_visible": True}
    assert copy_terms(Terms(), members) == Terms()
    together = members | {"unseen_days": 9, "new_devices": {"count": 1, "per_days": 2}}
    assert select_terms(copy_terms(Terms(), together), together) == together


_A_CODE = "must have 1 to 64 of a-z, 0-9, '_', '.', '-', and begin with a letter or a digit"


def test_every_fault_has_a_sentence_that_says_what_would_be_right() -> None:
    wrong: dict[str, Any] = {
        "max_activations": 0,
        "new_devices": {"count": model.MAX_NEW_DEVICES + 1},
        "portal_removals": 5,
        "trial": 1,
        "device": "maybe",
        "when_full": "replace_unseen",
        "entitlements": ["a b", "a", "a"],
        "meters": {"A": {"limit": 1, "per": "day"}, "b": {"per": "day"}, "c": 1},
    }
    with pytest.raises(InvalidTerms) as refusal:
        merge_terms(Terms(), wrong)
    assert [(one.pointer.removeprefix("/terms"), one.detail) for one in refusal.value.errors] == [
        ("/max_activations", "must be an integer from 1 to 2,147,483,647"),
        ("/new_devices/count", "must be an integer from 1 to 1,000"),
        ("/new_devices/per_days", "is missing"),
        ("/portal_removals", "must be an object"),
        ("/trial", "must be true or false"),
        ("/device", "must be optional or required"),
        ("/entitlements/0", _A_CODE),
        ("/entitlements/2", "is a duplicate"),
        ("/meters/A", f"the name {_A_CODE}"),
        ("/meters/b/limit", "is missing"),
        ("/meters/c", "must be an object"),
    ]
    for value, detail in (
        ({"entitlements": "a"}, "must be an array of codes"),
        ({"entitlements": [f"a{number}" for number in range(101)]}, "must have at most 100 codes"),
        ({"meters": []}, "must be an object of meters"),
        ({"meters": {f"m{number}": {} for number in range(21)}}, "must have at most 20 meters"),
        ({"when_full": "replace_unseen"}, "is missing: replace_unseen requires it"),
        (
            {"devices_visible": True},
            "requires portal_removals or new_devices, which limit how often devices change",
        ),
    ):
        with pytest.raises(InvalidTerms) as refusal:
            merge_terms(Terms(), value)
        assert [one.detail for one in refusal.value.errors] == [detail]


def test_limits_are_for_each_unit_and_stay_without_one() -> None:
    terms = Terms(max_activations=2, max_leases=3, grace_days=7)
    assert multiply_terms(terms, 5) == Terms(max_activations=10, max_leases=15, grace_days=7)
    assert multiply_terms(Terms(grace_days=7), 5) == Terms(grace_days=7)
    with pytest.raises(InvalidTerms):
        multiply_terms(terms, MAX_COUNT)


def test_what_is_set_by_hand_is_recorded_with_the_value_that_a_rule_last_wrote() -> None:
    ruled = Terms(max_activations=2, grace_days=7, trial=True)
    by_hand = Terms(max_activations=5, grace_days=9, trial=True)
    record = write_by_hand(ruled, by_hand, None)
    assert record == '{"grace_days":7,"max_activations":2}'
    # Set again by hand, what the rule wrote stays recorded; set back to it, nothing is.
    assert write_by_hand(by_hand, Terms(6, grace_days=9, trial=True), record) == record
    assert write_by_hand(by_hand, Terms(5, grace_days=7, trial=True), record) == '{"max_activations":2}'
    assert write_by_hand(by_hand, ruled, record) is None
    assert write_by_hand(ruled, ruled, None) is None


def test_a_rule_leaves_what_is_set_by_hand_unless_it_is_forced() -> None:
    by_hand = Terms(max_activations=5, grace_days=9)
    record = '{"grace_days":7,"max_activations":2}'
    written = write_by_rule(by_hand, record, {"max_activations": 4, "offline_days": 3})
    assert written == (Terms(5, grace_days=9, offline_days=3), ("max_activations",), record)
    # To write what is there already keeps nothing, and what is written is no longer set by hand.
    same = write_by_rule(by_hand, record, {"max_activations": 5})
    assert same == (by_hand, (), '{"grace_days":7}')
    forced = write_by_rule(by_hand, record, {"max_activations": 4}, is_forced=True)
    assert forced == (Terms(4, grace_days=9), (), '{"grace_days":7}')
    assert write_by_rule(by_hand, None, {"max_activations": 4}) == (Terms(4, grace_days=9), (), None)
