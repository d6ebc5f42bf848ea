"""The pages about policies: key formats, terms, sample keys, and generating licenses."""

import json
import re
from html import unescape
from typing import Any

import pytest
from msgspec.structs import fields as fields_of_struct

from keywright.licensing.licenses.keys import UNAMBIGUOUS
from keywright.licensing.terms.model import Terms
from keywright.provisioning.products import Feature, NameKind
from tests.http.admin_browser import Visitor, decide, said
from tests.http.admin_licenses import a_number, last_event
from tests.makers import create_policy, create_product, generate, save_name
from tests.server import wait_until
from tests.tables import each_row

DATABASES = ("sqlite",)

GOOD = {
    "charset": "0123456789ABCDEF",
    "chunks": "4",
    "chunk_length": "5",
    "separator": "-",
    "max_activations": "1",
}
WEAK = GOOD | {"chunks": "2", "chunk_length": "4"}
_KEY = re.compile(r'<code class="key">([^<]*)</code>')
_SCRIPT = {"X-Requested-With": "keywright"}


def id_of(visitor: Visitor, name: str) -> int:
    ((number,),) = visitor.server.sql("SELECT id FROM policies WHERE name = ?", name)
    return int(number)


def a_policy(visitor: Visitor, name: str, **fields: Any) -> int:
    usual = {"chunk_length": 5, "separator": "-"}
    return int(decide(visitor.server, create_policy(name=name, **usual | fields))[0].id)


def a_meter(name: str, limit: str, per: str = "month") -> dict[str, str]:
    return {"meter_name": name, "meter_limit": limit, "meter_per": per, "meter_overage": "refuse"}


def two_meters(*names: str) -> dict[str, list[str]]:
    return {name: [value, value] for name, value in a_meter("", "1").items()} | {"meter_name": [*names]}


def a_product(visitor: Visitor, *features: str, **fields: Any) -> int:
    number, given = a_number(), [Feature(code=one, name=one.title()) for one in features]
    decide(visitor.server, create_product(number, features=given, **fields))
    return number


def sent_fields(page: str) -> dict[str, Any]:
    """The fields that a browser sends for the unchanged form of a policy, without the idempotency value."""
    form = page.partition("data-preview-url")[2].partition("</form>")[0]
    fields: dict[str, list[str]] = {}
    for tag in re.findall(r"<input [^>]*>", form):
        found = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if found.get("type") != "checkbox" or " checked" in tag:
            fields.setdefault(found["name"], []).append(unescape(found.get("value", "")))
    for name, options in re.findall(r'<select[^>]* name="(\w+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.findall(r'value="([^"]*)" selected', options) or re.findall(r'value="([^"]*)"', options)
        fields.setdefault(name, []).append(chosen[0])
    fields.pop("csrf_token")
    fields.pop("once")
    return dict(fields)


def test_a_policy_is_made_with_what_was_typed(ada: Visitor) -> None:
    fields = {"prefix": "LS ", "suffix": "-X", "max_activations": "3", "valid_for_days": "365"}
    product = a_number()
    decide(ada.server, create_product(product, name=f"Lumen {product}"))
    fields |= {"starts": "first_activation", "product_id": str(product)}
    answer = ada.post("/policies/new", name="Studio", **GOOD | fields)
    assert answer.headers["location"] == "/admin/policies"
    columns = "charset, chunks, chunk_length, separator, prefix, suffix, terms"
    (row,) = ada.server.sql(f"SELECT {columns} FROM policies WHERE name = 'Studio'")  # noqa: S608
    terms = '{"max_activations":3,"starts":"first_activation","valid_for_days":365}'
    assert row == ("0123456789ABCDEF", 4, 5, "-", "LS ", "-X", terms)
    page = said(ada.get("/policies"))
    assert "The policy Studio was created." in page
    assert re.search(
        rf"Studio Lumen {product} LS ([0-9A-F]{{5}}-){{3}}[0-9A-F]{{5}}-X good 80 bits 3 365 days", page
    )
    recorded = f'{{"policy_id":{id_of(ada, "Studio")},"policy":"Studio","product_id":{product}}}'
    assert last_event(ada, "policy.created") == recorded


def test_a_new_policy_begins_with_very_good_keys(ada: Visitor) -> None:
    answer = ada.get("/policies/new")
    assert f'value="{UNAMBIGUOUS}"' in answer.text
    assert "very good 150 random bits" in said(answer)
    assert len(set(_KEY.findall(answer.text))) == 5


def test_keys_are_shown_while_they_are_described(ada: Visitor) -> None:
    for chunks, words in (("3", "weak 60"), ("4", "good 80"), ("7", "very good 140")):
        fields = GOOD | {"chunks": chunks, "prefix": "A<B-"}
        answer = ada.post("/policies/preview", headers=_SCRIPT, **fields)
        assert (answer.status_code, "<html" in answer.text) == (200, False)
        keys = {unescape(key) for key in _KEY.findall(answer.text)}
        assert len(keys) == 5
        assert all(re.fullmatch(rf"A<B(-[0-9A-F]{{5}}){{{chunks}}}", key) for key in keys)
        assert f"{words} random bits" in said(answer)


def test_what_makes_no_keys_shows_none(ada: Visitor) -> None:
    for fields in (GOOD | {"chunks": "x"}, GOOD | {"chunk_length": "2000000000"}, GOOD | {"suffix": " "}, {}):
        answer = ada.post("/policies/preview", headers=_SCRIPT, **fields)
        assert answer.status_code == 200
        assert "No key can be made from these fields." in said(answer)


def test_without_a_program_in_the_browser_a_button_shows_the_keys(ada: Visitor) -> None:
    before = ada.server.count("policies")
    number = a_policy(ada, "Shown")
    for path in ("/policies/new", f"/policies/{number}/edit"):
        answer = ada.post(path, **WEAK | {"preview": "yes", "prefix": "KEPT-", "name": ""})
        assert answer.status_code == 200
        assert "weak 32 random bits" in said(answer)
        assert 'value="KEPT-"' in answer.text
        assert _KEY.findall(answer.text)[0].startswith("KEPT-")
    assert ada.server.count("policies") == before + 1


@each_row(
    ("fields", "complaint"),
    [
        ({"name": ""}, "This field is required."),
        ({"name": "x" * 201}, "It must be a text of at most 200 characters"),
        ({"charset": "AB "}, "It must have no spaces."),
        ({"chunks": "many"}, "It must be a whole number from 1"),
        ({"chunk_length": "100"}, "The keys would have 403 characters; the maximum is 255."),
        ({"max_activations": ""}, "Type how many devices, or choose no limit."),
        ({"valid_for_days": "soon"}, "It must be an integer from 0"),
        ({"grace_days": "99999"}, "It must be an integer from 0 to 36,500."),
        ({"starts": "now", "valid_for_days": "1"}, "It must be creation or first_activation."),
        ({"portal_removals_count": "1"}, "Type both numbers, or none."),
        ({"when_full": "replace_unseen"}, "It is missing: replace_unseen requires it."),
        ({"devices_visible": "yes"}, "It requires portal_removals or new_devices"),
        ({"entitlements": "pro"}, "pro is not a feature of this product."),
        (a_meter("exports", ""), "exports"),
        (two_meters("a", "a"), "a appears twice"),
        ({"product_id": "x"}, "It is neither an ID nor a name."),
        (WEAK, "These keys could be guessed: they have 32 bits, but need at least 64."),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_saved(
    ada: Visitor, fields: dict[str, str], complaint: str
) -> None:
    before = ada.server.count("policies")
    answer = ada.post("/policies/new", **{"name": "Wrong", **GOOD} | fields)
    assert answer.status_code == 422
    assert complaint in said(answer)
    assert ada.server.count("policies") == before


def test_weak_keys_have_to_be_wanted_each_time(ada: Visitor) -> None:
    assert ada.post("/policies/new", name="Weak", **WEAK).status_code == 422
    assert ada.post("/policies/new", name="Weak", **WEAK, is_weak_allowed="yes").status_code == 303
    number = id_of(ada, "Weak")
    fields = WEAK | {"name": "Weak", "prefix": "W"}
    assert ada.post(f"/policies/{number}/edit", **fields).status_code == 422
    assert ada.post(f"/policies/{number}/edit", **fields, is_weak_allowed="yes").status_code == 303
    assert re.search(r"Weak — W[0-9A-F]{4}-[0-9A-F]{4} weak 32 bits", said(ada.get("/policies")))


def test_only_what_is_changed_changes(ada: Visitor) -> None:
    number = a_policy(ada, "Before", separator=" ", terms={"max_activations": 2})
    form = ada.get(f"/policies/{number}/edit")
    assert 'name="separator"' in form.text
    kept = GOOD | {"separator": " ", "max_activations": "2"}
    kept |= {"valid_for_days": "30", "starts": "first_activation"}
    ada.post(f"/policies/{number}/edit", name="After", **kept)
    assert "The policy After was changed." in said(ada.get("/policies"))
    assert last_event(ada, "policy.updated") == (
        f'{{"policy_id":{number},"policy":"After","name":["Before","After"],"starts":["creation","first_activation"],"valid_for_days":[null,30]}}'
    )
    before = ada.server.count("events")
    ada.post(f"/policies/{number}/edit", name="After", **kept)
    assert "The policy After was not changed." in said(ada.get("/policies"))
    assert ada.server.count("events") == before


EVERY_TERM = {
    "max_activations": "3",
    "device": "required",
    "new_devices_count": "5",
    "new_devices_per_days": "30",
    "portal_removals_count": "2",
    "portal_removals_per_days": "7",
    "valid_for_days": "365",
    "starts": "first_activation",
    "grace_days": "14",
    "after_expiry": "older_versions",
    "trial": "yes",
    "claimable": "yes",
    "transferable": "always",
    "transfer_after_days": "0",
    "when_full": "replace_unseen",
    "unseen_days": "90",
    "devices_visible": "yes",
    "max_leases": "5",
    "lease_seconds": "300",
    "offline_days": "30",
    "next_check_seconds": "3600",
    "entitlements": ["pro", "export"],
    "channels": "beta nightly",
    "uncounted_hosts": "localhost *.test",
    "max_uncounted": "3",
    "meter_name": ["exports", "minutes", ""],
    "meter_limit": ["100", "9", ""],
    "meter_per": ["month", "license", "month"],
    "meter_overage": ["refuse", "allow", "refuse"],
}


def test_a_policy_has_every_term(ada: Visitor) -> None:
    product = a_product(ada, "pro", "export")
    ada.post("/policies/new", name="All", product_id=str(product), **GOOD | EVERY_TERM)
    number = id_of(ada, "All")
    ((text,),) = ada.server.sql("SELECT terms FROM policies WHERE id = ?", number)
    terms = json.loads(text)
    assert set(terms) == {one.name for one in fields_of_struct(Terms)}
    assert terms["portal_removals"] == {"count": 2, "per_days": 7}
    assert terms["entitlements"] == ["pro", "export"]
    assert terms["channels"] == ["beta", "nightly"]
    assert (terms["uncounted_hosts"], terms["max_uncounted"]) == (["localhost", "*.test"], 3)
    assert terms["meters"]["minutes"] == {"limit": 9, "per": "license", "overage": "allow"}
    form = ada.get(f"/policies/{number}/edit").text
    for shown in (
        'value="30" id="field-new_devices_per_days"',
        'value="older_versions" selected',
        'value="minutes" id="meter-name-2"',
        '<option value="license" selected',
        "checked",
    ):
        assert shown in form
    assert "3 devices, 5 at the same time" in said(ada.get(f"/policies/{number}/generate"))
    ada.post(f"/policies/{number}/edit", name="All", **GOOD | a_meter("minutes", "9", "license"))
    ((text,),) = ada.server.sql("SELECT terms FROM policies WHERE id = ?", number)
    assert list(json.loads(text)) == ["max_activations", "meters"]
    assert list(json.loads(text)["meters"]) == ["minutes"]


def test_a_beginning_and_a_save_make_a_policy_of_the_product(ada: Visitor) -> None:
    """From the product's page: the link, a preset, Save."""
    product = a_product(ada, "pro", name="Lumen & Söhne")
    expected = {
        "perpetual": {"max_activations": 1},
        "yearly": {"max_activations": 1, "valid_for_days": 365},
        "subscription": {"max_activations": 1, "valid_for_days": 365, "grace_days": 14},
        "trial": {"max_activations": 1, "valid_for_days": 14, "trial": True, "device": "required"},
        "floating": {"valid_for_days": 365, "max_leases": 5},
        "usage": {
            "max_activations": 1,
            "valid_for_days": 365,
            "meters": {"calls": {"limit": 1000, "per": "month", "overage": "refuse"}},
        },
    }
    page = ada.get(f"/products/{product}").text
    form = ada.get(re.findall(rf'/admin(/policies/new\?product_id={product})"', page)[0]).text
    found = {}
    for begin in expected:
        assert f"/policies/new?begin={begin}&amp;product_id={product}" in form
        fields = sent_fields(ada.get(f"/policies/new?begin={begin}&product_id={product}").text)
        assert ada.post("/policies/new", **fields).status_code == 303
        query = "SELECT name, product_id, terms FROM policies ORDER BY id DESC LIMIT 1"
        ((name, number, terms),) = ada.server.sql(query)
        assert (name.lower(), number) == (begin, product)
        found[begin] = json.loads(terms)
    assert found == expected
    assert sent_fields(form) == sent_fields(ada.get(f"/policies/new?begin=yearly&product_id={product}").text)


def test_a_product_is_named_in_any_case_or_by_its_code_and_features_are_its_own(ada: Visitor) -> None:
    product = a_product(ada, "pro", name="Brush Works", code="brush")
    for text in ("brush works", "BRUSH", str(product)):
        answer = ada.post("/policies/new", name=text, product_id=text, entitlements="pro", **GOOD)
        assert answer.status_code == 303, said(answer)
    query = "SELECT product_id, terms FROM policies WHERE name IN ('brush works', 'BRUSH')"
    rows = ada.server.sql(query)
    assert [(number, json.loads(terms)["entitlements"]) for number, terms in rows] == [(product, ["pro"])] * 2
    other = a_product(ada, "lite", name="Other")
    answer = ada.post("/policies/new", name="X", product_id=str(other), entitlements="pro", **GOOD)
    assert "pro is not a feature of this product." in said(answer)
    assert re.search(r'name="entitlements" value="lite"', answer.text)
    # A policy's current entitlements are kept, and stay checked.
    kept = a_policy(ada, "Older", product_id=other, terms={"entitlements": ["gone"], "max_activations": 1})
    assert re.search(r'value="gone" checked', ada.get(f"/policies/{kept}/edit").text)
    changed = {"name": "Newer", "product_id": str(other), "entitlements": "gone"}
    assert ada.post(f"/policies/{kept}/edit", **GOOD | changed).status_code == 303


def test_an_archived_policy_makes_no_more_licenses(ada: Visitor) -> None:
    number = a_policy(ada, "Old", chunks=1, is_weak_allowed=True)
    ada.post(f"/policies/{number}/archive")
    page = ada.get("/policies")
    assert "The policy Old was archived: it makes no more licenses." in said(page)
    assert "Old archived" in said(page)
    assert f"/admin/policies/{number}/generate" not in page.text
    assert ada.get(f"/policies/{number}/generate").status_code == 409
    ada.post(f"/policies/{number}/unarchive")
    assert "The policy Old is in use again." in said(ada.get("/policies"))
    assert ada.get(f"/policies/{number}/generate").status_code == 200


def test_a_deleted_policy_leaves_its_licenses(ada: Visitor) -> None:
    number = a_policy(ada, "Gone")
    decide(ada.server, generate(number, 2))
    before = ada.server.count("licenses")
    assert "Licenses made from this policy stay valid" in said(ada.get(f"/policies/{number}/delete"))
    ada.post(f"/policies/{number}/delete")
    assert "The policy Gone was deleted." in said(ada.get("/policies"))
    assert ada.server.count("licenses") == before
    assert last_event(ada, "policy.deleted") == f'{{"policy_id":{number},"policy":"Gone"}}'
    assert ada.get(f"/policies/{number}/delete").status_code == 404


@pytest.mark.smoke
def test_support_has_licenses_made_by_a_job(bob: Visitor) -> None:
    number = a_policy(bob, "For an order")
    customer, named = a_number(), f"Larch Street Clinic {number}"
    decide(bob.server, save_name(NameKind.CUSTOMER, customer, named))
    form = bob.get(f"/policies/{number}/generate")
    assert f'<option value="{named}">{customer}</option>' in form.text
    fields = {"amount": "60", "status": "sold", "order_id": "881", "product_id": "7"}
    answer = bob.post(f"/policies/{number}/generate", **fields, customer_id=named)
    job = answer.headers["location"].removeprefix("/admin")
    assert re.fullmatch(r"/jobs/\d+", job)
    assert "60 licenses are being made." in said(bob.get(job))
    made = "SELECT status, product_id, customer_id FROM licenses WHERE order_id = 881"
    wait_until(lambda: len(bob.server.sql(made)) == 60, "the licenses")
    assert set(bob.server.sql(made)) == {(1, 7, customer)}
    assert '"kind":"generate","total":60' in last_event(bob, "job.started")


@each_row(
    ("fields", "complaint"),
    [
        ({"amount": ""}, "This field is required."),
        ({"amount": "1000001"}, "It must be a whole number from 1 to 1,000,000."),
        (
            {"amount": "1", "status": "expired"},
            "The status must be sold, delivered, active, inactive or disabled.",
        ),
        ({"amount": "1", "order_id": "x"}, "It must be an integer from 0"),
    ],
)
def test_a_wrong_order_is_not_taken(bob: Visitor, fields: dict[str, str], complaint: str) -> None:
    number = a_policy(bob, f"Order {abs(hash(complaint + str(fields)))}")
    before = bob.server.count("jobs")
    answer = bob.post(f"/policies/{number}/generate", **{"status": "active"} | fields)
    assert answer.status_code == 422
    assert complaint in said(answer)
    assert bob.server.count("jobs") == before


def test_support_is_offered_no_changes_of_policies_and_readers_nothing(bob: Visitor, carol: Visitor) -> None:
    number = a_policy(bob, "Recipe")
    page = bob.get("/policies").text
    assert f"/admin/policies/{number}/generate" in page
    assert f"/admin/policies/{number}/edit" not in page
    assert "Make licenses" not in said(carol.get("/policies"))
    assert "Recipe" in said(carol.get("/policies"))


def test_old_addresses_lead_to_the_new_ones(bob: Visitor) -> None:
    moved = {"/generators": "/policies", "/names": "/products", "/names/customers": "/customers"}
    for old, new in moved.items():
        assert (bob.get(old).status_code, bob.get(old).headers["location"]) == (303, f"/admin{new}")
