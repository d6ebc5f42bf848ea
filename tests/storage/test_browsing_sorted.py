"""Lists in an order without an index: by names, and by last use."""

from functools import partial

import pytest

from keywright.core.command import Context
from keywright.core.errors import InvalidParameters
from keywright.db import Storage, WriteTransaction, run_read, run_write
from keywright.db.bulk import bulk_insert
from keywright.db.schema import last_seen
from keywright.engine.executor import Executor
from keywright.licensing.licenses.store import save_new_licenses
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.products import CreateProduct, NewProduct
from keywright.search import scan
from keywright.search.filters import Order, Search
from keywright.search.license_pages import find_page
from tests.makers import NOW, a_license, an_origin

DATABASES = ("sqlite",)

#: The customers and products of six licenses, by license ID.
OWNERS = {1: (7, 1), 2: (None, None), 3: (8, 2), 4: (9, 1), 5: (7, 3), 6: (70, None)}
#: When their devices were last seen.
SEEN = [(3, 1, 100), (1, 1, 50), (1, 2, 200), (5, 1, 100)]


@pytest.fixture
def executor(storage: Storage, executor: Executor) -> Executor:
    def fill(tx: WriteTransaction) -> None:
        licenses = [
            a_license(id=id, key=f"key {id}", customer_id=customer, product_id=product, status=1 + id % 2)
            for id, (customer, product) in OWNERS.items()
        ]
        save_new_licenses(tx, licenses)
        rows = [{"license_id": id, "activation_id": device, "seen_at": at} for id, device, at in SEEN]
        bulk_insert(last_seen).execute(tx.connection, rows)

    run_write(storage, fill)
    asked = Context(NOW, an_origin())
    executor.execute(
        [
            CreateCustomer(context=asked, fields=NewCustomer(id=7, name="larch Street Clinic")),
            CreateCustomer(context=asked, fields=NewCustomer(id=8, email="Anna@example.com")),
            CreateCustomer(context=asked, fields=NewCustomer(id=9, name="Birch & Sons")),
            CreateProduct(context=asked, fields=NewProduct(id=1, name="Viewer")),
            CreateProduct(context=asked, fields=NewProduct(id=2, name="editor")),
        ]
    )
    return executor


def walk(storage: Storage, search: Search, limit: int) -> tuple[list[int], list[int]]:
    """Read the IDs of all pages, forward, and backward from the last."""

    def question(cursor: str | None) -> tuple[list[int], str | None, str | None]:
        page = run_read(storage, lambda tx: find_page(tx, search, cursor=cursor, limit=limit, now=NOW))
        return [one.id for one in page.licenses], page.next, page.previous

    ids, following, before = question(None)
    forward, last = list(ids), ids
    assert before is None
    while following:
        last, following, before = question(following)
        forward += last
    backward = last
    while before:
        ids, _, before = question(before)
        backward = ids + backward
    return forward, backward


@pytest.mark.smoke
@pytest.mark.usefixtures("executor")
@pytest.mark.parametrize("limit", [2, 4, 9])
@pytest.mark.parametrize(
    ("order", "expected"),
    [
        # By name or e-mail address, case-insensitive, else by ID; licenses without a customer come last.
        (Order.CUSTOMER, [6, 3, 4, 1, 5, 2]),
        (Order.PRODUCT, [5, 3, 1, 4, 2, 6]),
        (Order.SEEN, [1, 5, 3, 6, 4, 2]),
        (Order.UNSEEN, [2, 4, 6, 3, 5, 1]),
    ],
)
def test_pages_are_sorted_forward_and_backward(
    storage: Storage, order: Order, expected: list[int], limit: int
) -> None:
    assert walk(storage, Search(order=order), limit) == (expected, expected)
    odd = [one for one in expected if one % 2]
    assert walk(storage, Search(order=order, status=2), limit) == (odd, odd)
    of_one = [one for one in expected if OWNERS[one] == (7, 3)]
    assert walk(storage, Search(order=order, customer_id=7, product_id=3), limit) == (of_one, of_one)


@pytest.mark.smoke
@pytest.mark.usefixtures("executor")
def test_many_licenses_are_not_sorted_until_the_search_is_narrower(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MAX_COUNTED", 3)
    with pytest.raises(InvalidParameters) as refused:
        walk(storage, Search(order=Order.CUSTOMER), 9)
    assert refused.value.reasons == {
        "sort": "is too long to be sorted like this; narrow the search to at most 3 licenses"
    }
    assert walk(storage, Search(order=Order.CUSTOMER, status=2), 9)[0] == [3, 1, 5]
    # Sorted by creation, a longer list with a filter is in the order of IDs, and its pages report that.
    monkeypatch.setattr(scan, "MAX_COUNTED", 2)
    asked = [
        Search(status=2),
        Search(status=2, order=Order.LATEST),
        Search(status=2, customer_id=7),
        Search(),
    ]
    pages = [
        run_read(storage, partial(find_page, search=one, cursor=None, limit=2, now=NOW)) for one in asked
    ]
    assert [one.is_by_id for one in pages] == [True, False, False, False]
