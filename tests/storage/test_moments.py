"""Moments of licenses cause events exactly once, whichever process handles them, and however late."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from keywright.core.command import Context
from keywright.db import Storage, run_read
from keywright.db.schema import mail_outbox
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.licensing import handlers
from keywright.licensing.licenses.model import ExtendLicense, Status
from keywright.licensing.moments import FindMoments, PassMoments, Place
from keywright.search.statistics import SaveCounters
from tests.makers import (
    KEY,
    NOW,
    an_origin,
    create,
    record_usage,
    set_terms,
    take_lease,
    update,
)
from tests.storage.stored import mails
from tests.storage.webhooks import do

DATABASES = ("sqlite",)
DAY = timedelta(days=1)
DAYS = (7, 1)


def pass_moments(executor: Executor, now: datetime, *, again: bool = False, **fields: Any) -> None:
    """Handle due moments, as a server process does."""
    after = Place(0, 0) if again else None
    step = PassMoments(context=Context(now, an_origin(actor="keywright")), days=DAYS, after=after, **fields)
    while do(executor, step) is not None:
        pass


def happened(storage: Storage, *prefixes: str) -> list[Event]:
    found = run_read(
        storage,
        lambda tx: event_store.list_feed(tx, after_id=0, until_id=10**6, license_id=None, limit=1000),
    )
    return [one.event for one in found if one.event.name.startswith(prefixes)]


def moments(storage: Storage) -> list[tuple[str, int | None]]:
    """The names of expiry events and their days."""
    found = happened(storage, "license.expir")
    return [(one.name.removeprefix("license."), (one.details or {}).get("days")) for one in found]


@pytest.fixture(autouse=True)
def begun(executor: Executor) -> None:
    pass_moments(executor, NOW)


def test_a_license_tells_of_its_expiry_before_and_at_it(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY, expires_at=NOW + 10 * DAY))
    wanted: list[tuple[str, int | None]] = []
    for days, told in (
        (2, None),
        (3, ("expiring", 7)),
        (8, None),
        (9, ("expiring", 1)),
        (10, ("expired", None)),
    ):
        pass_moments(executor, NOW + days * DAY)
        wanted += [told] if told else []
        assert moments(storage) == wanted
    pass_moments(executor, NOW + 11 * DAY)
    pass_moments(executor, NOW + 10 * DAY, again=True)
    assert moments(storage) == wanted


def test_after_a_time_asleep_only_the_last_moment_is_told(executor: Executor, storage: Storage) -> None:
    do(executor, create("A", expires_at=NOW + 10 * DAY))
    do(executor, create("B", expires_at=NOW + 30 * DAY + timedelta(hours=12)))
    pass_moments(executor, NOW + 30 * DAY)
    assert sorted(moments(storage), key=str) == [("expired", None), ("expiring", 1)]


def test_what_expired_before_the_first_time_is_the_past(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY, expires_at=NOW - DAY))
    pass_moments(executor, NOW + DAY)
    pass_moments(executor, NOW + DAY, again=True)
    assert moments(storage) == []


@pytest.mark.smoke
def test_a_license_made_late_is_not_told_of_a_moment_before_it(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY, expires_at=NOW + 3 * DAY))
    pass_moments(executor, NOW, again=True)
    assert moments(storage) == []
    pass_moments(executor, NOW + 2 * DAY)
    assert moments(storage) == [("expiring", 1)]


def test_a_changed_expiry_has_moments_of_its_own(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY, expires_at=NOW + 10 * DAY))
    pass_moments(executor, NOW + 10 * DAY)
    do(executor, update(expires_at=NOW + 40 * DAY))
    pass_moments(executor, NOW + 39 * DAY)
    pass_moments(executor, NOW + 40 * DAY)
    assert moments(storage) == [("expired", None), ("expiring", 1), ("expired", None)]


def test_an_expiry_that_was_moved_back_is_found(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY, expires_at=NOW + 100 * DAY))
    do(executor, create("OTHER", expires_at=NOW + 27 * DAY))
    pass_moments(executor, NOW + 20 * DAY)
    do(executor, update(expires_at=NOW + 25 * DAY))
    pass_moments(executor, NOW + 20 * DAY)
    assert moments(storage) == [("expiring", 7)]
    pass_moments(executor, NOW + 20 * DAY, again=True)
    pass_moments(executor, NOW + 20 * DAY, again=True)
    assert moments(storage) == [("expiring", 7)] * 2


def test_a_disabled_license_tells_nothing(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY, expires_at=NOW + 10 * DAY, status=Status.DISABLED))
    pass_moments(executor, NOW + 10 * DAY)
    assert moments(storage) == []


def test_many_licenses_of_one_moment_are_told_in_steps(
    executor: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "MAX_LICENSES", 2)
    executor.execute([create(f"K{n}", expires_at=NOW + DAY * 10) for n in range(5)])
    pass_moments(executor, NOW + 10 * DAY)
    assert len({one.license_id for one in happened(storage, "license.expired")}) == 5
    assert len(moments(storage)) == 5


def test_a_process_looks_before_it_writes(executor: Executor) -> None:
    def has_come(now: datetime) -> Any:
        return executor.query([FindMoments(now=now, days=DAYS)])[0]

    do(executor, create(KEY, expires_at=NOW + 10 * DAY))
    assert has_come(NOW + 2 * DAY) is False
    assert has_come(NOW + 3 * DAY) is True
    pass_moments(executor, NOW + 3 * DAY)
    assert has_come(NOW + 3 * DAY) is False


def test_customers_are_told_where_the_setting_says_so(executor: Executor, storage: Storage) -> None:
    do(executor, create("A", expires_at=NOW + 10 * DAY, customer_id=7))
    do(executor, create("B", expires_at=NOW + 10 * DAY))
    pass_moments(executor, NOW + 3 * DAY, notifies_customers=True)
    pass_moments(executor, NOW + 10 * DAY, notifies_customers=True)
    queued = run_read(storage, lambda tx: tx.connection.execute(mail_outbox.select()).all())
    assert [(one.template, one.customer_id) for one in queued] == [("expiring", 7), ("expired", 7)]


def test_a_moment_that_a_wrong_clock_has_passed_comes_again(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY, expires_at=NOW + 10 * DAY, customer_id=7))
    pass_moments(executor, NOW + 400 * DAY, notifies_customers=True)
    assert moments(storage) == [("expired", None)]
    for days in (1, 3, 9, 10, 11):
        pass_moments(executor, NOW + days * DAY, notifies_customers=True)
    assert moments(storage)[1:] == [("expiring", 7), ("expiring", 1), ("expired", None)]
    assert mails(storage) == ["expired", "expiring", "expiring", "expired"]


# --- events of the deciding transaction -----------------------------------------------------------


def test_a_renewal_is_an_event_beside_the_change(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY, expires_at=NOW + DAY))
    extend = ExtendLicense(context=Context(NOW, an_origin()), license=KEY, days=30)
    do(executor, extend)
    assert [one.name for one in happened(storage, "license.")][1:] == ["license.updated", "license.renewed"]


def refuse(executor: Executor, *days: int) -> None:
    """Record calls refused at the limit, this many days from now."""
    for one in days:
        context = Context(NOW + one * DAY, an_origin(actor="keywright"))
        do(executor, SaveCounters(context=context, refused={KEY: 3}))


def test_a_refusal_at_the_limit_is_one_event_for_each_limit(executor: Executor, storage: Storage) -> None:
    def told() -> list[int]:
        found = happened(storage, "license.limit_reached")
        return [(one.details or {})["max_activations"] for one in found]

    do(executor, create(KEY, 1))
    refuse(executor, 0, 0, 0)
    assert told() == [1]
    do(executor, update(times_activated_max=2))
    refuse(executor, 0, 0, 29)
    assert told() == [1, 2]
    refuse(executor, 30)
    assert told() == [1, 2, 2]
    # Events caused by a clock that was far ahead are repeated.
    refuse(executor, 400, 1)
    assert told() == [1, 2, 2, 2, 2]


def usage(storage: Storage) -> Sequence[int]:
    return [(one.details or {})["percent"] for one in happened(storage, "usage.threshold")]


def test_usage_tells_when_it_passes_a_threshold(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY))
    do(executor, set_terms({"meters": {"pages": {"limit": 10, "per": "month", "overage": "allow"}}}))
    for amount, told in ((7, []), (1, [80]), (1, [80]), (5, [80, 100]), (50, [80, 100])):
        do(executor, record_usage("pages", amount))
        assert usage(storage) == told
    do(executor, record_usage("pages", 10, now=NOW + 40 * DAY))
    assert usage(storage) == [80, 100, 100]


def test_a_lease_that_was_not_released_is_told_once(executor: Executor, storage: Storage) -> None:
    do(executor, create(KEY))
    do(executor, set_terms({"max_leases": 1, "lease_seconds": 60}))
    do(executor, take_lease("alice"))
    do(executor, take_lease("bob", now=NOW + timedelta(minutes=5)))
    do(executor, take_lease("bob", now=NOW + timedelta(minutes=5)))
    (told,) = happened(storage, "lease.lost")
    assert (told.license_id, told.actor, told.ip_address) == (1, "program", "")
