"""Devices that activate at once, from 64 connections: no limit is exceeded, and a device gets one place."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.concurrency.selling import assert_well
from tests.http.asking import Client
from tests.server import NO_LIMITS, RunningServer, running

CONNECTIONS = 64
LIMIT = 20

#: A request's body, and the status and body of its answer; None where the server has died.
Entry = tuple[dict[str, str], int | None, Any]


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server") / "data", database, **NO_LIMITS) as server:
        yield server
        assert_well(server)


def a_license(server: RunningServer, limit: int | None) -> str:
    with Client(server, server.api_key()) as vendor:
        return vendor.license(times_activated_max=limit)


async def call_all(client: httpx.AsyncClient, path: str, bodies: Sequence[dict[str, str]]) -> list[Entry]:
    """Send these bodies, as many at once as there are connections; no more when the server has died."""
    waiting = iter(bodies)
    journal: list[Entry] = []

    async def call_next() -> None:
        for body in waiting:
            try:
                reply = await client.post(path, json=body)
            except httpx.TransportError:
                journal.append((body, None, None))
                return
            else:
                journal.append((body, reply.status_code, reply.json()))

    await asyncio.gather(*(call_next() for _ in range(CONNECTIONS)))
    return journal


def call(server: RunningServer, path: str, bodies: Sequence[dict[str, str]]) -> list[Entry]:
    async def main() -> list[Entry]:
        limits = httpx.Limits(max_connections=CONNECTIONS)
        async with httpx.AsyncClient(base_url=server.base_url, limits=limits, timeout=60) as client:
            return await call_all(client, path, bodies)

    return asyncio.run(main())


def of_devices(key: str, count: int, times: int = 1) -> list[dict[str, str]]:
    """The calls of so many devices, each so many times."""
    return [{"license_key": key, "fingerprint": f"{key}-{n % count:04d}"} for n in range(count * times)]


def places(journal: Sequence[Entry]) -> list[int]:
    """The numbers of the places that were newly taken, as the answers tell them."""
    return sorted(body["license"]["activations"] for _, status, body in journal if status == 201)


def test_many_devices_get_as_many_places_as_there_are(server: RunningServer) -> None:
    key = a_license(server, LIMIT)
    journal = call(server, "/v3/activate", of_devices(key, 100, times=3))
    assert places(journal) == list(range(1, LIMIT + 1))
    assert {status for _, status, _ in journal} == {200, 201, 409}
    refused = {body["code"] for _, status, body in journal if status == 409}
    assert refused == {"limit_reached"}
    holding = {body["fingerprint"] for body, status, _ in journal if status in (200, 201)}
    validated = call(server, "/v3/validate", of_devices(key, 100))
    assert {one["fingerprint"] for one, _, body in validated if body["valid"]} == holding
    assert len(holding) == LIMIT


def test_a_device_that_comes_64_times_at_once_gets_one_place(server: RunningServer) -> None:
    key = a_license(server, None)
    journal = call(server, "/v3/activate", of_devices(key, 1, times=CONNECTIONS))
    assert Counter(status for _, status, _ in journal) == {201: 1, 200: CONNECTIONS - 1}
    assert len({body["activation"]["token"] for _, _, body in journal}) == 1
    assert {body["license"]["activations"] for _, _, body in journal} == {1}


def test_calls_without_a_device_take_a_place_each(server: RunningServer) -> None:
    """The control of the test above: only the fingerprint makes it one place."""
    key = a_license(server, None)
    journal = call(server, "/v3/activate", [{"license_key": key}] * CONNECTIONS)
    assert places(journal) == list(range(1, CONNECTIONS + 1))


def test_places_come_and_go_and_are_never_more_than_the_limit(server: RunningServer) -> None:
    key = a_license(server, 3)
    bodies = of_devices(key, 16, times=10)

    async def main() -> list[list[Entry]]:
        limits = httpx.Limits(max_connections=CONNECTIONS)
        async with httpx.AsyncClient(base_url=server.base_url, limits=limits, timeout=60) as client:
            calls = (call_all(client, f"/v3/{path}", bodies) for path in ("activate", "deactivate"))
            return list(await asyncio.gather(*calls))

    activated, deactivated = asyncio.run(main())
    taken = [body for _, status, body in activated if status in (200, 201)]
    assert {one["license"]["activations"] for one in taken} <= {1, 2, 3}
    given_up = sum(body["was_active"] for _, status, body in deactivated if status == 200)
    validated = call(server, "/v3/validate", of_devices(key, 16))
    held = sum(body["valid"] for _, _, body in validated)
    assert held == validated[0][2]["license"]["activations"] <= 3
    assert given_up > 0


def test_what_was_acknowledged_survives_a_kill(database: str, tmp_path: Path) -> None:
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        key = a_license(server, None)
        bodies = of_devices(key, 2_000)

        async def main() -> list[Entry]:
            limits = httpx.Limits(max_connections=CONNECTIONS)
            async with httpx.AsyncClient(base_url=server.base_url, limits=limits, timeout=60) as client:
                running_calls = asyncio.create_task(call_all(client, "/v3/activate", bodies))
                while not running_calls.done():
                    reply = await client.post("/v3/validate", json={"license_key": key})
                    if reply.json()["license"]["activations"] > CONNECTIONS:
                        break
                server.kill()
                return await running_calls

        journal = asyncio.run(main())
        server.start()
        acknowledged = {body["fingerprint"] for body, status, _ in journal if status == 201}
        asked = [body for body, _, _ in journal]
        assert CONNECTIONS < len(acknowledged) < len(bodies), "it was not killed in the middle"
        validated = call(server, "/v3/validate", asked)
        valid = {one["fingerprint"] for one, _, body in validated if body["valid"]}
        assert acknowledged <= valid
        assert len(valid) == validated[0][2]["license"]["activations"]
        again = call(server, "/v3/activate", asked)
        assert {body["fingerprint"] for body, status, _ in again if status == 200} == valid
        assert places(again) == list(range(len(valid) + 1, len(asked) + 1))
        server.assert_consistent()
