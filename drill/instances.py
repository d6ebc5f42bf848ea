"""Instances of Keywright on the cluster, each a process of its own, and the licenses they are asked for."""

import base64
import http.client
import json
import os
import re
import secrets
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drill.journal import LicenseKey
from drill.trouble import Trouble, wait_for

API = "/wp-json/lmfwc/v2"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
_TIMEOUT = 60.0
_STOP_SECONDS = 30.0
_ROOMS = {"limited": 4, "unlimited": None}
_RECIPE = {"charset": "ABCDEFGHJKLMNPQRSTUVWXYZ23456789", "chunks": 5, "chunk_length": 5, "separator": "-"}


class Instances:
    """Running instances with one secret; ``ports`` are where they answer."""

    def __init__(self, folder: Path, database_url: str, number: int) -> None:
        self._folder = folder
        self._environment = _environment(database_url)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._number = number
        self._credentials = ""
        self._generators: dict[str, int] = {}
        self.ports: list[int] = []

    def start(self) -> None:
        """Start them, one after the other; returns when all answer."""
        for number in range(1, self._number + 1):
            self.ports.append(self._start(f"keywright{number}"))
        made = json.loads(self._run("apikey", "create", "--name=drill", "--permissions=read_write", "--json"))
        pair = f"{made['consumer_key']}:{made['consumer_secret']}"
        self._credentials = f"Basic {base64.b64encode(pair.encode()).decode()}"
        for name, places in _ROOMS.items():
            recipe = {**_RECIPE, "name": name, "times_activated_max": places}
            self._generators[name] = self._post("generators", recipe)["id"]

    def stop(self) -> None:
        """End them as one should. Raises ``Trouble`` when one does not end."""
        for process in self._processes:
            process.terminate()
        for number, process in enumerate(self._processes, 1):
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired as problem:
                raise Trouble(f"instance {number} of Keywright does not stop") from problem

    def kill(self) -> None:
        """``kill -9`` of those that still run."""
        for process in self._processes:
            process.kill()
            process.wait()

    def check(self) -> None:
        """Raises ``Trouble`` when one has ended."""
        for number, process in enumerate(self._processes, 1):
            if process.poll() is not None:
                log = self._log(f"keywright{number}")
                raise Trouble(f"instance {number} of Keywright has ended:\n{log.read_text()[-2000:]}")

    def make_licenses(self, limited: int, unlimited: int) -> list[LicenseKey]:
        """New licenses: so many with few places, so many without a limit."""
        found = []
        for name, amount in (("limited", limited), ("unlimited", unlimited)):
            made = self._post(f"generators/{self._generators[name]}/generate", {"amount": amount})
            found += [LicenseKey(one["id"], one["licenseKey"], one["timesActivatedMax"]) for one in made]
        return found

    def _start(self, name: str) -> int:
        log = self._log(name)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*_keywright("serve", self._folder / name), "--port=0"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,
            )
        self._processes.append(process)

        def port() -> int | None:
            self.check()
            found = _ADDRESS.search(log.read_text())
            return int(found[1]) if found else None

        return wait_for(f"the address of {name}", port, timeout=_TIMEOUT)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _run(self, *arguments: str) -> bytes:
        done = subprocess.run(
            [*_keywright(*arguments[:2], self._folder / "keywright1"), *arguments[2:]],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise Trouble(f"keywright {' '.join(arguments)}: {done.stderr.decode()}")
        return done.stdout

    def _post(self, path: str, fields: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=_TIMEOUT)
        headers = {"Authorization": self._credentials, "Content-Type": "application/json"}
        try:
            connection.request("POST", f"{API}/{path}", json.dumps(fields), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except OSError as problem:
            raise Trouble(f"{path}: {problem}") from problem
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise Trouble(f"{path} was answered {response.status}: {answer}")
        return answer["data"]


@contextmanager
def running(folder: Path, database_url: str, number: int = 2) -> Iterator[Instances]:
    """So many instances on this database, for as long as the block runs."""
    instances = Instances(folder, database_url, number)
    try:
        instances.start()
        yield instances
        instances.stop()
    finally:
        instances.kill()


def _keywright(*what: str | Path) -> list[str]:
    *command, data_dir = map(str, what)
    program = Path(sysconfig.get_path("scripts")) / "keywright"
    return [str(program), *command, f"--data-dir={data_dir}"]


def _environment(database_url: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KEYWRIGHT_")}
    return {
        **inherited,
        "PYTHONUNBUFFERED": "1",
        "KEYWRIGHT_DATABASE_URL": database_url,
        "KEYWRIGHT_SECRET": secrets.token_hex(32),
        "KEYWRIGHT_UNKNOWN_KEY_LIMIT": "0",
        "KEYWRIGHT_LICENSE_CHANGE_LIMIT": "0",
        "KEYWRIGHT_ADDRESS_CHANGE_LIMIT": "0",
        "KEYWRIGHT_LOG_FORMAT": "json",
    }
