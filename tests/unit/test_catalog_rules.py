"""Codes of products, e-mail addresses, and terms that are applied to a license."""

from datetime import timedelta
from typing import Any

import pytest

from keywright.licensing.licenses.rules import expiry_of_applied
from keywright.licensing.terms.model import Meter, Period, Starts, Terms
from keywright.licensing.terms.rules import copy_terms, parse_term_name, select_terms
from keywright.provisioning.customers.commands import CUSTOMER
from keywright.provisioning.customers.fields import parse_email, parse_language
from keywright.provisioning.customers.rules import change_note, read_note
from keywright.provisioning.products.fields import derive_code, parse_code, parse_feature_code, parse_url
from tests.makers import LATER, NOW, a_license


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("text", ["", "17", "-a", "A", "a b", "x" * 65])
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


@pytest.mark.parametrize("text", ["", "a", "a@", "@b", "a@b@c", "a b@c", "a@\u200bb", "a@" + "b" * 320])
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


@pytest.mark.parametrize("text", ["", "d", "german", "de-", "de DE", "dé"])
def test_what_is_no_language_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a language such as de or pt-BR"):
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
