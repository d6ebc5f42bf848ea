"""Products, customers and policies on both databases: what is saved is found, paged and kept unique."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any

import pytest

from keywright.core.command import Context
from keywright.core.errors import AlreadyExists, ChangedMeanwhile, NotFound, NothingToChange, StillInUse
from keywright.core.nouns import Paging, position_of
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.licenses.model import ApplyTerms, LicenseFilter, Status
from keywright.licensing.licenses.store import list_licenses
from keywright.provisioning.customers import (
    CreateCustomer,
    CustomerFields,
    CustomerFilter,
    ListCustomers,
    NewCustomer,
    UpdateCustomer,
)
from keywright.provisioning.handlers import find_or_make_customer as find_or_make
from keywright.provisioning.licenses import CustomerReference, IssueLicenses
from keywright.provisioning.products import (
    CreateProduct,
    DeleteProduct,
    Feature,
    GetProduct,
    ListProducts,
    NewProduct,
    ProductFields,
    UpdateProduct,
)
from keywright.provisioning.store import CUSTOMERS
from keywright.registry import open_executor
from tests.jobs import decide
from tests.makers import NOW, an_origin, create, create_policy
from tests.storage.conftest import Opener

DATABASES = ("sqlite",)

FIRST = 1_000_000_000


def a_context(now: datetime = NOW) -> Context:
    return Context(now, an_origin())


def make_product(**fields: Any) -> CreateProduct:
    return CreateProduct(
        context=a_context(fields.pop("now", NOW)), fields=NewProduct(**{"name": "Paint"} | fields)
    )


def make_customer(**fields: Any) -> CreateCustomer:
    return CreateCustomer(context=a_context(fields.pop("now", NOW)), fields=NewCustomer(**fields))


@pytest.mark.smoke
def test_a_product_is_found_as_it_was_saved(executor: Executor) -> None:
    features = [Feature("layers", "Layers"), Feature("pro", None, "All of it")]
    made = decide(
        executor,
        make_product(
            id=2**53 - 1, code="paint", url="https://x.example", features=features, metadata={"a": 1}
        ),
    )
    assert made.features == features
    assert executor.query([GetProduct(id=made.id)]) == [made]
    changed = decide(
        executor, UpdateProduct(context=a_context(), id=made.id, fields=ProductFields(name="日本"))
    )
    assert executor.query([GetProduct(id=made.id)]) == [changed]


def test_a_batch_makes_different_numbers_and_refuses_the_same_code(executor: Executor) -> None:
    one, other, third = executor.execute([make_product(code="a"), make_product(code="a"), make_product()])
    assert (one.id, third.id) == (FIRST, FIRST + 1)
    assert isinstance(other, AlreadyExists)


@pytest.mark.parametrize("user", [create("K", product_id=5), create_policy(product_id=5)])
def test_a_product_that_is_named_stays(executor: Executor, user: Any) -> None:
    executor.execute([make_product(id=5), user])
    delete = DeleteProduct(context=a_context(), id=5)
    with pytest.raises(StillInUse):
        decide(executor, delete)
    assert not isinstance(executor.query([GetProduct(id=5)])[0], NotFound)


def test_a_precondition_is_asked_about_what_is_there_now(executor: Executor) -> None:
    decide(executor, make_product(id=5))
    seen = []

    def refuse(product: Any) -> None:
        seen.append(product.id)
        raise ChangedMeanwhile

    with pytest.raises(ChangedMeanwhile):
        decide(executor, DeleteProduct(context=a_context(), id=5, precondition=refuse))
    assert seen == [5]


@pytest.mark.smoke
@pytest.mark.parametrize("sort", ["created_at", "-created_at", "name", "-name"])
def test_pages_in_a_row_are_the_whole_list_in_its_order(executor: Executor, sort: str) -> None:
    # Some share a moment, some a name.
    made = executor.execute(
        [
            make_product(id=n, name="abc"[n % 3], code=f"c{n}", now=NOW + timedelta(seconds=n % 4))
            for n in range(1, 12)
        ]
    )
    column = sort.removeprefix("-")
    expected = sorted(made, key=lambda one: (getattr(one, column), one.id), reverse=sort != column)
    found: list[Any] = []
    after = None
    while True:
        (page,) = executor.query([ListProducts(paging=Paging(sort, after, 3, is_counted=True))])
        assert page.total == 11
        found += page.items[:3]
        if len(page.items) <= 3:
            break
        after = position_of(found[-1], sort)
    assert found == expected


@pytest.mark.smoke
def test_an_email_is_found_in_any_case_and_is_unique(executor: Executor) -> None:
    made = decide(executor, make_customer(email="Ada@Example.com", name="Ada"))
    for email in ("ada@example.com", "ADA@EXAMPLE.COM"):
        (page,) = executor.query([ListCustomers(paging=Paging(), where=CustomerFilter(email=email))])
        assert page.items == [made]
        assert isinstance(executor.execute([make_customer(email=email)])[0], AlreadyExists)
    other = decide(executor, make_customer())
    change = UpdateCustomer(context=a_context(), id=other.id, fields=CustomerFields(email="aDA@example.com"))
    assert isinstance(executor.execute([change])[0], AlreadyExists)


def test_a_customer_is_found_or_made(storage: Storage) -> None:
    with storage.write() as tx:
        work, command = UnitOfWork(tx), make_customer()
        made = find_or_make(work, command, email="ada@example.com", name="Ada")
        assert find_or_make(work, command, email="ADA@example.com", name="Another") == made
        assert find_or_make(work, command, id=made.id) == made
        assert find_or_make(work, command, id=17).id == 17
        assert find_or_make(work, command, id=17, email="new@example.com").email is None
        with pytest.raises(AlreadyExists):
            find_or_make(work, command, id=18, email="ada@example.com")


@pytest.mark.smoke
def test_two_at_once_make_one_customer(open_again: Opener, storage: Storage) -> None:
    barrier = Barrier(2)

    def sell_all(who: str) -> list[Any]:
        with closing(open_executor(open_again())) as executor:
            barrier.wait()
            return [
                decide(
                    executor,
                    IssueLicenses(
                        context=a_context(),
                        status=Status.ACTIVE,
                        key=f"{who}-{number}",
                        customer=CustomerReference(email=f"u{number}@example.com"),
                    ),
                )
                for number in range(20)
            ]

    with ThreadPoolExecutor(2) as threads:
        outcomes = [one.result() for one in [threads.submit(sell_all, who) for who in "ab"]]
    assert all(outcomes)
    with storage.read() as tx:
        page = CUSTOMERS.list_page(tx, ListCustomers(paging=Paging(is_counted=True)))
        assert page.total == 20
        found = list_licenses(tx, LicenseFilter(), limit=99)
    by_number: dict[str, set[int | None]] = {}
    for license in found:
        by_number.setdefault(license.key[2:], set()).add(license.customer_id)
    assert len(found) == 40
    assert all(len(ids) == 1 for ids in by_number.values())


def test_terms_are_applied_to_a_license_once(executor: Executor) -> None:
    executor.execute([create("K", 3)])
    apply = ApplyTerms(context=a_context(), license=1, terms={"max_activations": 1, "grace_days": 9})
    changed, again = executor.execute([apply, apply])
    assert (changed.license.times_activated_max, changed.license.terms) == (1, '{"grace_days":9}')
    assert isinstance(again, NothingToChange)


@pytest.mark.smoke
def test_own_numbers_pass_over_those_of_shops(executor: Executor) -> None:
    given = [make_customer(id=FIRST + n) for n in (0, 1, 2, 4, 9)]
    executor.execute([*given, make_customer(id=2**53 - 1), create("K", customer_id=FIRST + 5)])
    one, other = executor.execute([make_customer(), make_customer()])
    assert not {0, 1, 2, 4, 5, 9} & {one.id - FIRST, other.id - FIRST}
    assert FIRST < one.id < other.id < FIRST + 20


@pytest.mark.smoke
def test_own_numbers_of_products_pass_over_those_that_are_named(executor: Executor) -> None:
    executor.execute(
        [
            make_product(id=FIRST),
            make_product(id=2**53 - 1),
            create("K", product_id=FIRST + 2),
            create_policy(product_id=FIRST + 4),
        ]
    )
    made = [one.id for one in executor.execute([make_product() for _ in range(3)])]
    assert not {FIRST, FIRST + 2, FIRST + 4} & set(made)
    assert made == sorted(made)
    assert made[-1] < FIRST + 20
