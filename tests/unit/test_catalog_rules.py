"""Codes of products, e-mail addresses, and terms that are applied to a license."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from keywright.core.errors import ExpiresLater, InvalidParameters, NeverExpires, NoLimit
from keywright.core.parsing import MAX_COUNT
from keywright.licensing.licenses.rules import (
    apply_members,
    expiry_of_applied,
    is_renewed,
    multiply_members,
    raised_limit,
    require_later,
)
from keywright.licensing.terms.model import Meter, Period, Starts, Terms
from keywright.licensing.terms.rules import copy_terms, parse_term_name, select_terms
from keywright.provisioning.customers import CUSTOMER, change_note, parse_email, parse_language, read_note
from keywright.provisioning.products import (
    Feature,
    derive_code,
    parse_code,
    parse_feature,
    parse_feature_code,
    parse_url,
)
from tests.makers import KEY, LATER, NOW, a_license, a_license_with
from tests.tables import each_row


@each_row(
    ("name", "code"),
    [
        ("Paint", "paint"),
        ("  Éclair & Co. 2 ", "eclair-co-2"),
        ("x" * 100, "x" * 64),
        ("2026", None),
        ("日本", None),
        ("--", None),
    ],
)
def test_a_code_is_derived_from_a_name(name: str, code: str | None) -> None:
    assert derive_code(name) == code
    assert code is None or parse_code(code) == code


@each_row("text", ["", "17", "-a", "A", "a b", "x" * 65])
def test_no_other_text_is_the_code_of_a_product(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_code(text)


@pytest.mark.parametrize("text", ["javascript:alert(1)", "https://", "http://[x", "https://a b.example", "x"])
def test_no_other_text_is_the_address_of_a_product(text: str) -> None:
    assert parse_url("https://example.com/a?b") == "https://example.com/a?b"
    with pytest.raises(ValueError, match="must be an address"):
        parse_url(text)


def test_a_feature_may_be_a_number() -> None:
    assert parse_feature_code("17") == "17"


@each_row("text", ["", "a", "a@", "@b", "a@b@c", "a b@c", "a@\u200bb", "a@" + "b" * 320])
def test_no_other_text_is_an_email_address(text: str) -> None:
    with pytest.raises(ValueError, match="e-mail"):
        parse_email(text)


def test_white_space_around_an_email_address_is_cut_off() -> None:
    assert parse_email(" Ada@Example.com\n") == "Ada@Example.com"


@pytest.mark.parametrize(
    ("text", "language"), [("DE", "de"), ("pt_br", "pt-BR"), ("zh-hant-tw", "zh-Hant-TW"), ("ast", "ast")]
)
def test_a_language_is_written_in_one_way(text: str, language: str) -> None:
    assert parse_language(text) == language


@each_row("text", ["", "d", "german", "de-", "de DE", "dé"])
def test_what_is_no_language_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a language such as de or pt-BR$"):
        parse_language(text)


def test_applied_terms_take_the_place_of_the_named_ones_only() -> None:
    own = Terms(max_activations=3, meters={"a": Meter(1, Period.DAY)}, grace_days=5)
    source = Terms(max_activations=1, meters={"b": Meter(2, Period.YEAR)}, grace_days=9)
    applied = copy_terms(own, select_terms(source, ["max_activations", "meters"]))
    assert applied == Terms(max_activations=1, meters={"b": Meter(2, Period.YEAR)}, grace_days=5)


def test_an_unknown_term_is_refused_with_the_nearest_one() -> None:
    assert parse_term_name("grace_days") == "grace_days"
    with pytest.raises(ValueError, match="grace_days"):
        parse_term_name("grace_day")


def test_applied_terms_never_move_an_expiry() -> None:
    days = Terms(valid_for_days=10)
    assert expiry_of_applied(a_license(expires_at=LATER), days) == LATER
    assert expiry_of_applied(a_license(), days) == NOW + timedelta(days=10)
    first = Terms(valid_for_days=10, starts=Starts.FIRST_ACTIVATION)
    assert expiry_of_applied(a_license(), first) is None
    assert expiry_of_applied(a_license(), Terms()) is None


@pytest.mark.parametrize(
    ("metadata", "note"), [({}, ""), ({"note": "Pays late."}, "Pays late."), ({"note": [1], "x": 2}, "")]
)
def test_the_note_about_a_customer_is_a_text_of_the_metadata(metadata: dict[str, Any], note: str) -> None:
    assert read_note(CUSTOMER.make(id=7, metadata=metadata)) == note


def test_an_empty_note_is_none() -> None:
    assert change_note("Pays late.") == {"note": "Pays late."}
    assert change_note("") == change_note(None) == {"note": None}


def test_only_a_later_expiry_renews_a_license() -> None:
    license = a_license(expires_at=NOW)
    assert require_later(license, LATER) == LATER
    for expires_at in (NOW, NOW - timedelta(days=1)):
        with pytest.raises(ExpiresLater) as refusal:
            require_later(license, expires_at, "until")
        assert (refusal.value.key, refusal.value.field) == (KEY, "until")
    with pytest.raises(NeverExpires) as never:
        require_later(a_license(), LATER)
    assert never.value.key == KEY


@pytest.mark.parametrize(
    ("before", "after", "is_so"),
    [(NOW, LATER, True), (NOW, NOW, False), (LATER, NOW, False), (None, NOW, False), (NOW, None, False)],
)
def test_a_license_is_renewed_where_its_end_was_put_off(
    before: datetime | None, after: datetime | None, is_so: bool
) -> None:
    assert is_renewed(a_license(expires_at=before), a_license(expires_at=after)) is is_so


def test_a_limit_can_be_raised_up_to_the_highest() -> None:
    license = a_license(times_activated_max=3)
    assert [raised_limit(license, places) for places in (1, MAX_COUNT - 3)] == [4, MAX_COUNT]
    with pytest.raises(InvalidParameters) as refusal:
        raised_limit(license, MAX_COUNT - 2)
    assert refusal.value.reasons == {"places": f"the limit would be over {MAX_COUNT}"}
    with pytest.raises(NoLimit) as none:
        raised_limit(a_license(), 1)
    assert none.value.key == KEY


def test_limits_of_a_policy_are_for_each_unit_and_other_members_are_not() -> None:
    members = {"max_activations": 2, "max_leases": None, "grace_days": 9}
    assert multiply_members(members, 5) == {"max_activations": 10, "max_leases": None, "grace_days": 9}
    license = a_license_with({"max_activations": 1, "valid_for_days": 30}, quantity=5)
    applied = apply_members(license, members)
    assert (applied.terms, applied.kept) == (Terms(10, 30, grace_days=9), ())


def test_what_was_set_by_hand_is_kept_by_a_policy_unless_it_is_forced() -> None:
    by_hand = a_license_with({"max_activations": 7}, rule_terms='{"max_activations":1}')
    kept = apply_members(by_hand, {"max_activations": 2})
    assert (kept.terms.max_activations, kept.kept) == (7, ("max_activations",))
    forced = apply_members(by_hand, {"max_activations": 2}, is_forced=True)
    assert (forced.terms.max_activations, forced.kept) == (2, ())


def test_a_feature_is_a_code_with_or_without_a_name() -> None:
    assert parse_feature("layers = Layers") == Feature("layers", "Layers")
    assert parse_feature("layers") == parse_feature("layers =") == Feature("layers", None)
    with pytest.raises(ValueError, match="must have 1 to 64 of a-z, 0-9, '_'"):
        parse_feature("A B = x")
