"""The clock jumps by 400 days and back: nothing fails, nothing is rewritten, limits go on."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults.clocks import Clock
from tests.faults.judge import INNOCENT, judge_calls
from tests.faults.load import Programs, run_load
from tests.http.asking import Client, Reply, a_key, basic, license_path, moment, written
from tests.proving import record, size
from tests.server import NO_LIMITS, RunningServer, running, wait_until

#: Where the clock stands, in days, one after the other: from each moment to each other one.
JUMPS = (0, 400, 0, -400, 400, -400, 0)
ROUNDS = size(1, 20)
FEW_JUMPS = (0, 400, -400, 0)
#: Failures a minute; one more is allowed every second.
LIMIT = 60


class Shop(NamedTuple):
    """A server with a clock that can be set, and who sells licenses there."""

    server: RunningServer
    clock: Clock
    vendor: Client


@contextmanager
def a_shop(folder: Path, database: str, *alterations: str, **settings: Any) -> Iterator[Shop]:
    clock = Clock(folder)
    settings = {**NO_LIMITS, **settings}
    with running(folder / "data", database, program=clock.program(*alterations), **settings) as server:
        with Client(server, server.api_key()) as vendor:
            yield Shop(server, clock, vendor)
        clock.jump(0)
        server.assert_consistent()


def in_days(days: int) -> str:
    return written(datetime.now(UTC) + timedelta(days=days))


def jump(shop: Shop, days: int) -> None:
    """Set the server's clock, and see that it goes by that."""
    shop.clock.jump(days)
    created = shop.vendor.post("licenses", json_body={"license_key": a_key()}).data["createdAt"]
    assert abs(moment(created) - moment(in_days(days))) < timedelta(hours=1)


def all_calls(shop: Shop, old_key: str, old_token: str) -> list[Reply]:
    """Every kind of call, about a license and a token from another time, too."""
    vendor, key = shop.vendor, a_key()
    return [
        vendor.deactivate(old_key, old_token),
        vendor.activate(old_key, old_token),
        vendor.validate(old_key),
        vendor.post("licenses", json_body={"license_key": key, "valid_for": 30, "times_activated_max": 2}),
        vendor.activate(key),
        vendor.activate(key),
        vendor.deactivate(key),
        vendor.put(license_path(key), json_body={"expires_at": in_days(1_000)}),
        vendor.activate(key),
        vendor.get("licenses", query="per_page=10&page=1"),
        vendor.get(license_path(key)),
        vendor.delete(license_path(key)),
        vendor.get("/readyz"),
        vendor.get("/healthz"),
    ]


def test_no_call_fails_whatever_the_clock_says(tmp_path: Path, database: str) -> None:
    statuses: Counter[int] = Counter()
    with a_shop(tmp_path, database) as shop:
        keys = [shop.vendor.license() for _ in range(4)]
        old_key = shop.vendor.license()
        old_token = shop.vendor.activated(old_key)
        with run_load(shop.server, keys, Programs(1, 1)) as load:
            for days in JUMPS * ROUNDS:
                jump(shop, days)
                statuses += Counter(reply.status for reply in all_calls(shop, old_key, old_token))
                load.wait_for_successes()
            journal = load.finish()
        labels = Counter(
            label for (label,) in shop.server.sql("SELECT label FROM activations WHERE label LIKE 'call-%'")
        )
    statuses += Counter(answer.status for answer in load.answers)
    found = judge_calls(journal, labels)
    counted = {
        "jumps": len(JUMPS) * ROUNDS,
        "calls": statuses.total(),
        "answers 5xx": sum(number for status, number in statuses.items() if status >= 500),
        "acknowledged and not there": len(found.missing),
    }
    record("R8", database, counted)
    assert set(statuses) == {200}
    assert found == INNOCENT


def verdicts(shop: Shop, keys: dict[str, str]) -> set[str]:
    """The names of the licenses that can be activated now; the others have expired."""
    replies = {name: shop.vendor.activate(key) for name, key in keys.items()}
    refused = {reply.json["code"] for reply in replies.values() if reply.status != 200}
    assert refused <= {"lmfwc_rest_license_expired"}
    return {name for name, reply in replies.items() if reply.status == 200}


def expiries(shop: Shop, keys: dict[str, str]) -> dict[str, str | None]:
    return {name: shop.vendor.validate(key).data["expiresAt"] for name, key in keys.items()}


class Judged(NamedTuple):
    """What a server has said while its clock jumped."""

    #: Which licenses could be activated, by where the clock stood.
    usable: dict[int, list[set[str]]]
    #: How many licenses expire at another moment than before.
    rewritten: int

    def record(self, part: str) -> None:
        counted = {
            "jumps": sum(map(len, self.usable.values())),
            "expiries rewritten": self.rewritten,
            "expired and usable while the clock is right or ahead": sum(
                "expired" in names for days in (0, 400) for names in self.usable[days]
            ),
            "expired and usable while the clock is behind": sum(
                "expired" in names for names in self.usable[-400]
            ),
        }
        record("R8", part, counted)


def judge_while_it_jumps(shop: Shop) -> Judged:
    vendor = shop.vendor
    keys = {
        "expired": vendor.license(expires_at=in_days(-10)),
        "good": vendor.license(expires_at=in_days(10)),
        "good since it was activated": vendor.license(valid_for=30),
        "good for ever": vendor.license(),
    }
    vendor.activated(keys["good since it was activated"])
    before = expiries(shop, keys)
    usable: dict[int, list[set[str]]] = {}
    for days in JUMPS * ROUNDS:
        jump(shop, days)
        usable.setdefault(days, []).append(verdicts(shop, keys))
    after = expiries(shop, keys)
    return Judged(usable, sum(before[name] != after[name] for name in keys))


def test_expiry_follows_the_clock_and_is_never_rewritten_by_it(tmp_path: Path, database: str) -> None:
    with a_shop(tmp_path, database) as shop:
        found = judge_while_it_jumps(shop)
    found.record(f"{database}, expiry")
    good = {"good", "good since it was activated", "good for ever"}
    assert all(names == good for names in found.usable[0])
    assert all(names == {"good for ever"} for names in found.usable[400])
    assert all(names >= good for names in found.usable[-400])
    assert found.rewritten == 0


def once(shop: Shop, key: str) -> Reply:
    return shop.vendor.activate(key, headers={"Idempotency-Key": "once"})


def restart(shop: Shop) -> None:
    assert shop.server.stop() == 0
    shop.server.start()


def test_a_repeated_call_gets_its_first_answer_wherever_the_clock_has_gone(
    tmp_path: Path, database: str
) -> None:
    with a_shop(tmp_path, database) as shop:
        key = shop.vendor.license()
        first = once(shop, key)
        replies = []
        for days in JUMPS * ROUNDS:
            jump(shop, days)
            replies.append(once(shop, key))
        shop.clock.jump(-400)
        restart(shop)
        replies.append(once(shop, key))
        carried_out = shop.vendor.counter(key)
    record("R8", f"{database}, repeated calls", {"repeats": len(replies), "effects": carried_out})
    assert {(reply.status, reply.body) for reply in replies} == {(200, first.body)}
    assert {reply.header("idempotency-replayed") for reply in replies} == {"true"}
    assert carried_out == 1


def test_an_answer_is_kept_for_a_day_though_the_server_starts_with_its_clock_ahead(tmp_path: Path) -> None:
    with a_shop(tmp_path, "sqlite") as shop:
        key = shop.vendor.license()
        once(shop, key)
        shop.clock.jump(400)
        restart(shop)
        once(shop, key)
        carried_out = shop.vendor.counter(key)
        record("R8", "repeated after a start with the clock ahead", {"effects": carried_out})
        assert carried_out == 1


class Limits(NamedTuple):
    """What became of limits while the clock jumped."""

    #: How often as much was allowed after a jump as if nothing had been before.
    forgotten: int
    #: How often whoever is limited was told to wait longer than a limit lasts.
    stuck: int
    #: How long it took until one more was allowed, in seconds, at most.
    longest_wait: float


def limits_while_it_jumps(shop: Shop, ask: Callable[[], Reply]) -> Limits:
    """``ask`` does what is allowed only so often."""
    forgotten, stuck, longest_wait = 0, 0, 0.0
    limited_at, allowed = time.monotonic(), float(LIMIT)
    for days in FEW_JUMPS * ROUNDS:
        shop.clock.jump(days)
        failures = 0
        while (reply := ask()).status != 429:
            failures += 1
        # A second gives one more back.
        forgotten += failures > allowed + time.monotonic() - limited_at + 1
        limited_at, allowed = time.monotonic(), 0.0
        if int(reply.header("retry-after") or 0) > LIMIT:
            stuck += 1
            continue
        wait_until(lambda: ask().status != 429, "a limit that lets one in again")
        longest_wait = max(longest_wait, time.monotonic() - limited_at)
    return Limits(forgotten, stuck, longest_wait)


def unknown_key(shop: Shop) -> Reply:
    return shop.vendor.validate(a_key())


def bad_credentials(shop: Shop) -> Reply:
    return shop.vendor.get("licenses", headers={"Authorization": basic("ck_" + "0" * 40, "cs_" + "0" * 40)})


GUARDED = {"unknown_key_limit": LIMIT, "bad_credentials_limit": LIMIT}
BOTH_LIMITS = pytest.mark.parametrize("ask", [unknown_key, bad_credentials])


def record_limits(part: str, found: Limits) -> None:
    jumps = len(FEW_JUMPS) * ROUNDS
    counted = {"jumps": jumps, "limits forgotten": found.forgotten, "limits stuck": found.stuck}
    record("R8", part, counted, {"seconds until one more is allowed": found.longest_wait})


@BOTH_LIMITS
def test_limits_go_on_wherever_the_clock_goes(tmp_path: Path, ask: Callable[[Shop], Reply]) -> None:
    with a_shop(tmp_path, "sqlite", **GUARDED) as shop:
        found = limits_while_it_jumps(shop, partial(ask, shop))
    record_limits("limits", found)
    assert (found.forgotten, found.stuck) == (0, 0)


def test_control_limits_by_the_clock_are_forgotten_or_stuck(tmp_path: Path) -> None:
    with a_shop(tmp_path, "sqlite", "limiting by the clock", **GUARDED) as shop:
        found = limits_while_it_jumps(shop, partial(unknown_key, shop))
    record_limits("control: limits by the clock", found)
    assert found.forgotten
    assert found.stuck


def test_control_a_rewritten_expiry_is_found(tmp_path: Path) -> None:
    with a_shop(tmp_path, "sqlite", "expiring anew") as shop:
        found = judge_while_it_jumps(shop)
    found.record("control: expiring anew")
    assert found.rewritten
