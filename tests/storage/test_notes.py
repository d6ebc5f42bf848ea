"""Notes and tags of licenses."""

from typing import Any

import pytest

from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.licensing import notes as rules
from keywright.licensing.notes import Notes, SaveNotes
from keywright.licensing.store import find_notes
from keywright.search import license_pages
from keywright.search.filters import Search
from tests.jobs import events_of
from tests.makers import NOW, activate, create, delete

DATABASES = ("sqlite",)
WRITTEN = Notes("Asked for a refund.", ("refund", "vip"))


def write(key: str, notes: Notes) -> SaveNotes:
    return SaveNotes(context=activate(key).context, license=key, notes=notes)


def notes_of(storage: Storage, license_id: int = 1) -> Notes:
    return run_read(storage, lambda tx: find_notes(tx, [license_id]))[license_id]


def tagged(storage: Storage, tag: str) -> list[int]:
    def ask(tx: Any) -> license_pages.Page:
        return license_pages.find_page(tx, Search(tag=tag), cursor=None, limit=10, now=NOW)

    return [one.id for one in run_read(storage, ask).licenses]


def test_a_note_and_tags_take_the_place_of_those_before(executor: Executor, storage: Storage) -> None:
    executor.execute([create("A"), create("B")])
    assert notes_of(storage) == Notes()
    executor.execute([write("A", WRITTEN), write("B", Notes("", ("vip",)))])
    assert notes_of(storage) == WRITTEN
    executor.execute([write("A", Notes("Done."))])
    assert notes_of(storage) == Notes("Done.")
    assert notes_of(storage, 2) == Notes("", ("vip",))
    executor.execute([write("A", Notes("Done."))])
    assert [one.name for one in events_of(storage, 1)] == ["license.created", *["license.noted"] * 2]


@pytest.mark.smoke
def test_licenses_are_found_by_a_tag(executor: Executor, storage: Storage) -> None:
    executor.execute([create("A"), create("B"), create("C")])
    executor.execute([write("A", WRITTEN), write("C", Notes("", ("vip",)))])
    assert (tagged(storage, "vip"), tagged(storage, "refund"), tagged(storage, "re")) == ([3, 1], [1], [])
    executor.execute([delete("A")])
    assert (tagged(storage, "vip"), notes_of(storage)) == ([3], Notes())


def test_tags_are_words_in_lower_case_each_once() -> None:
    assert rules.parse_tags(" VIP, refund;vip\nv2.1 ") == ("refund", "v2.1", "vip")
    for wrong in ("a/b", "x" * 41, " ".join(map(str, range(21)))):
        with pytest.raises(ValueError, match="must be"):
            rules.parse_tags(wrong)
    assert rules.parse_note(" as said ") == "as said"
    with pytest.raises(ValueError, match="2,000"):
        rules.parse_note("x" * 2_001)
