"""Measure an honest caller during attacks: the real server with default settings, on a fresh copy of an
installation that it created, callers and attackers in separate processes (tools/attacks).
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from benchmarks import programs, servers
from benchmarks.databases import Database
from benchmarks.servers import Server
from keywright.core.standard_webhooks import new_secret
from tools.attacks import ATTACKS, with_few_descriptors
from tools.attacks.__main__ import HONEST
from tools.attacks.honest import Figures
from tools.attacks.wire import Target

_NAME, _PASSWORD = "benchmark", "a password for one run"
_USER = f"user create {_NAME} --role=administrator --password-stdin"
_READER = "apikey create --name=reader --permissions=read --product-id=5 --json"
#: An unreachable mail server: mails with codes for customers stay in the queue.
_MAIL = {"KEYWRIGHT_SMTP_URL": "smtp://127.0.0.1:9", "KEYWRIGHT_MAIL_FROM": "keys@example.com"}
_LICENSES = 1_000
#: The timeout for processes to prepare, or to end, in seconds.
_TIMEOUT = 120
ALONE = "alone"


class Row(msgspec.Struct, frozen=True):
    """An attack: the honest caller's figures, the attackers' responses, and the growth of the server."""

    name: str
    title: str
    honest: Figures
    #: The growth of the server's peak memory, in MiB; None without /proc.
    memory_mib: float | None
    #: The growth of the database, in MiB, including what the attack prepared.
    growth_mib: float
    outcomes: dict[str, int]


class Attacks(msgspec.Struct, frozen=True):
    """The rows, and the server and its limits."""

    server: str
    limits: dict[str, int]
    rows: list[Row]


def measure(
    folder: Path, database: Database, program: Sequence[str], seconds: int, say: Callable[[str], None]
) -> Attacks:
    """Run each attack for this long, on a copy of an installation that the same program created."""
    made = folder / "attacked"
    target = _make(made, database, program)
    rows = []
    for name in (ALONE, *ATTACKS):
        copy = made.with_name(f"attacked-{name}")
        database.copy(made, copy)
        before = database.size(copy)
        with servers.started(with_few_descriptors(program), copy, _MAIL) as server:
            outcomes, figures, memory = _attacked(name, server, target, seconds)
        # The server has stopped, and has written its log to the database.
        growth = (database.size(copy) - before) / 2**20
        database.remove(copy)
        title = ATTACKS[name].title if name in ATTACKS else "no attack"
        rows.append(Row(name, title, figures, memory, growth, outcomes))
        say(f"{name}: p99 {figures.p99_ms:.1f} ms, {figures.failed} failed")
    return Attacks(str(program[0]), programs.limits(program, made), rows)


def _attacked(
    name: str, server: Server, target: Target, seconds: int
) -> tuple[dict[str, int], Figures, float | None]:
    port = urlsplit(server.url).port
    assert port is not None
    here = msgspec.structs.replace(target, port=port)
    with ExitStack() as stack:
        # The attack prepares first, because its preparation should not slow down the honest caller.
        names = [name, HONEST] if name in ATTACKS else [HONEST]
        callers = [stack.enter_context(_caller(one, here, seconds)) for one in names]
        before = server.memory("VmHWM")
        with ThreadPoolExecutor(len(callers)) as pool:
            said = list(pool.map(_run, callers))
        after = server.memory("VmHWM")
    outcomes = msgspec.json.decode(said[0], type=dict[str, int]) if name in ATTACKS else {}
    memory = None if before is None or after is None else after - before
    return outcomes, msgspec.json.decode(said[-1], type=Figures), memory


@contextmanager
def _caller(what: str, target: Target, seconds: int) -> Iterator["subprocess.Popen[str]"]:
    """Start a caller, and wait until it is ready."""
    command = [sys.executable, "-m", "tools.attacks", what, str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(target).decode() + "\n")
            process.stdin.flush()
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"{what} could not be prepared")
            yield process
        finally:
            process.kill()


def _run(caller: "subprocess.Popen[str]") -> str:
    """Let the caller run, and return its output."""
    said, _ = caller.communicate("\n", timeout=_TIMEOUT)
    if caller.returncode:
        raise RuntimeError(f"{caller.args!r} failed")
    return said


def _make(data_dir: Path, database: Database, program: Sequence[str]) -> Target:
    """Create an installation with the program itself."""
    vendor = programs.make(data_dir, database, program)
    programs.output(program, data_dir, _USER, _PASSWORD)
    secret = new_secret()
    programs.output(program, data_dir, f"connection add generic --name Shop --secret {secret}")
    keys = [f"BENCH-{number:04d}-A1B2-C3D4" for number in range(_LICENSES)]
    honest, changed, single, full = keys[:4]
    with servers.started(program, data_dir, {}) as server:
        programs.create(server, vendor, dict.fromkeys(keys) | {single: 1, full: 1})
        for key in (honest, full):
            servers.get(server.url, f"{servers.LICENSES}/activate/{key}")
    database.settle(data_dir)
    reader = programs.read_key(programs.output(program, data_dir, _READER)).credentials
    place = "/in/generic/1"
    return Target(0, honest, changed, single, full, _NAME, _PASSWORD, place, secret, reader)
