"""Pages of licenses equal those of a reference search, forward and backward."""

import random
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keywright.db import Storage, run_read
from keywright.licensing.activations import store as activation_store
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License, Status
from keywright.search import scan
from keywright.search.filters import SORTED, Order, Search
from keywright.search.license_pages import MatchingIds, Page, find_matching_ids, find_page
from tests.databases import KINDS
from tests.makers import NOW, a_license
from tests.proving import size
from tests.storage.browsed import (
    TERMS,
    LicenseWithTerms,
    a_license_with_terms,
    insert,
    many_licenses_with_terms,
    matching,
    pages,
    pages_back,
)
from tests.storage.conftest import a_storage
from tests.tables import each_row

DATABASES = ("sqlite",)

#: Time budgets in seconds: for one step, and for all steps.
NO_TIME, MUCH_TIME = 0.0, 60.0


class Shelf:
    """A database, and the licenses in it."""

    def __init__(self, storage: Storage, amount: int) -> None:
        self.storage = storage
        self.licenses = many_licenses_with_terms(storage, amount, seed=amount)

    def matching(self, search: Search) -> list[License]:
        return matching(search, self.licenses)

    def find_page(self, search: Search, cursor: str | None = None, *, limit: int = 10, **asked: Any) -> Page:
        return run_read(
            self.storage, lambda tx: find_page(tx, search, cursor=cursor, limit=limit, now=NOW, **asked)
        )

    def find_ids(self, search: Search, **asked: Any) -> MatchingIds:
        return run_read(self.storage, lambda tx: find_matching_ids(tx, search, now=NOW, **asked))


@pytest.fixture(scope="module")
def shelf(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """A database with 200 licenses."""
    with a_storage(database, tmp_path_factory.mktemp("shelf")) as storage:
        yield Shelf(storage, 200)


def numbers(*usual: int) -> st.SearchStrategy[int | None]:
    return st.sampled_from((None, None, *usual, *usual, -1, 2**63 - 1, 2**63, 10**30))


WALKED = [one for one in Order if one not in SORTED]
ASKED: dict[str, st.SearchStrategy[Any]] = {
    "status": numbers(*Status),
    "product_id": numbers(1, 2),
    "order_id": numbers(1, 2),
    "customer_id": numbers(1, 2),
    "license_id": numbers(*range(1, 20)),
    "external_id": st.sampled_from((None, "crm 1", "CRM 1", "crm 7")),
    "updated": st.sampled_from((None, *((NOW + timedelta(seconds=one), None) for one in (-1, 7, 30)))),
    "expiring_within_days": st.sampled_from((None, 0, 1, 30, 400, 10**6, 10**12)),
    "is_full": st.booleans(),
    "is_unused": st.booleans(),
    "term": st.sampled_from(TERMS),
}


@st.composite
def searches(draw: st.DrawFn) -> Search:
    """Searches without conditions, with one, and with several."""
    names = draw(st.lists(st.sampled_from(sorted(ASKED)), max_size=4, unique=True))
    values: dict[str, Any] = {name: draw(ASKED[name]) for name in names}
    if "term" in values:
        values["term"], values["is_prefix"] = values["term"]
    return Search(**values, order=draw(st.sampled_from(WALKED)))


class Sizes(NamedTuple):
    """The limits of a search: the minimum and maximum rows per step, how many count as few, how many may be
    skipped, and the time budget.
    """

    shortest: int
    longest: int
    few: int
    passed: int
    budget: float


SIZES = st.builds(
    Sizes,
    st.sampled_from((3, 10, 250)),
    st.sampled_from((5, 20, 5_000)),
    st.sampled_from((0, 10, 30, 10_000)),
    st.sampled_from((1, 40, 10_000)),
    st.sampled_from((NO_TIME, MUCH_TIME)),
)
examples = settings(
    max_examples=size(20, 5_000),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@contextmanager
def with_sizes(sizes: Sizes) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_SHORTEST_STEP", sizes.shortest)
        patch.setattr(scan, "_LONGEST_STEP", sizes.longest)
        patch.setattr(scan, "MAX_COUNTED", sizes.few)
        patch.setattr(scan, "_MAX_SKIPPED", sizes.passed)
        yield


def licenses_on(found: list[Page]) -> list[License]:
    return [license for page in found for license in page.licenses]


def is_begun_again(forward: list[Page], backward: list[Page]) -> bool:
    """Whether an incomplete page turned out to be the first one: then the list begins again."""
    if not backward or not backward[-2:-1]:
        return False
    is_seen_before = any(one in licenses_on(backward[:-1]) for one in backward[-1].licenses)
    return is_seen_before and backward[-1] == forward[0]


@pytest.mark.databases(*KINDS)
@pytest.mark.tier("ordinary")
@examples
@given(search=searches(), limit=st.sampled_from((4, 20, 60)), sizes=SIZES)
def test_all_pages_together_are_what_matches_forward_and_backward(
    shelf: Shelf, search: Search, limit: int, sizes: Sizes
) -> None:
    with with_sizes(sizes), shelf.storage.read() as tx:
        forward = list(pages(tx, search, limit=limit, budget=sizes.budget))
        backward = list(pages_back(tx, search, forward[-1], limit=limit, budget=sizes.budget))
    expected = shelf.matching(search)
    assert licenses_on(forward) == expected
    assert (forward[0].previous, forward[-1].next) == (None, None)
    assert [page.is_incomplete for page in forward[:-1]] == [
        len(one.licenses) < limit for one in forward[:-1]
    ]
    assert not forward[-1].is_incomplete
    if sizes.budget == MUCH_TIME:
        assert not any(page.is_incomplete for page in forward + backward)
    elif is_begun_again(forward, backward):
        backward.pop()
    assert licenses_on([*backward[::-1], forward[-1]]) == expected


@pytest.mark.databases(*KINDS)
@examples
@given(search=searches(), sizes=SIZES)
def test_a_total_is_what_matches_or_at_most_that(shelf: Shelf, search: Search, sizes: Sizes) -> None:
    with with_sizes(sizes):
        page = shelf.find_page(search)
    matching = len(shelf.matching(search))
    if page.total is None:
        assert sizes.few < 200
    elif page.total_is_least:
        assert page.total <= matching
    else:
        assert page.total == matching


@pytest.mark.smoke
def test_counts_by_status_that_are_known_are_the_totals_of_long_lists(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MAX_COUNTED", 5)

    def total(search: Search) -> tuple[int | None, bool]:
        page = shelf.find_page(search, by_status={3: 500, 4: 60})
        return page.total, page.total_is_least

    assert total(Search()) == (560, False)
    assert total(Search(status=3)) == (500, False)
    assert total(Search(status=5)) == (0, False)
    assert total(Search(product_id=1)) == (5, True)
    assert total(Search(status=3, product_id=1)) == (None, False)
    assert total(Search(license_id=10**6)) == (0, False)


@pytest.mark.databases(*KINDS)
@examples
@given(search=searches(), limit=st.sampled_from((10, 40, 200)), sizes=SIZES)
def test_all_numbers_that_match_come_in_their_order_whatever_the_search_s_is(
    shelf: Shelf, search: Search, limit: int, sizes: Sizes
) -> None:
    found: list[int] = []
    after_id: int | None = 0
    with with_sizes(sizes):
        while after_id is not None:
            some = shelf.find_ids(search, after_id=after_id, limit=limit, budget=sizes.budget)
            assert len(some.ids) <= limit
            assert some.after_id is None or some.after_id > after_id
            found += some.ids
            after_id = some.after_id
    assert found == sorted(one.id for one in shelf.matching(search))


@pytest.mark.parametrize("after_id", [-5, 10**5, 2**63, 10**30])
def test_numbers_that_no_license_has_can_be_gone_on_from(shelf: Shelf, after_id: int) -> None:
    found = shelf.find_ids(Search(), after_id=after_id, limit=1_000)
    assert found.after_id is None
    assert len(found.ids) == (200 if after_id < 0 else 0)


# --- cursors --------------------------------------------------------------------------------------


def pack(*values: object) -> str:
    return urlsafe_b64encode(msgspec.msgpack.encode(values)).decode().rstrip("=")


ODD_CURSORS = [
    "",
    "=",
    "x",
    "ö",
    "\0",
    "\ud800",
    "a" * 100_000,
    pack(),
    pack("newest", False, 0),
    pack("newest", False, 0, 1, 2),
    pack("newest", 0, 0, 1),
    pack("newest", False, 0, "1"),
    pack("newest", False, 0, 1.5),
    pack("newest", False, 0, 2**63),
    pack("newest", False, 0, -2),
    pack("newest", False, 2**62 + 1, 1),
    pack("newest", False, -1, 1),
    pack("oldest", False, 0, 1),
    pack("expires", True, 0, 1),
    pack(["newest"], False, 0, 1),
]


@each_row("cursor", ODD_CURSORS)
def test_a_cursor_that_is_none_leads_to_the_first_page(shelf: Shelf, cursor: str) -> None:
    assert shelf.find_page(Search(), cursor) == shelf.find_page(Search())


@pytest.mark.databases(*KINDS)
@examples
@given(search=searches(), cursor=st.text() | st.binary().map(lambda one: urlsafe_b64encode(one).decode()))
def test_whatever_the_cursor_is_there_is_a_page(shelf: Shelf, search: Search, cursor: str) -> None:
    assert len(shelf.find_page(search, cursor, limit=5).licenses) <= 5


@pytest.mark.databases(*KINDS)
@examples
@given(
    search=searches(),
    is_backward=st.booleans(),
    place=st.tuples(
        st.sampled_from((0, 1, 2**31, 2**62 - 1, 2**62)) | st.integers(0, 2**62),
        st.sampled_from((-1, 0, 2**63 - 1)) | st.integers(-1, 500),
    ),
)
def test_a_made_up_cursor_is_a_place_like_any_other(
    shelf: Shelf, search: Search, is_backward: bool, place: tuple[int, int]
) -> None:
    cursor = pack(str(search.order), is_backward, *place)
    page = shelf.find_page(search, cursor, limit=1_000)
    rest = matching(search, [one for one in shelf.licenses if one.license in page.licenses])
    assert list(page.licenses) == rest


def test_a_cursor_tells_nothing_of_what_was_searched_for(shelf: Shelf) -> None:
    page = shelf.find_page(Search(term="llap", is_prefix=True), limit=2)
    assert page.next is not None
    assert b"lap" not in urlsafe_b64decode(page.next + "==")


# --- while others change things -------------------------------------------------------------------


@pytest.mark.databases(*KINDS)
@pytest.mark.parametrize("order", WALKED)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_added_and_deleted_between_pages_neither_hides_nor_doubles_the_others(
    storage: Storage, order: Order, seed: int
) -> None:
    chance = random.Random(seed)
    staying = many_licenses_with_terms(storage, 60, seed)
    passing = iter(range(1_000, 10_000))
    search = Search(
        order=order,
        **chance.choice(({}, {"product_id": 1}, {"is_unused": True}, {"expiring_within_days": 400})),
    )
    gone: list[int] = []
    seen: list[License] = []
    cursor, is_backward = None, False
    while True:
        with storage.write() as tx:
            activation_store.delete_licenses(tx, gone)
            new = [a_license_with_terms(next(passing), chance) for _ in range(4)]
            insert(tx, new)
            gone = [one.license.id for one in new[:2]]
        with storage.read() as tx:
            page = find_page(tx, search, cursor=cursor, limit=7, now=NOW)
        seen += page.licenses
        following = page.previous if is_backward else page.next
        if following is None and not is_backward:
            assert_each_once(seen, matching(search, staying))
            seen, is_backward, following = list(page.licenses), True, page.previous
        if following is None:
            break
        cursor = following
    assert_each_once(seen, matching(search, staying))


def assert_each_once(seen: list[License], staying: list[License]) -> None:
    assert len({one.id for one in seen}) == len(seen)
    assert sorted(one.id for one in seen if one.id < 1_000) == sorted(one.id for one in staying)


def test_before_what_was_deleted_there_is_the_first_page(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(
            tx, [a_license(id=number, key=f"{number}") for number in range(1, 11)]
        )
    with storage.read() as tx:
        first = find_page(tx, Search(), cursor=None, limit=3, now=NOW)
        second = find_page(tx, Search(), cursor=first.next, limit=3, now=NOW)
    with storage.write() as tx:
        activation_store.delete_licenses(tx, {8, 9, 10})
    with storage.read() as tx:
        page = find_page(tx, Search(), cursor=second.previous, limit=3, now=NOW)
    assert [one.id for one in page.licenses] == [7, 6, 5]
    assert page.previous is None


def test_behind_what_was_deleted_one_can_go_back(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(id=number, key=f"{number}") for number in range(1, 7)])
    with storage.read() as tx:
        first = find_page(tx, Search(), cursor=None, limit=3, now=NOW)
    with storage.write() as tx:
        activation_store.delete_licenses(tx, {1, 2, 3})
    with storage.read() as tx:
        empty = find_page(tx, Search(), cursor=first.next, limit=3, now=NOW)
        assert (empty.licenses, empty.next) == ((), None)
        assert find_page(tx, Search(), cursor=empty.previous, limit=3, now=NOW).licenses == first.licenses


@pytest.mark.smoke
def test_nothing_is_found_where_there_is_nothing(storage: Storage) -> None:
    with storage.read() as tx:
        for order in Order:
            page = find_page(tx, Search(order=order), cursor=None, limit=3, now=NOW)
            assert page == Page((), None, None, 0, total_is_least=False, is_incomplete=False)


@pytest.mark.smoke
def test_search_terms_of_what_is_not_so_any_more_find_nothing(storage: Storage) -> None:
    was_full = a_license(id=1, key="1", times_activated=1, times_activated_max=2)
    was_unused = a_license(id=2, key="2", times_activated=1)
    with storage.write() as tx:
        insert(
            tx,
            [
                LicenseWithTerms(was_full, frozenset({"full"})),
                LicenseWithTerms(was_unused, frozenset({"unused"})),
            ],
        )
    with storage.read() as tx:
        for search in (Search(is_full=True), Search(is_unused=True)):
            assert find_page(tx, search, cursor=None, limit=3, now=NOW).licenses == ()
            assert find_matching_ids(tx, search, after_id=0, limit=3, now=NOW).ids == ()


def test_search_terms_of_deleted_licenses_find_nothing(storage: Storage) -> None:
    with storage.write() as tx:
        insert(tx, [LicenseWithTerms(a_license(id=1, key="1"), frozenset({"la", "lb"}))])
        activation_store.delete_licenses(tx, {1})
    with storage.read() as tx:
        for search in (Search(term="la"), Search(term="l", is_prefix=True)):
            assert find_page(tx, search, cursor=None, limit=3, now=NOW).licenses == ()


@pytest.mark.smoke
def test_a_text_that_no_database_holds_is_found_nowhere(shelf: Shelf) -> None:
    for term in ("l\0", "l\ud800"):
        for is_prefix in (False, True):
            assert shelf.find_page(Search(term=term, is_prefix=is_prefix)).licenses == ()
