"""Measure without load: start-up, ``--help``, the memory for a long list, the doctor."""

import http.client
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep
from urllib.parse import urlencode, urlsplit

import msgspec

from benchmarks import servers
from benchmarks.installations import Filled

_TIMES = 5
LISTED = 100_000
#: The interval of checks of a process, in seconds.
_GLANCE = 0.02
_FIELD = b'"licenseKey":'
_CHUNK = 256 * 1024


class StartUp(msgspec.Struct, frozen=True):
    """Medians: from ``keywright serve`` to the first response, with and without data, and the duration of
    ``keywright --help``.
    """

    serve_seconds: float
    serve_new_seconds: float
    help_seconds: float


class Listing(msgspec.Struct, frozen=True):
    """A list of this many licenses: its duration, and the growth of the server's peak memory."""

    licenses: int
    seconds: float
    growth_mib: float | None


class Doctor(msgspec.Struct, frozen=True):
    """``keywright doctor`` on all licenses: its duration and peak memory."""

    licenses: int
    activations: int
    findings: int
    seconds: float
    peak_mib: float | None


def measure_start_up(filled: Filled, folder: Path, say: Callable[[str], None]) -> StartUp:
    """Start the installed program several times, on this installation and on new ones."""
    say(f"starting the server {2 * _TIMES} times …")
    validate = f"{servers.LICENSES}/validate/{filled.constant_key}"
    return StartUp(
        statistics.median(_to_first_answer(filled.data_dir, validate) for _ in range(_TIMES)),
        statistics.median(_to_first_answer(folder / f"new-{i}", "/healthz") for i in range(_TIMES)),
        statistics.median(_help() for _ in range(_TIMES)),
    )


def measure_listing(filled: Filled, say: Callable[[str], None]) -> Listing:
    """Let a fresh server list the first licenses of this installation in one streamed response."""
    say(f"listing {LISTED:,} licenses …")
    with servers.running(filled) as server:
        before = server.memory("VmHWM")
        began = perf_counter()
        licenses = _read_list(server.url, filled)
        seconds = perf_counter() - began
        after = server.memory("VmHWM")
    growth = None if before is None or after is None else after - before
    return Listing(licenses, seconds, growth)


def measure_doctor(filled: Filled, say: Callable[[str], None]) -> Doctor:
    """Run the doctor on this installation, in a separate process."""
    say(f"examining {filled.licenses:,} licenses …")
    command = servers.keywright("doctor", "--json", "--data-dir", str(filled.data_dir))
    peak, began = 0.0, perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=filled.data_dir, env=servers.environment()
    ) as process:
        examining = servers.Server(process, "")
        while process.poll() is None:
            peak = max(peak, examining.memory("VmHWM") or 0.0)
            sleep(_GLANCE)
        seconds = perf_counter() - began
        assert process.stdout is not None
        said = msgspec.json.decode(process.stdout.read())
    findings = len(said["findings"])
    return Doctor(said["licenses"], said["activations"], findings, seconds, peak or None)


def _to_first_answer(data_dir: Path, path: str) -> float:
    began = perf_counter()
    with servers.started(servers.keywright(), data_dir) as server:
        servers.get(server.url, path)
        return perf_counter() - began


def _help() -> float:
    began = perf_counter()
    subprocess.run(
        servers.keywright("--help"),
        stdout=subprocess.DEVNULL,
        env=servers.environment(),
        timeout=60,
        check=True,
    )
    return perf_counter() - began


def _read_list(url: str, filled: Filled) -> int:
    """Read and discard a list until it had enough licenses; return their number."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    credentials = {"consumer_key": filled.consumer_key, "consumer_secret": filled.consumer_secret}
    connection.request("GET", f"{servers.LICENSES}?{urlencode(credentials)}")
    response = connection.getresponse()
    if response.status != http.client.OK:
        raise RuntimeError(f"the list was answered {response.status}")
    seen, tail = 0, b""
    while seen < LISTED and (chunk := response.read1(_CHUNK)):
        text = tail + chunk
        seen += text.count(_FIELD)
        # Keep one byte less than the field, so that it is found across chunks, but never counted twice.
        tail = text[-(len(_FIELD) - 1) :]
    connection.close()
    return seen
