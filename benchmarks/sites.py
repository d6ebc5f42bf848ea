"""Measure WordPress sites that check their license and their version twice a day over ``/edd``: the SQL
statements per call, the failures, and the latency. The server runs in this process.

python -m benchmarks.sites [SITES]
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

import httpx
from sqlalchemy import Engine, event

from tests.http.test_edd import FORM, TERMS, release, updater
from tests.http.v3_app import open_app

_SITES, _AT_ONCE, _TIMES = 1_000, 64, 2


class Day:
    """The calls of a day."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client, self._free = client, asyncio.Semaphore(_AT_ONCE)
        #: The duration of each call, in milliseconds.
        self.took: list[float] = []
        self.failed = 0

    async def call(self, site: int, action: str, wanted: dict[str, Any]) -> None:
        """Make a site's call; count a failure unless the response contains all ``wanted`` values."""
        fields = {"license": f"SITE-{site}", "item_id": "17", "url": f"https://site{site}.example.com/blog"}
        about = updater() if action == "get_version" else {}
        async with self._free:
            began = perf_counter()
            body = urlencode({"edd_action": action} | about | fields)
            answer = await self._client.post("/edd", content=body, headers=FORM)
            self.took.append((perf_counter() - began) * 1000)
        found = answer.json() if answer.status_code == httpx.codes.OK else {}
        self.failed += any(found.get(name) != value for name, value in wanted.items())


def main() -> None:
    """Create and activate the licenses, simulate a day, and print the figures."""
    sites = int(sys.argv[1]) if len(sys.argv) > 1 else _SITES
    sent: list[str] = []
    usual = {"product_id": 17, "status": "active", "terms": TERMS}

    async def activate(client: httpx.AsyncClient) -> Day:
        for number in range(sites):
            await client.post("/v3/licenses", headers=vendor, json=usual | {"key": f"SITE-{number}"})
        day = Day(client)
        await asyncio.gather(*(day.call(n, "activate_license", {"success": True}) for n in range(sites)))
        return day

    async def play(client: httpx.AsyncClient) -> Day:
        day = Day(client)
        for _ in range(_TIMES):
            checks = (day.call(n, "check_license", {"license": "valid"}) for n in range(sites))
            versions = (day.call(n, "get_version", {"new_version": "1.1"}) for n in range(sites))
            await asyncio.gather(*checks, *versions)
        return day

    with (
        tempfile.TemporaryDirectory() as folder,
        open_app(Path(folder), files_dir=f"{folder}/files", unknown_key_limit=0) as app,
    ):
        product = {"id": 17, "name": "Paint & Draw", "code": "paint"}
        if app.ask("POST", "/products", product).status != httpx.codes.CREATED:
            raise RuntimeError("the product could not be created")
        release(app, "1.1")
        vendor = {"Authorization": f"Bearer {app.token}"}
        before = app.run(activate)
        event.listen(
            Engine, "before_cursor_execute", lambda _c, _cursor, statement, *_: sent.append(statement)
        )
        day = app.run(play)
    calls = len(day.took)
    print(f"{sites:,} sites, {calls:,} calls, {_AT_ONCE} concurrent; {before.failed + day.failed} failed")
    print(f"{len(sent) / calls:.2f} statements per call; p99 {quantiles(day.took, n=100)[-1]:.1f} ms")


if __name__ == "__main__":
    main()
