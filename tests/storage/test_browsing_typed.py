"""A text typed into the search box is searched as everything it could be."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from keywright.db import Storage, run_read
from keywright.licensing.activations.model import LicenseRecord
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import save_name
from keywright.registry import open_executor
from keywright.search.filters import Search
from keywright.search.license_pages import find_page
from keywright.search.query_parser import interpret
from tests.makers import NOW, a_license, activate, an_origin, create
from tests.storage.browsed import LicenseWithTerms, insert, insert_terms
from tests.storage.conftest import a_storage
from tests.tables import each_row

pytestmark = pytest.mark.of_the_database

ADDRESS, LONG_ADDRESS = "203.0.113.9", "2001:db8::9"


class Six(NamedTuple):
    """A database with six licenses, and the tokens of two activations of the second."""

    storage: Storage
    tokens: list[str]


@pytest.fixture(scope="module")
def six(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Six]:
    """A database for all tests that only read."""
    with a_storage(database, tmp_path_factory.mktemp("six")) as storage:
        yield Six(storage, make_six(storage))


def make_six(storage: Storage) -> list[str]:
    executor = open_executor(storage)
    executor.execute(
        [
            create("KEY 1"),
            create("Key 2", order_id=1234, customer_id=77),
            create("1234"),
            create("key 4", order_id=4, customer_id=4),
            create("key 5", order_id=2**63 - 1),
            create(ADDRESS),
        ]
    )
    outcomes = executor.execute(
        [
            activate("Key 2", label="Büro 1234", origin=an_origin(ip_address=ADDRESS)),
            activate("Key 2", label="1234 LAPTOP", origin=an_origin(ip_address=LONG_ADDRESS)),
        ]
    )
    records = [one.activations[0] for one in outcomes if isinstance(one, LicenseRecord)]
    with storage.write() as tx:
        insert_terms(tx, records)
    return [one.token for one in records]


def meanings(storage: Storage, text: str) -> dict[str, list[int]]:
    """The interpretations of a text, and the IDs of the licenses found by each."""
    with storage.read() as tx:
        return {
            one.kind: [
                license.id for license in find_page(tx, one.search, cursor=None, limit=10, now=NOW).licenses
            ]
            for one in interpret(tx, text)
        }


@each_row(
    ("text", "expected"),
    [
        ("KEY 1", {"license_key": [1]}),
        ("  KEY 1\t\n", {"license_key": [1]}),
        ("key 1", {}),
        ("1234", {"license_key": [3]}),
        (ADDRESS, {"license_key": [6]}),
        (f"::ffff:{ADDRESS}", {"address": [2]}),
        (LONG_ADDRESS, {"address": [2]}),
        (" 2001:DB8:0:0::9 ", {"address": [2]}),
        ("203.0.113.8", {}),
        ("77", {"customer": [2]}),
        ("0077", {"customer": [2]}),
        ("4", {"order": [4], "customer": [4], "license": [4]}),
        ("2", {"license": [2]}),
        ("9223372036854775807", {"order": [5]}),
        ("9223372036854775808", {}),
        ("9" * 300, {}),
        ("٤", {}),
        ("-4", {}),
        ("123", {"label": [2]}),
        ("büro", {"label": [2]}),
        ("BÜRO 1234", {"label": [2]}),
        ("1234 Lap", {"label": [2]}),
        ("laptop", {}),
        ("%", {}),
        ("_üro", {}),
        ("", {}),
        (" \t ", {}),
        ("KEY\x001", {}),
        ("\ud800", {}),
        ("x" * 100_000, {}),
    ],
)
def test_a_text_is_what_it_can_be(six: Six, text: str, expected: dict[str, list[int]]) -> None:
    # The most likely interpretation first.
    assert [*meanings(six.storage, text).items()] == [*expected.items()]


def test_a_token_is_found_in_large_letters_too(six: Six) -> None:
    for token in six.tokens:
        assert meanings(six.storage, f" {token.upper()}") == {"token": [2]}
        assert meanings(six.storage, token[:-1]) == {}


def test_a_name_that_was_given_to_a_number_is_found(storage: Storage) -> None:
    with storage.write() as tx:
        insert(
            tx,
            [
                LicenseWithTerms(a_license(id=1, key="A", customer_id=9), frozenset()),
                LicenseWithTerms(a_license(id=2, key="B", product_id=17), frozenset()),
            ],
        )
        for kind, number in ((NameKind.CUSTOMER, 9), (NameKind.CUSTOMER, 10), (NameKind.PRODUCT, 17)):
            save_name(tx, kind, number, "Grace Hopper", NOW)
    found = run_read(storage, lambda tx: interpret(tx, " Grace Hopper "))
    # Customer 10 has no license.
    assert [(one.kind, one.search) for one in found] == [
        ("customer", Search(customer_id=9)),
        ("product", Search(product_id=17)),
    ]
    assert run_read(storage, lambda tx: interpret(tx, "Grace")) == ()


def test_a_customer_who_is_called_by_their_number_is_found_once(storage: Storage) -> None:
    with storage.write() as tx:
        insert(tx, [LicenseWithTerms(a_license(id=1, key="A", customer_id=9), frozenset())])
        save_name(tx, NameKind.CUSTOMER, 9, "9", NOW)
    found = run_read(storage, lambda tx: interpret(tx, "9"))
    assert [one.kind for one in found] == ["customer"]
