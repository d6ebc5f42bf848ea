"""Events in plain words."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import keywright
from keywright.http.admin.event_changes import Difference
from keywright.http.admin.event_text import EVENTS, Names, _numbers_of, actor_in_words, in_words, tell
from keywright.identity.model import Role
from keywright.jobs.model import JobState
from keywright.search.store import EventRecord
from tests.makers import a_user, an_event

NAMES = Names(users={1: "ada"}, api_keys={3: "shop"}, products={7: "Lumen"}, customers={8: "Larch Street"})
_WRITTEN = re.compile(
    r'(?:record_event|record_license_event|Event|_note|RecordEvent)\([^)]*?"([a-z_]+\.[a-z_]+)"', re.DOTALL
)
_KNOWN = {name for named in EVENTS.values() for name in named}


def test_everything_that_is_written_down_has_words() -> None:
    """Wherever in the program it is."""
    sources = Path(keywright.__file__).parent.rglob("*.py")
    found = {name for path in sources for name in _WRITTEN.findall(path.read_text(encoding="utf-8"))}
    assert {"license.created", "user.signed_in", "backup.made", "license.recounted"} <= found
    ends = {f"job.{state}" for state in JobState} - {"job.waiting", "job.running"}
    assert (found | ends) <= _KNOWN


@pytest.mark.parametrize("name", sorted(_KNOWN))
def test_words_are_whole_without_details(name: str) -> None:
    words = in_words(an_event(name=name))
    assert words[0].isupper()
    assert not words.endswith((":", " "))
    assert "{" not in words


@pytest.mark.parametrize(
    ("name", "details", "words"),
    [
        ("license.activated", None, "License activated"),
        ("license.deactivated", {"others": 1500}, "License deactivated: 1,500 places more"),
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
        ("generator.deleted", {"generator_id": 1, "generator": "{name}"}, "Generator {name} deleted"),
        ("job.done", {"job_id": 4, "kind": "generate", "done": 9}, "Job 4 done: generating licenses"),
        ("backup.made", {"file": "keywright-1.tar", "size": 9}, "Backup keywright-1.tar made"),
        ("of.tomorrow", {"x": 1}, "of.tomorrow"),
    ],
)
def test_an_event_is_said_in_a_few_words(name: str, details: dict[str, object] | None, words: str) -> None:
    assert in_words(an_event(name=name, details=details), NAMES) == words


@pytest.mark.parametrize(
    ("actor", "words"),
    [
        ("user:1", "ada"),
        ("user:2", "user 2"),
        ("api_key:3", "API key shop"),
        ("api_key:9", "API key 9"),
        ("cli:root", "root at the terminal"),
        ("program", "a program"),
        ("keywright", "Keywright itself"),
        ("visitor", "somebody not signed in"),
        ("user:x", "user:x"),
        ("", ""),
    ],
)
def test_it_is_said_who_did_it(actor: str, words: str) -> None:
    assert actor_in_words(actor, NAMES) == words


def test_what_changed_is_shown_as_it_was_and_as_it_is() -> None:
    details = {
        "status": [3, 5],
        "times_activated_max": [None, 1000],
        "expires_at": [None, "2026-01-15T12:30:45Z"],
        "product_id": [None, 7],
        "customer_id": [8, 9],
        "order_id": [1, None],
        "something_new": ["a", "b"],
    }
    told = tell(EventRecord(4, an_event(name="license.updated", details=details)), NAMES)
    assert told.differences == (
        Difference("Status", "active", "disabled"),
        Difference("Limit", "no limit", "1,000"),
        Difference("Expires", "never", datetime(2026, 1, 15, 12, 30, 45, tzinfo=UTC)),
        Difference("Product", "none", "Lumen (7)"),
        Difference("Customer", "Larch Street (8)", "9"),
        Difference("Order", "1", "none"),
        Difference("Something new", "a", "b"),
    )
    assert (told.id, told.license_id, told.text) == (4, 1, "License changed")


def test_the_number_nought_may_have_a_name_like_any_other() -> None:
    details = {"product_id": [0, 7], "customer_id": [None, 0]}
    event = an_event(name="license.updated", details=details)
    assert _numbers_of([event], "product_id") == {0, 7}
    assert _numbers_of([event], "customer_id") == {0}
    told = tell(EventRecord(4, event), Names(products={0: "The first"}, customers={0: "Ourselves"}))
    assert told.differences == (
        Difference("Product", "The first (0)", "7"),
        Difference("Customer", "none", "Ourselves (0)"),
    )


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    ("actor", "is_colleague"),
    [("user:2", True), ("visitor", True), ("program", False), ("api_key:3", False), ("cli:root", False)],
)
def test_where_colleagues_are_is_told_to_administrators_only(
    role: Role, actor: str, *, is_colleague: bool
) -> None:
    record = EventRecord(4, an_event(actor=actor, ip_address="192.0.2.1"))
    told = tell(record, NAMES, a_user(role=role))
    is_hidden = is_colleague and role is not Role.ADMINISTRATOR
    assert told.address == ("" if is_hidden else "192.0.2.1")
    assert told.actor == actor_in_words(actor, NAMES)
    assert tell(record, NAMES).address == "192.0.2.1"


def test_of_a_password_is_said_only_that_it_is_new() -> None:
    details = {"user_id": 2, "user": "bob", "is_disabled": [False, True], "is_password_new": True}
    told = tell(EventRecord(4, an_event(name="user.changed", license_id=0, details=details)))
    assert told.differences == (
        Difference("Disabled", "no", "yes"),
        Difference("Password", "the old one", "a new one"),
    )
    assert told.license_id is None
