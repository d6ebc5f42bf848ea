"""The figures of reports: what events add to them, and which licenses have unusually many devices."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from keywright.events.model import Event
from keywright.licensing.licenses.model import Status
from keywright.search import reports_rules as rules
from keywright.search.reports_rules import LICENSE, NORM, VERSION, Counted, Device, History, day_of

NOW = datetime(2026, 3, 10, tzinfo=UTC)
DAY = timedelta(days=1)
DUE = datetime(2026, 2, 20, tzinfo=UTC)
ID = 100


def happened(name: str, at: datetime = NOW, *, actor: str = "user:1", **details: Any) -> Event:
    return Event(at, name, 1, None, actor, "", details)


def moved(before: datetime | None, after: datetime | None) -> list[str | None]:
    return [None if one is None else one.isoformat() for one in (before, after)]


def months(*events: Event, is_trial: bool = False) -> dict[str, str]:
    """Return what the last of these events adds: figures by month; "-" marks an event that leaves a list."""
    found = rules.list_figures(History(is_trial, 7, dict(enumerate(events))))
    added = [one for id, one in found if id == len(events) - 1]
    first = date(1970, 1, 1)
    return {f"{'-' * (one.amount < 0)}{one.name}": f"{first + one.month * DAY:%Y-%m}" for one in added}


def test_what_an_event_adds_to_the_figures_of_a_month() -> None:
    updated, due, expired = "license.updated", DUE.isoformat(), "license.expired"
    later, after_31_days = DUE + 365 * DAY, DUE + 31 * DAY
    gone, renewed = happened(expired, expires_at=due), happened(updated, expires_at=moved(DUE, later))
    bought = happened(updated, trial=[True, False], expires_at=moved(DUE, later))
    back = happened(updated, expires_at=moved(later, DUE))
    lapsed = {"expiries": "2026-02", "lapsed": "2026-02"}
    both, late = {"expiries": "2026-02", "renewed": "2026-02"}, {"-lapsed": "2026-02", "renewed": "2026-02"}
    refunded = happened(updated, actor="connection:1", status=[3, Status.DISABLED])
    rows: list[tuple[list[Event], Mapping[str, str]]] = [
        ([happened("license.created")], {"made": "2026-03"}),
        ([happened("license.imported")], {}),
        ([happened("license.imported", created_at=int(DUE.timestamp()))], {"made": "2026-02"}),
        ([gone], lapsed),
        # Renewed late, with and without an expiry event; early; and without expiry.
        ([gone, renewed], late),
        ([renewed], both),
        ([happened(updated, DUE - 30 * DAY, expires_at=moved(DUE, later))], both),
        ([gone, happened(updated, expires_at=moved(DUE, None))], late),
        # Not a renewal: too late, too early, moved to an earlier date, or unchanged.
        ([gone, happened(updated, after_31_days, expires_at=moved(DUE, later))], {}),
        ([happened(updated, DUE - 31 * DAY, expires_at=moved(DUE, later))], {}),
        ([back], {}),
        ([happened(updated, expires_at=moved(None, DUE))], {}),
        ([happened(updated, note="changed")], {}),
        # An expiry is due once, and renewed once, even if a renewal was undone in between.
        ([gone, renewed, back, renewed], {}),
        ([renewed, back, gone], {}),
        ([gone, renewed, back, gone], {}),
        # Refunded by a shop, and by a user.
        ([refunded], {"refunded": "2026-03"}),
        ([happened(updated, actor="connection:1", status=[3, Status.INACTIVE])], {}),
        ([happened(updated, status=[3, Status.DISABLED])], {}),
    ]
    of_trials: list[tuple[list[Event], Mapping[str, str]]] = [
        ([happened("license.created")], {"trials": "2026-03"}),
        # The end of a trial is not a due renewal, unless the trial was bought.
        ([gone], {}),
        ([renewed], {}),
        ([bought], {"bought": "2026-03"}),
        ([bought, gone], lapsed),
        ([gone, happened(updated, trial=[True, False]), renewed], both),
    ]
    wrong = [(some, months(*some)) for some, expected in rows if months(*some) != expected]
    wrong += [
        (some, found) for some, expected in of_trials if (found := months(*some, is_trial=True)) != expected
    ]
    assert not wrong


def products(product_id: int | None, *events: Event) -> list[tuple[str, int | None]]:
    return [
        (one.name, one.product_id)
        for _, one in rules.list_figures(History(False, product_id, dict(enumerate(events))))
    ]


def test_a_figure_is_of_the_product_that_the_license_had_then() -> None:
    made, due = happened("license.created"), happened("license.expired", expires_at=DUE.isoformat())
    first, second = (happened("license.updated", product_id=one) for one in ([7, 8], [8, 9]))
    none = happened("license.updated", product_id=[None, 7])
    renewed = happened("license.updated", expires_at=moved(DUE, DUE + 365 * DAY))
    both = [("expiries", 8), ("lapsed", 8)]
    assert products(9, made, first, due, second) == [("made", 7), *both]
    assert products(7, made, happened("license.updated", status=[1, 2]), none) == [("made", None)]
    # A renewal is counted for the product of the expiry.
    assert products(9, first, due, second, renewed) == [*both, ("lapsed", 8), ("renewed", 8)]
    figures = [one for _, one in rules.list_figures(History(False, 7, {ID: made}))]
    assert sorted((key[1], key[3], amount) for key, amount in rules.count_figures(figures).items()) == [
        (0, "made", 1),
        (7, "made", 1),
    ]


def test_a_figure_in_an_address() -> None:
    months = tuple(day_of(datetime(2026, one, 1, tzinfo=UTC)) for one in (1, 2, 3))
    assert rules.parse_counted("renewed:2026-01..2026-03:7") == Counted("renewed", months, 7)
    assert rules.parse_counted("lapsed:2026-02..2026-02:0") == Counted("lapsed", months[1:2])
    longest = rules.parse_counted("made:1970-01..2099-12:0")
    assert longest is not None
    assert len(longest.months) == 36
    wrong = ["", "made", "other:2026-01..2026-02:7", "made:2026-13..2026-13:1", "made:2026-1..2026-1:1"]
    wrong += ["made:2026-02..2026-01:1"]
    assert [one for one in wrong if rules.parse_counted(one)] == []


def a_device(license_id: int = 1, days: float | None = 0, **fields: Any) -> Device:
    seen = None if days is None else int((NOW - timedelta(days=days)).timestamp())
    values: dict[str, Any] = {
        "license_id": license_id,
        "token": "0" * 40,
        "product_id": 7,
        "policy_id": 3,
        "app_version": "4.2",
        "platform": "macOS",
        "ip_address": "192.0.2.1",
        "created_at": 0,
        "deactivated_at": None,
        "seen_at": seen,
    }
    return Device(**values | fields)


def test_active_devices_are_counted_by_version_platform_and_when_they_were_seen() -> None:
    devices = [
        a_device(),
        a_device(),
        a_device(days=5, app_version=None),
        a_device(days=29, platform="a\tb" + "c" * 99),
        a_device(days=31),
        a_device(days=None),
        a_device(deactivated_at=1),
        a_device(product_id=None),
    ]
    found = rules.count_devices(devices, {}, lambda _policy, _name: None, NOW)
    assert {key[1:]: amount for key, amount in found.items() if key[0] == VERSION} == {
        (7, day_of(NOW), "4.2\tmacOS\t1"): 2,
        (7, day_of(NOW), "\tmacOS\t7"): 1,
        (7, day_of(NOW), f"4.2\ta b{'c' * 61}\t30"): 1,
        (0, day_of(NOW), "4.2\tmacOS\t1"): 1,
    }


def test_a_license_is_listed_that_has_several_times_what_its_like_have() -> None:
    many = [a_device(2, ip_address=f"10.0.{one}.1") for one in range(9)]
    same = [a_device(3, ip_address=f"2001:db8::{one}") for one in range(4)]
    odd = [a_device(4, ip_address="")]
    full = [a_device(6) for _ in range(7)]
    averages = {"devices": 2.0, "networks": 1.5, "refusals": 0.0}
    found = rules.count_devices(
        [*many, *same, *odd, *full, a_device(5)],
        {5: 9, 6: 9, 4: 2},
        lambda _policy, name: averages[name],
        NOW,
    )
    assert {key[1:2] + key[3:]: amount for key, amount in found.items() if key[0] == LICENSE} == {
        (2, "devices"): 9,
        (2, "networks"): 9,
        (2, "refusals"): 0,
        (2, "score"): 450 + 600,
        (6, "devices"): 7,
        (6, "networks"): 1,
        (6, "refusals"): 9,
        (6, "score"): 350 + 90_000,
    }
    assert {key[3]: amount for key, amount in found.items() if key[0] == NORM} == {
        "licenses": 5,
        "devices": 22,
        "networks": 9 + 1 + 1 + 1,
        "refusals": 20,
    }
    # Without licenses to compare with, none is unusual.
    assert not any(key[0] == LICENSE for key in rules.count_devices(many, {}, lambda *_: None, NOW))
