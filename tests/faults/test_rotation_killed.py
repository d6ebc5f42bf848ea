"""A rotation of the secret is killed at any moment, again and again, while servers are used: it goes on, each
key is found all the time, and none is taken twice.
"""

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event as Signal
from typing import Any, NamedTuple

import pytest

from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from keywright.registry import open_executor
from tests.databases import a_postgres_url
from tests.http.asking import Client
from tests.makers import create_policy, generate
from tests.proving import size
from tests.server import KEYWRIGHT, NO_LIMITS, RunningServer, environment

#: Each kill costs the start of a process.
pytestmark = pytest.mark.timeout(600)

LICENSES = size(1_500, 3_000)
KILLS = size(4, 100)
#: When it is killed, in seconds after it was started.
SOONEST, LATEST = 0.2, 2.5


class Seen(NamedTuple):
    """What a program saw: how often a key was looked for, in vain, and the keys that it was given."""

    looked: int
    missed: list[str]
    sold: list[str]
    odd: list[int]


class Servers:
    """One server on an SQLite file, or two on a PostgreSQL database, each with its own data directory."""

    def __init__(self, stack: ExitStack, database: str, folder: Path) -> None:
        self.url = stack.enter_context(a_postgres_url(empty=True)) if database == "postgresql" else None
        self.folders = [folder / "one"] if self.url is None else [folder / "one", folder / "two"]
        self._stack = stack
        self._place: dict[str, Any] = {} if self.url is None else {"database_url": self.url}
        self._settings = Settings(data_dir=self.folders[0], **self._place)
        self.running: list[RunningServer] = []

    def start(self) -> None:
        """Start every server, with the secrets of the first one."""
        for folder in self.folders:
            if folder != self.folders[0]:
                folder.mkdir(exist_ok=True)
                for name in ("secret", "secret.previous"):
                    if (self.folders[0] / name).exists():
                        shutil.copy(self.folders[0] / name, folder)
            server = RunningServer(folder, **self._place, **NO_LIMITS)
            self._stack.callback(server.stop)
            self.running.append(server)

    def stop(self) -> None:
        for server in self.running:
            server.stop()
        self.running.clear()

    def rotate(self, *options: str) -> "subprocess.Popen[str]":
        """Begin, or go on."""
        command = [KEYWRIGHT, "secret", "rotate", *options, "--data-dir", str(self.folders[0])]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment(**self._place), text=True, stdout=pipe, stderr=pipe)

    def rotate_and_kill(self, *options: str) -> None:
        with self.rotate(*options) as process:
            # This is no wait for something: when it happens must have nothing to do with what goes on.
            time.sleep(random.uniform(SOONEST, LATEST))
            process.kill()

    @property
    def is_rotated(self) -> bool:
        """Whether the command has said so, or was about to."""
        return not (self.folders[0] / "secret.previous").exists()

    def sell(self) -> list[str]:
        """Some thousand licenses; their keys."""
        with closing(open_installation(self._settings)) as storage:
            open_executor(storage).execute([create_policy()])
            open_executor(storage).execute([generate(1, LICENSES)])
        return self.keys()

    def keys(self) -> list[str]:
        """Every license's key, as often as it is there."""
        with closing(open_installation(self._settings)) as storage, storage.read() as tx:
            return [
                one.key for one in license_store.list_licenses(tx, LicenseFilter(), after_id=0, limit=100_000)
            ]


def use(server: RunningServer, api_key: tuple[str, str], keys: list[str], is_over: Signal) -> Seen:
    """Validate what there is, and try to take keys: some that are taken, and some that others want, too."""
    seen, number = Seen(0, [], [], []), 0
    with Client(server, api_key) as vendor, Client(server) as program:
        while not is_over.is_set():
            number += 1
            key = random.choice(keys)
            if program.get(f"licenses/validate/{key}").status != 200:
                seen.missed.append(key)
            taken = vendor.post("licenses", json_body={"license_key": random.choice(keys)})
            wanted = f"WANTED-{number // 3}"
            fresh = vendor.post("licenses", json_body={"license_key": wanted})
            if fresh.status in (200, 201):
                seen.sold.append(wanted)
            seen.odd.extend(one for one in (taken.status, fresh.status) if one >= 500)
            if taken.status < 400:
                seen.odd.append(taken.status)
    return seen._replace(looked=number)


@contextmanager
def use_servers(servers: Servers, keys: list[str]) -> Iterator[list["Future[Seen]"]]:
    """Two programs at each server."""
    is_over, api_key = Signal(), servers.running[0].api_key()
    with ThreadPoolExecutor(4) as pool:
        programs = [pool.submit(use, one, api_key, keys, is_over) for one in servers.running * 2]
        try:
            yield programs
        finally:
            is_over.set()


@pytest.fixture
def servers(database: str, tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack, database, tmp_path)


def prepare(servers: Servers) -> list[str]:
    """Have every server know both secrets; on SQLite, have the rotation begin, too, which is killed there."""
    servers.start()
    keys = servers.sell()
    with servers.rotate() as process:
        _, said = process.communicate()
    if servers.url is None:
        assert "is in use by a server or another command" in said
        servers.stop()
        for _ in range(KILLS):
            servers.rotate_and_kill("--begin-only")
        with servers.rotate("--begin-only") as process:
            assert process.wait() == 0
    else:
        assert "do not have the new secret yet. Configure both secrets on every server" in said
        servers.stop()
    servers.start()
    return keys


def test_a_rotation_that_is_killed_goes_on_and_no_key_is_lost_or_taken_twice(servers: Servers) -> None:
    keys = prepare(servers)
    with use_servers(servers, keys) as programs:
        for _ in range(KILLS):
            if not servers.is_rotated:
                servers.rotate_and_kill()
        if not servers.is_rotated:
            with servers.rotate() as process:
                said, complaint = process.communicate()
            assert "The secret is rotated" in said, complaint
    seen = [one.result() for one in programs]
    assert sum(one.looked for one in seen) > 10
    assert [one.missed for one in seen] == [[]] * len(seen)
    assert [one.odd for one in seen] == [[]] * len(seen)
    sold = [key for one in seen for key in one.sold]
    assert sorted(servers.keys()) == sorted({*keys, *sold})
    assert len(sold) == len(set(sold)) > 0
    servers.running[0].assert_consistent()
    # What was started with both secrets goes on; the next start needs one.
    servers.stop()
    assert servers.is_rotated
    assert list(servers.folders[0].glob("secret.retired-*"))
    assert len(servers.keys()) == len(keys) + len(sold)
