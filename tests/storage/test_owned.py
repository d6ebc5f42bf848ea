"""Counts for a product, within bounds."""

from datetime import timedelta

import pytest

from keywright.db import Storage, run_read
from keywright.licensing.licenses import store as license_store
from keywright.search import owned_store
from keywright.search.owned_store import Expiries, count_expiries
from tests.makers import NOW, a_license

DATABASES = ("sqlite",)

TODAY = int(NOW.timestamp()) // 86_400


@pytest.mark.smoke
@pytest.mark.parametrize("is_big", [False, True])
def test_expiries_are_counted_by_day_and_product(storage: Storage, *, is_big: bool) -> None:
    days = [(7, 0), (7, 2), (7, 2), (7, 30), (7, -1), (8, 2), (7, None)]
    with storage.write() as tx:
        license_store.save_new_licenses(
            tx,
            [
                a_license(
                    id=number,
                    key=f"{number}",
                    product_id=product,
                    expires_at=None if ahead is None else NOW + timedelta(days=ahead),
                )
                for number, (product, ahead) in enumerate(days, 1)
            ],
        )
    found = run_read(storage, lambda tx: count_expiries(tx, 7, first_day=TODAY, days=30, is_big=is_big))
    assert found == Expiries({TODAY: 1, TODAY + 2: 2}, None)


def test_where_very_many_licenses_expire_it_is_said_how_far_they_were_counted(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owned_store, "_MAX_EXPIRIES", 3)
    with storage.write() as tx:
        license_store.save_new_licenses(
            tx,
            [
                a_license(id=one, key=f"{one}", product_id=7, expires_at=NOW + timedelta(days=one))
                for one in range(1, 9)
            ],
        )
    found = run_read(storage, lambda tx: count_expiries(tx, 7, first_day=TODAY, days=30, is_big=True))
    assert found == Expiries({TODAY + one: 1 for one in (1, 2, 3)}, TODAY + 3)
