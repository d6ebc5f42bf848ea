"""Several servers on one database sign with one key."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from keywright.registry import open_executor
from tests.concurrency.instances import instances
from tests.makers import create, rotate_key
from tests.server import RunningServer

JWT = {"Accept": "application/jwt"}


def kid_of(server: RunningServer) -> str:
    """The key that signs an answer of this server."""
    answer = httpx.post(f"{server.base_url}/v3/validate", json={"license_key": "KEY-1"}, headers=JWT)
    assert answer.status_code == 200, answer.text
    header = answer.text.partition(".")[0]
    return str(json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"])


def published(server: RunningServer) -> list[str]:
    keys = httpx.get(f"{server.base_url}/.well-known/jwks.json").json()["keys"]
    return [one["kid"] for one in keys]


def execute(server: RunningServer, command: Any) -> Any:
    with server.storage() as storage:
        (outcome,) = open_executor(storage).execute([command])
    return outcome


def test_servers_that_sign_for_the_first_time_at_once_have_one_key(tmp_path: Path, database: str) -> None:
    with instances(tmp_path, 3, database) as servers:
        execute(servers[0], create("KEY-1"))
        with ThreadPoolExecutor(24) as threads:
            signed = set(threads.map(kid_of, servers * 8))
        assert len(signed) == 1
        assert {kid for server in servers for kid in published(server)} == signed
        old, new = signed.pop(), execute(servers[0], rotate_key()).newest.kid
        # Each server looks again after a moment; none waits for a restart.
        for server in servers:
            while (kid := kid_of(server)) != new:
                assert kid == old
            assert published(server) == [new, old]
