"""Devices that activate at once, from 64 connections: no limit is exceeded, and a device gets one place."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.concurrency.posting import Posted, Program, run_programs
from tests.concurrency.selling import CHECK, assert_well
from tests.histories import faulty
from tests.http.asking import Client
from tests.proving import record, size
from tests.server import NO_LIMITS, RunningServer, running

CONNECTIONS = 64
LIMIT = 20


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server") / "data", database, **NO_LIMITS) as server:
        yield server
        assert_well(server)


def a_license(server: RunningServer, limit: int | None) -> str:
    with Client(server, server.api_key()) as vendor:
        return vendor.license(times_activated_max=limit)


def call(server: RunningServer, path: str, bodies: Iterable[dict[str, str]]) -> list[Posted]:
    """Send these bodies, as many at once as there are connections; no more when the server has died."""
    return call_all(server, {path: bodies})


def call_all(server: RunningServer, bodies: Mapping[str, Iterable[dict[str, str]]]) -> list[Posted]:
    """The same for several paths at once."""
    waiting = [(path, iter(many)) for path, many in bodies.items()]

    async def play(program: Program) -> list[Posted]:
        path, many = waiting[program.number % len(waiting)]
        journal: list[Posted] = []
        for body in many:
            journal.append(await program.post(path, body))
            if journal[-1].status == 0:
                break
        return journal

    return run_programs([server], CONNECTIONS * len(waiting), play)


def of_devices(key: str, count: int, times: int = 1) -> list[dict[str, str]]:
    """The calls of so many devices, each so many times."""
    return [{"license_key": key, "fingerprint": f"{key}-{n % count:04d}"} for n in range(count * times)]


def places(journal: Sequence[Posted]) -> list[int]:
    """The numbers of the places that were newly taken, as the answers tell them."""
    return sorted(one.json["license"]["activations"] for one in journal if one.status == 201)


def valid_devices(journal: Sequence[Posted]) -> set[str]:
    """The devices whose validations say that they are valid."""
    return {one.body["fingerprint"] for one in journal if one.json["valid"]}


def test_many_devices_get_as_many_places_as_there_are(server: RunningServer, database: str) -> None:
    key = a_license(server, LIMIT)
    journal = call(server, "/activate", of_devices(key, 100, times=size(3, 2_000)))
    given = places(journal)
    over = max(0, len(given) - LIMIT)
    fired = server.log.count(CHECK)
    figures = {"attempts": len(journal), "successes over the limit": over, "check fired": fired}
    record("R1", f"devices over v3, {database}", figures)
    assert given == list(range(1, LIMIT + 1))
    assert {one.status for one in journal} == {200, 201, 409}
    assert {one.json["code"] for one in journal if one.status == 409} == {"limit_reached"}
    holding = {one.body["fingerprint"] for one in journal if one.status in (200, 201)}
    assert valid_devices(call(server, "/validate", of_devices(key, 100))) == holding
    assert len(holding) == LIMIT


def test_a_device_that_comes_64_times_at_once_gets_one_place(server: RunningServer) -> None:
    key = a_license(server, None)
    journal = call(server, "/activate", of_devices(key, 1, times=CONNECTIONS))
    assert Counter(one.status for one in journal) == {201: 1, 200: CONNECTIONS - 1}
    assert len({one.json["activation"]["token"] for one in journal}) == 1
    assert {one.json["license"]["activations"] for one in journal} == {1}


def test_calls_without_a_device_take_a_place_each(server: RunningServer) -> None:
    """The control of the test above: only the fingerprint makes it one place."""
    key = a_license(server, None)
    journal = call(server, "/activate", [{"license_key": key}] * CONNECTIONS)
    assert places(journal) == list(range(1, CONNECTIONS + 1))


def test_places_come_and_go_and_are_never_more_than_the_limit(server: RunningServer) -> None:
    key = a_license(server, 3)
    bodies = of_devices(key, 16, times=10)
    journal = call_all(server, {"/activate": bodies, "/deactivate": bodies})
    taken = [one.json for one in journal if one.path == "/activate" and one.status in (200, 201)]
    assert {one["license"]["activations"] for one in taken} <= {1, 2, 3}
    released = [one.json for one in journal if one.path == "/deactivate" and one.status == 200]
    validated = call(server, "/validate", of_devices(key, 16))
    assert len(valid_devices(validated)) == validated[0].json["license"]["activations"] <= 3
    assert sum(one["was_active"] for one in released) > 0


def dying(server: RunningServer, bodies: Sequence[dict[str, str]]) -> Iterator[dict[str, str]]:
    """These bodies; the server is killed when half of them were sent, and some are not answered yet."""
    for number, body in enumerate(bodies):
        if number == len(bodies) // 2:
            server.kill()
        yield body


def test_what_was_acknowledged_survives_a_kill(database: str, tmp_path: Path) -> None:
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        key = a_license(server, None)
        bodies = of_devices(key, size(8, 30) * CONNECTIONS)
        journal = call(server, "/activate", dying(server, bodies))
        server.start()
        acknowledged = {one.body["fingerprint"] for one in journal if one.status == 201}
        asked = [dict(one.body) for one in journal]
        assert CONNECTIONS < len(acknowledged) < len(bodies), "it was not killed in the middle"
        validated = call(server, "/validate", asked)
        valid = valid_devices(validated)
        assert acknowledged <= valid
        assert len(valid) == validated[0].json["license"]["activations"]
        again = call(server, "/activate", asked)
        assert {one.body["fingerprint"] for one in again if one.status == 200} == valid
        assert places(again) == list(range(len(valid) + 1, len(asked) + 1))
        server.assert_consistent()


#: Places of a license that sites share, and sites that take none; attempts for one license.
FREE, PER_LICENSE = 5, 300
_SPELLINGS = ("https://{}/", "http://www.{}", "{}:8080/", "HTTPS://{}/?a=b", "//{}/#top", "https%3A%2F%2F{}")


class Tried(NamedTuple):
    """What became of attempts to activate; all but the first figure of a right server are 0."""

    attempts: int
    #: Also those of sites that take no place, over the limit of these.
    successes_over_the_limit: int
    places_not_given: int
    other_answers: int
    unlike_the_database: int
    check_fired: int


def try_sites(server: RunningServer, number: int) -> Tried:
    """Attempts of 90 sites, in any spelling and over ``/edd``, for a license with ``LIMIT`` places, of which
    a third is on a host that is not counted.
    """
    key, checked_before = f"SITES-{number}", server.log.count(CHECK)
    terms = {"max_activations": LIMIT, "uncounted_hosts": ["*.test"], "max_uncounted": FREE}
    with Client(server, server.api_key()) as vendor:
        body = {"key": key, "status": "active", "terms": terms}
        license = vendor.ask("POST", "/v3/licenses", json_body=body)
        assert license.status == 201, license
    sites = [f"s{n % 90}.{'test' if n % 3 == 0 else 'com'}" for n in range(PER_LICENSE)]

    async def play() -> list[tuple[str, int, dict[str, Any]]]:
        # The server closes a connection that is idle for 5 s, which may meet the next call on it.
        limits = httpx.Limits(max_connections=CONNECTIONS, keepalive_expiry=2)
        async with httpx.AsyncClient(base_url=server.base_url, limits=limits, timeout=60) as client:

            async def activate(site: str) -> tuple[str, int, dict[str, Any]]:
                url = random.choice(_SPELLINGS).format(site)
                form = {"edd_action": "activate_license", "license": key, "url": url}
                answer = await client.post("/edd", data=form)
                return site, answer.status_code, answer.json()

            return await asyncio.gather(*map(activate, random.sample(sites, len(sites))))

    journal = asyncio.run(play())
    active = {site: body.get("is_local", False) for site, _, body in journal if body["success"]}
    counted, uncounted = list(active.values()).count(False), list(active.values()).count(True)
    refused = {body.get("error") for _, status, body in journal if status != 200 or not body["success"]}
    stored = server.sql("SELECT fingerprint FROM activations WHERE license_id = ?", license.json["id"])
    return Tried(
        attempts=len(journal),
        successes_over_the_limit=max(0, counted - LIMIT) + max(0, uncounted - FREE),
        places_not_given=max(0, LIMIT - counted) + max(0, FREE - uncounted),
        other_answers=len(refused - {"no_activations_left"}),
        unlike_the_database=len({f"site:{one}" for one in active} ^ {one for (one,) in stored}),
        check_fired=server.log.count(CHECK) - checked_before,
    )


def write_down(part: str, tried: Sequence[Tried]) -> Tried:
    total = Tried(*map(sum, zip(*tried, strict=True)))
    record("R1", part, {name.replace("_", " "): figure for name, figure in total._asdict().items()})
    return total


def test_sites_at_once_pass_no_limit_and_a_site_takes_one_place(server: RunningServer, database: str) -> None:
    amount = size(1, 600)
    total = write_down(f"sites over /edd, {database}", [try_sites(server, n) for n in range(amount)])
    assert total == Tried(amount * PER_LICENSE, 0, 0, 0, 0, 0)


@pytest.mark.tier("rest")
@pytest.mark.parametrize("fault", [faulty.one_place_too_many_unchecked, faulty.uncounted_sites_without_limit])
def test_a_site_too_many_is_found(fault: Callable[[], None], tmp_path: Path) -> None:
    with running(tmp_path / "data", program=faulty.program(fault), **NO_LIMITS) as server:
        part = f"control: {fault.__name__.replace('_', ' ')}, sites over /edd"
        tried = write_down(part, [try_sites(server, 1)])
    # 30 of the 90 sites are on a host that is not counted.
    over = 1 if fault is faulty.one_place_too_many_unchecked else 30 - FREE
    assert tried.successes_over_the_limit == over
