"""The list reports if a search ran out of time, or search terms are not up to date."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest

from keywright.core.command import Command
from keywright.licensing.licenses.model import CreateLicense, Status
from tests.http import admin_altered
from tests.http.admin_browser import Visitor, asked, decide, make_users, said
from tests.http.admin_licenses import a_key, follow, make
from tests.http.conftest import assert_clean
from tests.server import RunningServer, running

#: More licenses than one step reads.
_MANY = 15
_TAKES_LONG = "There was not enough time to search all licenses. Narrow the search"
_NOTHING_YET = "Nothing found so far"


@contextmanager
def bob_at(server: RunningServer) -> Iterator[Visitor]:
    with Visitor(server) as visitor:
        yield visitor.sign_in("bob")
    assert_clean(server)


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Bob at a server whose searches end after one step. Of product 1, two sold licenses are older than all
    others, and one is newer; of product 2, the oldest is sold. Many other licenses are also sold.
    """
    program = admin_altered.altered(admin_altered.search_in_one_step)
    with running(tmp_path_factory.mktemp("hurried") / "data", program=program) as server:
        make_users(server)
        decide(server, *(_a_license(product, Status.SOLD) for product in (2, 1, 1)))
        others = {1: Status.ACTIVE, 2: Status.ACTIVE, 3: Status.SOLD}
        decide(server, *(_a_license(*one) for _ in range(_MANY) for one in others.items()))
        decide(server, _a_license(1, Status.SOLD))
        with bob_at(server) as bob:
            yield bob


def _a_license(product: int, status: Status) -> Command:
    return CreateLicense(**asked(key=a_key(), status=status, product_id=product))


def goes_on(page: str) -> str | None:
    """The address for continuing the search."""
    found = re.search(r'href="/admin(/licenses\?[^"]*)"[^>]*>Continue searching<', page)
    return None if found is None else unescape(found[1])


def all_pages(bob: Visitor, path: str | None) -> Iterator[tuple[str, list[int]]]:
    """The text of each page of a search, and the IDs of the licenses on it."""
    while path is not None:
        answer = bob.get(path)
        assert answer.status_code == 200
        yield said(answer), [int(number) for number in re.findall(r'id="key-(\d+)"', answer.text)]
        path = goes_on(answer.text)


def test_a_search_that_ran_out_of_time_says_so_and_goes_on_where_it_stopped(hurried: Visitor) -> None:
    pages = list(all_pages(hurried, "/licenses?product=1&status=sold"))
    newest = 3 + 3 * _MANY + 1
    assert [number for _, numbers in pages for number in numbers] == [newest, 3, 2]
    assert _TAKES_LONG in pages[0][0]
    assert pages[0][1] == [newest]
    assert _TAKES_LONG not in pages[-1][0]
    assert _NOTHING_YET not in pages[-1][0]


def test_only_a_search_that_has_come_to_its_end_says_that_nothing_matches(hurried: Visitor) -> None:
    for status, found in (("sold", [1]), ("disabled", [])):
        pages = list(all_pages(hurried, f"/licenses?product=2&status={status}"))
        assert [number for _, numbers in pages for number in numbers] == found
        assert (_NOTHING_YET in pages[0][0], pages[0][1]) == (bool(found), [])
        assert ["No matching licenses" in text for text, _ in pages[:-1]] == [False] * (len(pages) - 1)
        assert ("No matching licenses" in pages[-1][0], _NOTHING_YET in pages[-1][0]) == (not found, False)


def test_a_list_says_since_when_it_does_not_know_what_happened(tmp_path: Path) -> None:
    program = admin_altered.altered(admin_altered.project_no_new_events)
    with running(tmp_path / "data", program=program) as server:
        follow(server)
        since = asked()["context"].now - timedelta(hours=1)
        key = a_key()
        decide(server, CreateLicense(**asked(now=since, key=key, status=Status.ACTIVE)))
        make_users(server)
        with bob_at(server) as bob:
            for path in ("/licenses?places=unused", "/licenses?places=full"):
                answer = bob.get(path)
                assert "cannot be found yet" in said(answer)
                assert f"{since:%Y-%m-%d %H:%M:%S} UTC" in answer.text
            # Filters that do not use search terms are up to date.
            assert "cannot be found yet" not in said(bob.get("/licenses?status=active"))
            assert "cannot be found yet" in said(bob.post("/find", text="a label"))


def test_a_list_says_how_much_of_the_past_can_be_searched(tmp_path: Path) -> None:
    program = admin_altered.altered(admin_altered.never_begin_to_project)
    with running(tmp_path / "data", program=program) as server:
        make_users(server)
        make(server)
        with bob_at(server) as bob:
            page = said(bob.get("/licenses?places=unused"))
            assert "Older activations are still being indexed (0 % done)." in page
            assert "still being indexed" not in said(bob.get("/licenses"))
