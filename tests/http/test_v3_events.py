"""The events over the management API: whole answers, cursors, and waiting."""

import asyncio
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest

from keywright.http.v3 import events
from keywright.identity.model import Permissions
from tests.http.v3_app import App, open_app
from tests.server import running, wait_until

DATABASES = ("sqlite",)


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.ask("POST", "/licenses", {"key": "KEY-0001", "product_id": 5})
        app.ask("POST", "/activate", {"license_key": "KEY-0001", "fingerprint": "f" * 20}, token=None)
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
        "details": {"activation_id": 1, "activation_count": 1},
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
    monkeypatch.setattr(events, "MAX_WAITING", 0)
    cursor = app.ask("GET", "/events?limit=200").json["next_cursor"]
    refused = app.ask("GET", f"/events?cursor={cursor}&wait_seconds=5")
    assert (refused.status, refused.code) == (503, "busy")
