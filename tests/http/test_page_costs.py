"""The cost of pages, in function calls of Keywright and its templates, which do not depend on the machine."""

import asyncio
import sys
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

import keywright
from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.core.command import Context
from keywright.http.app import create_app
from keywright.http.pages.runner import Runner
from keywright.registry import open_executor
from tests.makers import TOKEN, an_origin, create, create_user, start_session

DATABASES = ("sqlite",)
_HERE = str(Path(keywright.__file__).parent)
_LICENSES = 50


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_list_of_50_licenses_makes_at_most_3000_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_HERE):
            calls[name.removeprefix(_HERE)] += 1

    run_locked = Runner._run_locked

    def run_counted(runner: Runner, work: Any) -> Any:
        calls.clear()
        sys.setprofile(count)
        try:
            return run_locked(runner, work)
        finally:
            sys.setprofile(None)

    async def ask() -> None:
        state: dict[str, Any] = {}
        app = create_app(settings, storage)
        said: asyncio.Queue[Any] = asyncio.Queue()
        heard: asyncio.Queue[Any] = asyncio.Queue()
        lifespan = asyncio.ensure_future(app({"type": "lifespan", "state": state}, said.get, heard.put))

        async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "state": state}, receive, send)

        await said.put({"type": "lifespan.startup"})
        await heard.get()
        transport = httpx.ASGITransport(with_state)
        headers = {"Cookie": f"keywright={TOKEN}", "Accept-Language": language}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(2):
                # Warm up: the first request loads the templates and the catalog.
                answer = await client.get("/admin/licenses", headers=headers)
                assert (answer.status_code, answer.text.count('name="id"')) == (200, _LICENSES)
        await said.put({"type": "lifespan.shutdown"})
        await lifespan

    monkeypatch.setattr(Runner, "_run_locked", run_counted)
    settings = Settings(data_dir=tmp_path / "data")
    now = Context(datetime.now(UTC).replace(microsecond=0), an_origin())
    with closing(open_installation(settings)) as storage:
        licenses = [
            create(f"KEY-{number}", number % 5 or None, product_id=number % 3, context=now)
            for number in range(_LICENSES)
        ]
        (user, *_) = open_executor(storage).execute([create_user(context=now), *licenses])
        open_executor(storage).execute([start_session(user.id, context=now)])
        asyncio.run(ask())
    most = "\n".join(f"{number} {name}" for name, number in calls.most_common(25))
    assert calls.total() <= 3000, f"{calls.total()}\n{most}"
