"""The figures of the reports: what an event adds to them, and which licenses have more than their like."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from keywright.events.model import Event
from keywright.licensing.licenses.model import Status
from keywright.search import reports_rules as rules
from keywright.search.reports_rules import LICENSE, NORM, VERSION, Device, History, day_of

NOW = datetime(2026, 3, 10, tzinfo=UTC)
DUE = datetime(2026, 2, 20, tzinfo=UTC)
ID = 100


def happened(name: str, at: datetime = NOW, *, actor: str = "user:1", **details: Any) -> Event:
    return Event(at, name, 1, None, actor, "", details)


def moved(before: datetime | None, after: datetime | None) -> list[str | None]:
    return [None if one is None else one.isoformat() for one in (before, after)]


def months(event: Event, history: History | None = None) -> dict[str, str]:
    """The figures that the event adds one to, each with its month."""
    found = rules.figures_of(ID, event, history or History(product_id=7))
    return {name: f"{moment:%Y-%m}" for moment, name in found}


def test_what_an_event_adds_to_the_figures_of_a_month() -> None:
    updated, due = "license.updated", DUE.isoformat()
    later, after_31_days = DUE + timedelta(days=365), DUE + timedelta(days=31)
    trial, bought = History(is_trial=True), History(is_trial=True, updates={9: {"trial": [True, False]}})
    gone = History(expired={9: due})
    both = {"renewed": "2026-02", "expiries": "2026-02"}
    rows: list[tuple[Event, History | None, Mapping[str, str]]] = [
        (happened("license.created"), None, {"made": "2026-03"}),
        (happened("license.imported"), None, {}),
        (happened("license.imported", created_at=int(DUE.timestamp())), None, {"made": "2026-02"}),
        (happened("license.created"), trial, {"trials": "2026-03"}),
        (happened("license.expired", expires_at=due), None, {"expiries": "2026-02"}),
        # A trial that ends is no expiry that could have been renewed; once it was bought, it is.
        (happened("license.expired", expires_at=due), trial, {}),
        (happened("license.expired", expires_at=due), bought, {"expiries": "2026-02"}),
        (happened(updated, trial=[True, False], expires_at=moved(DUE, later)), trial, {"bought": "2026-03"}),
        (happened(updated, expires_at=moved(DUE, later)), trial, {}),
        # Renewed late, with and without an event of the expiry; early; and for good.
        (happened(updated, expires_at=moved(DUE, later)), gone, {"renewed": "2026-02"}),
        (happened(updated, expires_at=moved(DUE, later)), None, both),
        (happened(updated, DUE - timedelta(days=30), expires_at=moved(DUE, later)), None, both),
        (happened(updated, expires_at=moved(DUE, None)), gone, {"renewed": "2026-02"}),
        # Too late, too early, put forward, and nothing of that.
        (happened(updated, after_31_days, expires_at=moved(DUE, later)), gone, {}),
        (happened(updated, DUE - timedelta(days=31), expires_at=moved(DUE, later)), None, {}),
        (happened(updated, expires_at=moved(later, DUE)), None, {}),
        (happened(updated, expires_at=moved(None, DUE)), None, {}),
        (happened(updated, note="changed"), None, {}),
        # By a shop, and by a person.
        (happened(updated, actor="connection:1", status=[3, Status.DISABLED]), None, {"refunded": "2026-03"}),
        (happened(updated, actor="connection:1", status=[3, Status.INACTIVE]), None, {}),
        (happened(updated, status=[3, Status.DISABLED]), None, {}),
    ]
    wrong = [(event, history) for event, history, expected in rows if months(event, history) != expected]
    assert not wrong


def test_a_figure_is_of_the_product_that_the_license_had_then() -> None:
    history = History(product_id=9, updates={50: {"product_id": [7, 8]}, 150: {"product_id": [8, 9]}})
    assert [history.product_at(id) for id in (1, 50, 100, 150, 200)] == [7, 8, 8, 9, 9]
    late = History(product_id=7, updates={50: {"status": [1, 2]}, 150: {"product_id": [None, 7]}})
    assert [late.product_at(id) for id in (1, 50, 100, 150, 200)] == [None, None, None, 7, 7]
    found = rules.count_months({ID: happened("license.created")}, {1: history})
    assert sorted((key[1], key[3], amount) for key, amount in found.items()) == [
        (0, "made", 1),
        (8, "made", 1),
    ]


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
    # Without licenses to compare with, none has more.
    assert not any(key[0] == LICENSE for key in rules.count_devices(many, {}, lambda *_: None, NOW))
