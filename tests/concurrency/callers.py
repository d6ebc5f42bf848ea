"""Many programs at once: a process with many connections, which keeps a journal of what it was told.

Run as a module, it reads a plan from standard input and prints its journal. Every connection takes the
next path of the plan as soon as it has its last answer.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import uvloop

if TYPE_CHECKING:
    from tests.server import RunningServer

ROOT = Path(__file__).parents[2]
_COUNTER = re.compile(rb'"timesActivated":(\d+)')
_TOKEN = re.compile(rb'"token":"([0-9a-f]{40})"')

#: What became of a request: answered; sent, and then the connection was closed without a byte; cut off
#: in the middle of an answer.
Fate = Literal["answered", "closed", "torn"]


class Entry(NamedTuple):
    """One request in the journal. Moments are seconds of a clock that all processes share."""

    path: str
    fate: Fate
    status: int
    times_activated: int | None
    token: str | None
    message: str | None
    started_at: float
    ended_at: float


class Callers:
    """Running processes of callers."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def journal(self) -> list[Entry]:
        """What they were told, after they are done."""
        entries: list[Entry] = []
        for process in self._processes:
            output, _ = process.communicate(timeout=300)
            assert process.returncode == 0
            entries += [Entry(*row) for row in json.loads(output)]
        return entries


@contextmanager
def calling(
    servers: "Sequence[RunningServer]",
    plans: Sequence[Sequence[str]],
    *,
    connections: int,
    repeating: bool = False,
) -> Iterator[Callers]:
    """A process for each plan (a list of paths), each with that many connections, to each of the servers in
    turn.

    With ``repeating`` they begin again at the end of the plan, and end when the server closes.
    """
    command = [sys.executable, "-m", "tests.concurrency.callers"]
    processes: list[subprocess.Popen[str]] = []
    try:
        for plan in plans:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            processes.append(process)
            ports = [server.port for server in servers]
            what = {"ports": ports, "paths": plan, "connections": connections, "repeating": repeating}
            assert process.stdin is not None
            process.stdin.write(json.dumps(what) + "\n")
            process.stdin.flush()
        yield Callers(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


async def _make_calls(plan: dict[str, Any]) -> list[Entry]:
    paths = iter(_again_and_again(plan["paths"]) if plan["repeating"] else plan["paths"])
    journal: list[Entry] = []
    ports = islice(cycle(plan["ports"]), plan["connections"])
    await asyncio.gather(*(_use_connection(port, paths, journal) for port in ports))
    return journal


def _again_and_again(paths: Sequence[str]) -> Iterator[str]:
    while True:
        yield from paths


async def _use_connection(port: int, paths: Iterator[str], journal: list[Entry]) -> None:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return
    for path in paths:
        started_at = time.monotonic()
        fate, status, body = await _ask(reader, writer, path)
        times, token = _COUNTER.search(body), _TOKEN.search(body)
        journal.append(
            Entry(
                path,
                fate,
                status,
                int(times[1]) if times else None,
                token[1].decode() if token else None,
                json.loads(body)["message"] if status >= 400 else None,
                started_at,
                time.monotonic(),
            )
        )
        if fate != "answered":
            break
    writer.close()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
) -> tuple[Fate, int, bytes]:
    received = b""
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", received)
        assert length is not None
        body = await reader.readexactly(int(length[1]))
    except asyncio.IncompleteReadError as problem:
        return ("torn" if received or problem.partial else "closed"), 0, b""
    except OSError:
        return ("torn" if received else "closed"), 0, b""
    return "answered", int(received[9:12]), body


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        json.dump(runner.run(_make_calls(json.loads(sys.stdin.readline()))), sys.stdout)
