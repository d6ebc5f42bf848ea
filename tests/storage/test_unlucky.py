"""The random faults of the tests do occur: otherwise, the tests that use them would prove nothing."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from keywright.core.errors import StoreConflict
from keywright.db import Storage
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from tests.makers import KEY_RING
from tests.storage.conftest import ISOLATED
from tests.storage.unlucky import Unlucky

DATABASES = tuple(ISOLATED)
ANY = LicenseFilter()


@pytest.fixture
def unlucky(url: str) -> Iterator[Unlucky]:
    with closing(Unlucky(url, KEY_RING)) as storage:
        yield storage


def test_every_other_change_is_undone_and_takes_no_number(unlucky: Unlucky) -> None:
    def number() -> int:
        with unlucky.write() as tx:
            return tx.ids.next("license")

    for expected in (1, 2, 3):
        with pytest.raises(StoreConflict, match="bad luck"):
            number()
        assert number() == expected


def test_every_third_question_is_asked_in_vain(unlucky: Unlucky) -> None:
    def licenses() -> int:
        with unlucky.read() as tx:
            return license_store.count_licenses(tx, ANY)

    for _ in range(2):
        assert licenses() == licenses() == 0
        with pytest.raises(StoreConflict, match="bad luck"):
            licenses()


def test_the_isolation_is_what_the_url_says(storage: Storage, database: str) -> None:
    with storage.write() as tx:
        assert tx.connection.exec_driver_sql("SHOW transaction_isolation").scalar_one() == database
