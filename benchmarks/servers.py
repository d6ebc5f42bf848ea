"""Run the measured server: a separate process with default settings, and its request log in a file."""

import http.client
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.installations import Filled
from keywright.config import Settings
from keywright.config.settings import PREFIX

LICENSES = "/wp-json/lmfwc/v2/licenses"
_WITH_CONSTANT = Path(__file__).with_name("server.py")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
#: The timeout for starting, stopping, becoming idle, and one response, in seconds.
_TIMEOUT = 60
#: A server with a lower processor load is idle; and the interval of checks, in seconds.
_IDLE, _GLANCE = 0.05, 1.0
#: The limits on changes per minute, by address and by license.
_CHANGE_LIMITS = frozenset({"license_change_limit", "address_change_limit"})


class Server(NamedTuple):
    """A running server."""

    process: "subprocess.Popen[str]"
    url: str

    def memory(self, what: str) -> float | None:
        """``VmRSS`` (current) or ``VmHWM`` (peak memory) of all its processes in MiB; None without /proc."""
        try:
            lines = [line for file in self._files("status") for line in file.read_text().splitlines()]
        except OSError:
            return None
        return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{what}:"))

    def processor_seconds(self) -> float | None:
        """The processor time so far, in user and system mode; None without /proc."""
        try:
            stats = [file.read_text() for file in self._files("stat")]
        except OSError:
            return None
        # proc(5): utime and stime are the 14th and 15th fields; the 2nd may have spaces in it.
        fields = [stat.rpartition(")")[2].split() for stat in stats]
        return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")

    def wait_until_idle(self) -> None:
        """Wait until background work, such as the projection, has caught up; a minute at most."""
        end = monotonic() + _TIMEOUT
        used = self.processor_seconds()
        while used is not None and monotonic() < end:
            sleep(_GLANCE)
            before, used = used, self.processor_seconds()
            if used is not None and used - before < _GLANCE * _IDLE:
                return

    def _files(self, name: str) -> list[Path]:
        """This /proc file of the process and its workers. Raises ``OSError`` without /proc."""
        folder = Path(f"/proc/{self.process.pid}")
        children = (folder / "task" / str(self.process.pid) / "children").read_text().split()
        return [folder / name, *(Path("/proc") / child / name for child in children)]


def unlimited(known: Container[str]) -> dict[str, str]:
    """The environment for a benchmark: it disables limits on changes, if the program has these settings,
    because the benchmark makes more changes from one address than any honest caller.
    """
    return {f"{PREFIX}{name.upper()}": "0" for name in sorted(_CHANGE_LIMITS) if name in known}


#: The environment of most measured servers.
UNLIMITED = unlimited(Settings.model_fields)


def limits() -> dict[str, int]:
    """The limits of most measured servers: calls per minute, queue lengths, sizes. 0 means no limit."""
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    found = {name: value for name, value in defaults.items() if name.endswith("_limit")}
    return found | dict.fromkeys(found.keys() & _CHANGE_LIMITS, 0)


def keywright(*arguments: str) -> list[str]:
    """The command line of the installed program."""
    return [str(Path(sysconfig.get_path("scripts")) / "keywright"), *arguments]


@contextmanager
def running(filled: Filled, settings: Mapping[str, str] = UNLIMITED) -> Iterator[Server]:
    """Run the server of this installation, with the constant response; it is warmed up."""
    start = [sys.executable, "-P", str(_WITH_CONSTANT), str(filled.constant_file)]
    with started(start, filled.data_dir, settings) as server:
        validated = get(server.url, f"{LICENSES}/validate/{filled.constant_key}")
        if validated != get(server.url, f"{LICENSES}/constant/x"):
            raise RuntimeError("the constant response differs from the server's response")
        yield server


@contextmanager
def started(
    program: Sequence[str], data_dir: Path, settings: Mapping[str, str] = UNLIMITED
) -> Iterator[Server]:
    """Run ``serve`` of this program on a free port, and wait until it accepts connections. ``settings`` are
    environment variables.
    """
    data_dir.mkdir(exist_ok=True)
    log_file = data_dir / "requests.log"
    serve = ["serve", "--port", "0", "--data-dir", str(data_dir)]
    with log_file.open("w") as log:
        process = subprocess.Popen(
            [*program, *serve],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=data_dir,
            env={**environment(), **settings},
        )
        try:
            yield Server(process, _announced(process, log_file))
        finally:
            _stop(process)


def environment() -> dict[str, str]:
    """The environment of this process, without Keywright's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def get(url: str, path: str) -> bytes:
    """Return the body of a response. Raises ``RuntimeError`` unless its status is 200."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise RuntimeError(f"{path} was answered {response.status}: {body.decode()}")
    return body


def _announced(process: "subprocess.Popen[str]", log_file: Path) -> str:
    """The URL that the server prints when it is ready."""
    too_late = threading.Timer(_TIMEOUT, process.kill)
    too_late.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := _ADDRESS.search(line):
                return found[0]
    finally:
        too_late.cancel()
    raise RuntimeError(f"the server did not start:\n{log_file.read_text()[-2000:]}")


def _stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=_TIMEOUT)
    except BaseException:
        process.kill()
        process.communicate()
        raise
