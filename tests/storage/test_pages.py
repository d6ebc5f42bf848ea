"""Pages of long lists: exact near the beginning, and never a full scan per page."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

from keywright.db import ReadTransaction, Storage
from keywright.engine.executor import Executor
from keywright.licensing import queries as reporting
from keywright.licensing.licenses.model import LicenseFilter
from keywright.licensing.queries import _MAX_LISTS, KNOWN_FOR, Pages
from keywright.registry import open_executor
from tests.makers import create, delete

DATABASES = ("sqlite",)

ANY = LicenseFilter()
#: Lists with more licenses count as long in these tests.
FEW = 10


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "MAX_EXACT", FEW)


@pytest.fixture
def executor(storage: Storage) -> Executor:
    """An executor with fifty licenses, every other one of product 7."""
    executor = open_executor(storage)
    executor.execute([create(f"key {n:02}", product_id=7 if n % 2 else None) for n in range(50)])
    return executor


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def statements(tx: ReadTransaction) -> Iterator[list[str]]:
    """Record the SQL statements and values during the block."""
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, values: object, *_: object) -> None:
        said.append(f"{statement} {values}")

    event.listen(tx.connection, "before_cursor_execute", note)
    try:
        yield said
    finally:
        event.remove(tx.connection, "before_cursor_execute", note)


def keys(
    tx: ReadTransaction, pages: Pages, skip: int, limit: int = 4, where: LicenseFilter = ANY
) -> list[str]:
    return [one.key for one in pages.page(tx, where, skip=skip, limit=limit)]


@pytest.mark.smoke
@pytest.mark.usefixtures("executor")
def test_pages_follow_each_other_without_a_gap(storage: Storage) -> None:
    pages = Pages()
    with storage.read() as tx:
        walked = [key for skip in range(0, 56, 4) for key in keys(tx, pages, skip)]
        assert walked == [f"key {n:02}" for n in range(50)]
        odd = [
            key for skip in range(0, 28, 3) for key in keys(tx, pages, skip, 3, LicenseFilter(product_id=7))
        ]
        assert odd == [f"key {n:02}" for n in range(1, 50, 2)]
        assert keys(tx, pages, 31) == ["key 31", "key 32", "key 33", "key 34"]


@pytest.mark.usefixtures("executor")
def test_who_walks_through_a_long_list_skips_nothing_again(storage: Storage) -> None:
    pages = Pages()
    with storage.read() as tx:
        for skip in range(8, 40, 4):
            keys(tx, pages, skip)
        with statements(tx) as said:
            assert keys(tx, pages, 40) == ["key 40", "key 41", "key 42", "key 43"]
        assert [one.count("SELECT") for one in said] == [1]


@pytest.mark.usefixtures("executor")
def test_what_is_skipped_is_read_as_numbers_only(storage: Storage) -> None:
    with storage.read() as tx, statements(tx) as said:
        keys(tx, Pages(), 45)
    (page,) = said
    inner = page[page.index("(SELECT") : page.index("OFFSET")]
    assert "sealed_key" not in inner


def test_a_walk_goes_on_where_it_was_although_licenses_were_deleted(
    executor: Executor, storage: Storage
) -> None:
    clock = Clock()
    pages = Pages(clock)
    with storage.read() as tx:
        assert keys(tx, pages, 20) == ["key 20", "key 21", "key 22", "key 23"]
    executor.execute([delete("key 00"), delete("key 01")])
    with storage.read() as tx:
        assert keys(tx, pages, 24) == ["key 24", "key 25", "key 26", "key 27"]
        clock.now += KNOWN_FOR
        assert keys(tx, pages, 24) == ["key 26", "key 27", "key 28", "key 29"]


def test_near_the_beginning_every_page_is_as_things_are_now(executor: Executor, storage: Storage) -> None:
    pages = Pages()
    with storage.read() as tx:
        assert keys(tx, pages, 8)[0] == "key 08"
    executor.execute([delete("key 00")])
    with storage.read() as tx:
        assert keys(tx, pages, 8)[0] == "key 09"


def test_few_are_counted_exactly_and_many_once_in_a_while(executor: Executor, storage: Storage) -> None:
    clock = Clock()
    pages = Pages(clock)
    few = LicenseFilter(product_id=8)

    def totals() -> tuple[int, int]:
        with storage.read() as tx:
            return pages.total(tx, ANY), pages.total(tx, few)

    executor.execute([create("of another product", product_id=8)])
    assert totals() == (51, 1)
    executor.execute([delete("key 00"), delete("of another product")])
    assert totals() == (51, 0)
    clock.now += KNOWN_FOR
    assert totals() == (49, 0)
    executor.execute([delete(f"key {n:02}") for n in range(1, 45)])
    assert totals() == (5, 0)


def test_only_so_many_lists_are_remembered(storage: Storage) -> None:
    pages = Pages()
    open_executor(storage).execute([create(f"{n}", product_id=n % 200) for n in range(200 * 12)])
    with storage.read() as tx:
        for number in range(200):
            assert pages.total(tx, LicenseFilter(product_id=number)) == 12
            assert len(keys(tx, pages, 11, 1, LicenseFilter(product_id=number))) == 1
    assert len(pages._lists) == _MAX_LISTS
