"""Descriptions of events."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import keywright
from keywright.core import parsing
from keywright.events.prose import PROSE
from keywright.http.admin.app import CATALOGS
from keywright.http.admin.event_text import (
    EventNames,
    FieldChange,
    describe,
    describe_actor,
    write_label,
    write_value,
)
from keywright.http.admin.event_views import Named, _numbers_of, to_view
from keywright.http.admin.periods import read_period
from keywright.http.pages.formats import Languages, find_zone, last_day, speaking, zone_of
from keywright.identity.model import Role
from keywright.jobs.model import JobState
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.search.store import EventRecord, Owner
from tests.makers import NOW, a_user, an_event
from tests.tables import each_row

NAMES = EventNames(
    users={1: "ada"}, api_keys={3: "shop"}, products={7: "Lumen"}, customers={8: "Larch Street"}
)
METER = {"limit": 100, "per": "month", "overage": "allow"}
_RECORDED = re.compile(
    r'(?:(?:record_event|record_license_event|Event|_record)\([^)]*?|return )"([a-z_]+\.[a-z_]+)"', re.DOTALL
)
_KNOWN = {name for named in PROSE.values() for name in named}


def test_every_event_of_the_program_has_a_text() -> None:
    sources = Path(keywright.__file__).parent.rglob("*.py")
    found = {name for path in sources for name in _RECORDED.findall(path.read_text(encoding="utf-8"))}
    assert {"license.created", "user.signed_in", "backup.made", "license.recounted"} <= found
    ends = {f"job.{state}" for state in JobState} - {"job.draft", "job.waiting", "job.running"}
    assert (found | ends) <= _KNOWN


@each_row("name", sorted(_KNOWN))
def test_a_text_is_complete_without_details(name: str) -> None:
    words = describe(an_event(name=name))
    assert words[0].isupper()
    assert not words.endswith((":", " "))
    assert "{" not in words


@each_row(
    ("name", "details", "words"),
    [
        ("license.activated", None, "A device activated"),
        ("license.deactivated", {"others": 1500}, "1,500 more devices deactivated"),
        ("license.deleted", {"key": "…WXYZ", "times_activated": 2}, "License …WXYZ deleted"),
        ("user.created", {"user_id": 2, "user": "bob", "role": "support"}, "User bob created: support"),
        ("user.sign_in_refused", None, "Sign-in refused: an unknown name"),
        ("user.sign_in_refused", {"user_id": 2, "user": "bob"}, "Sign-in refused: bob"),
        ("name.saved", {"kind": "user", "number": 8, "name": [None, "x"]}, "Customer 8 named"),
        ("api_key.revoked", {"api_key_id": 3}, "API key shop revoked"),
        ("api_key.revoked", {"api_key_id": 4}, "API key 4 revoked"),
        (
            "api_key.created",
            {"api_key_id": 3, "api_key": "shop", "permissions": "read_write"},
            "API key shop created: may read and write",
        ),
        ("policy.deleted", {"policy_id": 1, "policy": "{name}"}, "Policy {name} deleted"),
        ("job.done", {"job_id": 4, "kind": "generate", "done": 9}, "Job 4 done: generating licenses"),
        ("job.done", {"job_id": 5, "kind": "import", "done": 9}, "Job 5 done: importing licenses"),
        ("backup.made", {"file": "keywright-1.tar", "size": 9}, "Backup keywright-1.tar created"),
        ("signing_key.withdrawn", {"kid": "kPrK_q"}, "Signing key kPrK_q withdrawn"),
        ("of.tomorrow", {"x": 1}, "of.tomorrow"),
    ],
)
def test_an_event_is_described_in_a_few_words(
    name: str, details: dict[str, object] | None, words: str
) -> None:
    assert describe(an_event(name=name, details=details), NAMES) == words


@each_row(
    ("actor", "words"),
    [
        ("user:1", "ada"),
        ("user:2", "user 2"),
        ("api_key:3", "API key shop"),
        ("api_key:9", "API key 9"),
        ("cli:root", "root at the terminal"),
        ("program", "a program"),
        ("keywright", "Keywright itself"),
        ("visitor", "a visitor who is not signed in"),
        ("connection:4", "the shop of connection 4"),
        ("user:x", "user:x"),
        ("", ""),
    ],
)
def test_an_actor_is_described_by_name(actor: str, words: str) -> None:
    assert describe_actor(actor, NAMES) == words


def test_what_the_server_does_by_itself_is_by_nobody() -> None:
    views = [to_view(EventRecord(1, an_event(actor=actor)), NAMES) for actor in ("keywright", "user:1")]
    assert [one.is_by_person for one in views] == [False, True]


@each_row(
    ("field", "change", "shown"),
    [
        ("status", [3, 5], ("Status", "active", "disabled")),
        ("times_activated_max", [None, 1000], ("Limit", "no limit", "1,000")),
        ("expires_at", [None, "2026-01-15T12:30:45Z"], ("Expires", "never", NOW)),
        ("archived_at", [None, "2026-01-15T12:30:45Z"], ("Archived", "no", NOW)),
        ("product_id", [None, 7], ("Product", "none", "Lumen (7)")),
        ("customer_id", [8, 9], ("Customer", "Larch Street (8)", "9")),
        ("order_id", [1, None], ("Order", "1", "none")),
        ("something_new", ["a", "b"], ("Something new", "a", "b")),
        ("entitlements", [[], ["pro", "export"]], ("Entitlements", "none", "pro, export")),
        ("meters", [{}, {"exports": METER}], ("Meters", "none", "exports: 100 per month, more is allowed")),
        ("new_devices", [None, {"count": 3, "per_days": 30}], ("New devices", "any number", "3 in 30 days")),
        ("starts", ["creation", "first_activation"], ("Days counted from", "creation", "first activation")),
        ("transferable", ["no", "once"], ("Transfer by the customer", "no", "once")),
        ("trial", [False, True], ("Trial", "no", "yes")),
        ("is_disabled", [False, True], ("Disabled", "no", "yes")),
        # No password is shown.
        ("is_password_new", True, ("Password", "the old one", "a new one")),
    ],
)
def test_a_change_is_shown_with_the_values_before_and_after(
    field: str, change: object, shown: tuple[str, str, str]
) -> None:
    event = an_event(name="license.updated", details={"policy_id": 1, "user": "bob", field: change})
    view = to_view(EventRecord(4, event), NAMES)
    assert view.changes == (FieldChange(*shown),)
    assert (view.id, view.license_id, view.text) == (4, 1, "License changed")


def test_an_event_about_no_license_names_none() -> None:
    assert to_view(EventRecord(4, an_event(name="user.changed", license_id=0))).license_id is None


def test_the_number_0_can_have_a_name() -> None:
    details = {"product_id": [0, 7], "customer_id": [None, 0]}
    event = an_event(name="license.updated", details=details)
    assert _numbers_of([event], "product_id") == {0, 7}
    assert _numbers_of([event], "customer_id") == {0}
    view = to_view(EventRecord(4, event), EventNames(products={0: "The first"}, customers={0: "Ourselves"}))
    assert view.changes == (
        FieldChange("Product", "The first (0)", "7"),
        FieldChange("Customer", "none", "Ourselves (0)"),
    )


@each_row("role", Role)
@each_row(
    ("actor", "is_colleague"),
    [("user:2", True), ("visitor", True), ("program", False), ("api_key:3", False), ("cli:root", False)],
)
def test_only_administrators_see_the_addresses_of_colleagues(
    role: Role, actor: str, *, is_colleague: bool
) -> None:
    record = EventRecord(4, an_event(actor=actor, ip_address="192.0.2.1"))
    view = to_view(record, NAMES, a_user(role=role))
    is_hidden = is_colleague and role is not Role.ADMINISTRATOR
    assert view.address == ("" if is_hidden else "192.0.2.1")
    assert view.actor == describe_actor(actor, NAMES)
    assert to_view(record, NAMES).address == "192.0.2.1"


def test_an_event_says_what_happened_to_whom() -> None:
    details = {"activation_count": 1, "max_activations": 2}
    event = an_event(name="license.activated", license_id=5, activation_id=9, details=details)
    names = NAMES._replace(owners={5: Owner(8, 7)}, devices={(5, 9): "<laptop-olga>"})
    view = to_view(EventRecord(4, event), names, a_user())
    assert (view.customer, view.product) == (Named(8, "Larch Street"), Named(7, "Lumen"))
    assert view.text == "<em>&lt;laptop-olga&gt;</em> activated"
    assert (view.taken, view.limit, view.path) == (1, 2, "/licenses/5")
    assert describe(event, names) == "<laptop-olga> activated"
    gone = to_view(EventRecord(4, event), NAMES, a_user())
    assert (gone.customer, gone.text, gone.path) == (None, "<em>A device</em> activated", "")


@each_row(
    ("query", "since", "until"),
    [
        ({}, None, None),
        ({"period": "today"}, "2026-01-15T23:00Z", "2026-01-16T23:00Z"),
        ({"period": "yesterday"}, "2026-01-14T23:00Z", "2026-01-15T23:00Z"),
        ({"period": "7d"}, "2026-01-09T23:00Z", "2026-01-16T23:00Z"),
        ({"period": "today", "zone": "UTC"}, "2026-01-15T00:00Z", "2026-01-16T00:00Z"),
        ({"from": "2026-03-29", "to": "2026-03-29"}, "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ({"day": "2026-07-01"}, "2026-06-30T22:00Z", "2026-07-01T22:00Z"),
        ({"from": "2026-01-15"}, "2026-01-14T23:00Z", None),
        ({"to": "2026-01-15"}, None, "2026-01-15T23:00Z"),
        ({"from": "yesterday", "to": "9999-12-31", "day": "0001-01-01", "period": "x"}, None, None),
    ],
)
def test_a_period_is_of_days_of_the_reader(
    query: dict[str, str], since: str | None, until: str | None
) -> None:
    """In Berlin, the sixteenth has already begun."""
    now = datetime(2026, 1, 15, 23, 30, tzinfo=UTC)
    zone = zone_of({"keywright_zone": "Europe/Berlin"}, "UTC")
    period = read_period(query, now, zone)
    assert (period.since, period.until) == tuple(
        None if one is None else datetime.fromisoformat(one) for one in (since, until)
    )


@pytest.mark.parametrize("named", ["", "Mars/Olympus", "../../etc/passwd", "x" * 65, "Europe"])
def test_a_time_zone_that_is_unknown_is_the_one_of_the_settings(named: str) -> None:
    assert zone_of({"keywright_zone": named}, "Asia/Tokyo").key == "Asia/Tokyo"
    assert zone_of({"keywright_zone": named}, "No/Where").key == "UTC"


@pytest.mark.parametrize("name", ["Pacific/Kiritimati", "UTC", "Pacific/Honolulu"])
def test_the_end_of_time_is_a_day_in_every_time_zone(name: str) -> None:
    zone = find_zone(name)
    assert zone is not None
    end = parsing.parse_last_day("9999-12-31", zone)
    assert end == END_OF_TIME
    for moment in (end, end - timedelta(seconds=1)):
        assert last_day(moment, zone).isoformat() == "9999-12-31"


def test_fields_of_a_license_are_named_in_the_language_of_the_reader() -> None:
    with speaking(Languages(CATALOGS).choose("de", "")):
        assert (write_label("expires_at"), write_value("expires_at", None)) == ("Läuft ab", "nie")
