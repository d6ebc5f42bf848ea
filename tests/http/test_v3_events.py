"""Events over the management API: complete responses, cursors, and waiting."""

import asyncio
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from keywright.core.errors import StoreUnavailable
from keywright.http.v3 import waiting
from keywright.identity.model import Permissions
from keywright.search import feed
from tests.http.v3_app import App, open_app
from tests.server import running, wait_until

DATABASES = ("sqlite",)


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.name_products(5, 6)
        app.ask("POST", "/licenses", {"key": "KEY-0001", "product_id": 5})
        device = {"name": "Anna's laptop", "app_version": "2.1"}
        call = {"license_key": "KEY-0001", "fingerprint": "f" * 20, **device}
        app.ask("POST", "/activate", call, token=None)
        app.ask("POST", "/policies", {"name": "Yearly"})
        yield app


def types(app: App, query: str = "", **given: Any) -> list[str]:
    return [one["type"] for one in app.ask("GET", f"/events{query}", **given).json["items"]]


def test_events_are_shown_whole_and_oldest_first(app: App) -> None:
    page = app.ask("GET", "/events?type=license.*")
    made, activated = page.json["items"]
    assert activated == {
        "id": made["id"] + 1,
        "type": "license.activated",
        "at": activated["at"],
        "actor": "program",
        "ip_address": "127.0.0.1",
        "subject": {"type": "license", "id": 1},
        "license_id": 1,
        "customer_id": None,
        "order": {"source": "", "id": None, "line": None, "index": 0},
        "details": {
            "activation_id": 1,
            "activation_count": 1,
            "name": "Anna's laptop",
            "app_version": "2.1",
        },
    }
    assert made["actor"].startswith("api_key:")
    assert page.json["next_cursor"]


def test_events_are_filtered(app: App) -> None:
    assert types(app, "?type=license.created") == ["license.created"]
    assert types(app, "?subject=license:1") == ["license.created", "license.activated"]
    assert types(app, "?subject=policy:1") == ["policy.created"]
    app.ask("POST", "/connections", {"shop": "generic", "name": "Shop"})
    assert types(app, "?subject=connection:1") == ["connection.added"]
    assert types(app, "?until=2020-01-01T00:00:00Z") == []
    assert types(app, "?since=2020-01-01T00:00:00Z&type=policy.*") == ["policy.created"]
    for query in ("type=license", "subject=license", "wait_seconds=31", "limit=0"):
        assert app.ask("GET", f"/events?{query}").code == "invalid_parameter"


def test_events_name_the_customer_and_the_order_also_of_a_deleted_license(app: App) -> None:
    order = {"source": "shop", "id": "1042", "line": "7", "index": 2}
    sold = {"key": "KEY-0002", "product_id": 6, "customer": {"email": "ada@example.com"}, "order": order}
    made = app.ask("POST", "/licenses", sold).json
    (event,) = app.ask("GET", "/events?subject=license:2").json["items"]
    assert (event["customer_id"], event["order"]) == (made["customer_id"], order)
    app.ask("DELETE", "/licenses/2")
    event = app.ask("GET", "/events?type=license.deleted").json["items"][0]
    assert (event["customer_id"], event["order"]) == (made["customer_id"], order)
    assert (event["details"]["status"], event["details"]["product_id"]) == ("active", 6)
    (event,) = app.ask("GET", "/events?type=customer.*").json["items"]
    assert (event["customer_id"], event["order"]) == (made["customer_id"], None)


def test_a_cursor_at_the_end_is_asked_for_what_is_new(app: App) -> None:
    cursor = app.ask("GET", "/events?limit=200").json["next_cursor"]
    empty = app.ask("GET", f"/events?limit=200&cursor={cursor}").json
    assert empty["items"] == []
    app.ask("PATCH", "/licenses/1", {"status": "disabled"})
    assert types(app, f"?cursor={empty['next_cursor']}&limit=1&wait_seconds=1") == ["license.updated"]


def test_a_key_for_one_product_sees_its_events_only(app: App) -> None:
    app.ask("POST", "/licenses", {"key": "KEY-0002", "product_id": 6})
    own = app.issue_token(Permissions.READ, product_id=6)
    assert types(app, token=own) == ["license.created"]


def test_a_call_waits_for_what_is_new(app: App) -> None:
    async def scenario(client: httpx.AsyncClient) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {app.token}"}

        async def wait(type: str) -> "asyncio.Task[httpx.Response]":
            path = f"/v3/events?type={type}&limit=200"
            first = (await client.get(path, headers=headers)).json()
            path += f"&cursor={first['next_cursor']}&wait_seconds=30"
            return asyncio.create_task(client.get(path, headers=headers))

        waiting, in_vain = await wait("license.*"), await wait("product.*")
        await asyncio.sleep(0)
        changed = await client.patch("/v3/licenses/1", json={"status": "disabled"}, headers=headers)
        assert changed.status_code == 200
        await asyncio.wait((waiting, in_vain), return_when=asyncio.FIRST_COMPLETED)
        assert not in_vain.done()
        in_vain.cancel()
        await asyncio.wait((in_vain,))
        answer: dict[str, Any] = waiting.result().json()
        return answer

    found = app.run(scenario)
    assert [one["type"] for one in found["items"]] == ["license.updated"]


def test_a_call_that_waits_ends_when_the_server_stops(tmp_path: Path) -> None:
    with running(tmp_path / "data", drain_seconds=60) as server, ThreadPoolExecutor(1) as pool:
        credentials = server.api_key()

        def ask(path: str) -> httpx.Response:
            return httpx.get(f"{server.base_url}/v3/events{path}", auth=credentials, timeout=25)

        cursor = ask("?limit=200").json()["next_cursor"]
        began = monotonic()
        waiting = pool.submit(ask, f"?cursor={cursor}&wait_seconds=30")
        wait_until(lambda: waiting.running() and monotonic() - began > 1, "the call to wait")
        server.signal(signal.SIGTERM)
        assert waiting.result().json()["items"] == []
        server.signal(signal.SIGINT)
        assert server.wait() == 0


def test_only_so_many_calls_wait(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    cursor = app.ask("GET", "/events?limit=200").json["next_cursor"]
    path, others = f"/events?limit=200&cursor={cursor}&wait_seconds=1", app.issue_token(Permissions.READ)
    assert app.ask("GET", path).status == 200
    monkeypatch.setattr(waiting, "MAX_OF_KEY", 1)

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        tokens = (app.token, app.token, others)
        calls = [client.get(f"/v3{path}", headers={"Authorization": f"Bearer {one}"}) for one in tokens]
        return await asyncio.gather(*calls)

    first, second, other = app.run(scenario)
    assert [one.status_code for one in (first, second, other)] == [200, 429, 200]
    assert second.json()["code"] == "too_many_requests"
    assert int(second.headers["retry-after"]) > 0
    monkeypatch.setattr(waiting, "MAX_WAITING", 0)
    assert app.ask("GET", path).code == "busy"


def test_one_look_serves_all_calls_that_wait(app: App) -> None:
    """As many calls as one API key may have wait for its product; they need neither separate queries nor the
    lane for lists.
    """
    headers = {"Authorization": f"Bearer {app.issue_token(Permissions.READ, product_id=5)}"}
    statements: list[str] = []

    def record(*given: Any) -> None:
        statements.append(given[2])

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        first = (await client.get("/v3/events?limit=200", headers=headers)).json()
        path = f"/v3/events?limit=200&cursor={first['next_cursor']}&wait_seconds=30"
        event.listen(Engine, "after_cursor_execute", record)
        calls = [asyncio.create_task(client.get(path, headers=headers)) for _ in range(waiting.MAX_OF_KEY)]
        own = {"Authorization": f"Bearer {app.token}"}
        for _ in range(20):
            assert (await client.get("/v3/licenses", headers=own)).status_code == 200
        await client.post("/v3/licenses", json={"key": "KEY-0006", "product_id": 6}, headers=own)
        await client.patch("/v3/licenses/1", json={"status": "disabled"}, headers=own)
        return list(await asyncio.gather(*calls))

    try:
        answers = app.run(scenario)
    finally:
        event.remove(Engine, "after_cursor_execute", record)
    assert {one.status_code for one in answers} == {200}
    found = {tuple(event["type"] for event in one.json()["items"]) for one in answers}
    assert found == {("license.updated",)}
    assert len([one for one in statements if "FROM events" in one]) < waiting.MAX_OF_KEY / 2


def test_who_waits_again_and_again_gets_every_event_once(app: App) -> None:
    headers = {"Authorization": f"Bearer {app.token}"}

    async def follow(client: httpx.AsyncClient, subject: str) -> list[int]:
        path, found = f"/v3/events?limit=3&wait_seconds=30{subject}", list[dict[str, Any]]()
        cursor = ""
        while not found or "status" not in found[-1]["details"]:
            page = (await client.get(path + cursor, headers=headers)).json()
            found += page["items"]
            cursor = f"&cursor={page['next_cursor']}"
        return [one["id"] for one in found]

    async def scenario(client: httpx.AsyncClient) -> list[list[int]]:
        followers = [asyncio.create_task(follow(client, one)) for one in ("", "&subject=license:1")]
        for number in range(12):
            key = {"key": f"KEY-1{number:03}", "product_id": 5 + number % 2}
            await client.post("/v3/licenses", json=key, headers=headers)
            await client.patch("/v3/licenses/1", json={"metadata": {"n": number}}, headers=headers)
        await client.patch("/v3/licenses/1", json={"status": "disabled"}, headers=headers)
        return list(await asyncio.gather(*followers))

    followed = app.run(scenario)
    happened = app.ask("GET", "/events?limit=200").json["items"]
    own = [one["id"] for one in happened if one["license_id"] == 1]
    assert (len(own), followed) == (15, [[one["id"] for one in happened], own])


def test_a_call_that_waits_is_told_of_an_outage(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    cursor = app.ask("GET", "/events?limit=200").json["next_cursor"]

    def fail(*_: object) -> int:
        raise StoreUnavailable("gone")

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        path = f"/v3/events?limit=200&cursor={cursor}&wait_seconds=30"
        headers = {"Authorization": f"Bearer {app.token}"}
        calls = [asyncio.create_task(client.get(path, headers=headers)) for _ in range(3)]
        # The first poll succeeds.
        await asyncio.wait(calls, timeout=0.5)
        monkeypatch.setattr(feed, "find_visible_id", fail)
        return list(await asyncio.gather(*calls))

    answers = app.run(scenario)
    assert [(one.status_code, one.json()["code"]) for one in answers] == [(503, "database_unavailable")] * 3
    monkeypatch.undo()
    assert types(app, f"?limit=200&cursor={cursor}&wait_seconds=1") == []
