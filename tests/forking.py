"""Processes that run the installed command, forked from one that has read its modules already.

To read them takes half a second of processor each time, and tests start hundreds of servers. Each is a
process of its own all the same, with its own environment and files, and ends by itself or by a signal.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from runpy import run_path
from typing import Any, NoReturn

#: Modules that a server needs, or most of them.
_MODULES = (
    "keywright.cli",
    "keywright.http.app",
    "keywright.http.admin.app",
    "alembic.command",
    "argon2",
    "httptools",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
)


class Forked:
    """A process, with as much of ``subprocess.Popen`` as is needed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._has_ended = threading.Event()
        self._status = 0

    def poll(self) -> int | None:
        """Its exit code when it has ended."""
        return self._status if self._has_ended.is_set() else None

    def wait(self, timeout: float) -> int:
        """Its exit code. Raises ``subprocess.TimeoutExpired``."""
        if not self._has_ended.wait(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self._status

    def send_signal(self, number: int) -> None:
        """Nothing happens when it has ended."""
        if not self._has_ended.is_set():
            # It may have ended, and nobody has said so yet.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self, status: int) -> None:
        """It has ended."""
        self._status = status
        self._has_ended.set()


class _Parent:
    """The process that forks, as seen from here."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._channel = ours
        self._asking = threading.Lock()
        self._forked: dict[int, Forked] = {}
        self._answers: SimpleQueue[Forked] = SimpleQueue()
        threading.Thread(target=self._listen, name="forked processes", daemon=True).start()
        atexit.register(self._end)

    def fork(self, **request: Any) -> Forked:
        with self._asking:
            self._channel.sendall(json.dumps(request).encode() + b"\n")
            return self._answers.get(timeout=60)

    def _listen(self) -> None:
        with self._channel.makefile("r") as lines:
            for line in lines:
                pid, status = json.loads(line)
                if status is None:
                    self._forked[pid] = Forked(pid)
                    self._answers.put(self._forked[pid])
                else:
                    self._forked.pop(pid).end(status)

    def _end(self) -> None:
        self._channel.shutdown(socket.SHUT_RDWR)
        self._process.wait(10)


_parent = lru_cache(maxsize=1)(_Parent)


def fork(
    arguments: Sequence[str],
    *,
    output: Path,
    folder: Path,
    environment: Mapping[str, str],
    script: str | None = None,
) -> Forked:
    """``keywright`` with these arguments, or a ``script`` that alters it; what it says is added to a file."""
    return _parent().fork(
        arguments=[*arguments],
        output=str(output),
        folder=str(folder),
        environment={**environment},
        script=script,
    )


# --- in the process that forks --------------------------------------------------------------------


def _serve(channel: socket.socket) -> dict[str, Any]:
    """Fork for each request; returns in the forked process, with its request."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Ctrl-C is for those who are told; this one ends with whoever started it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = channel.makefile("rb")
    while True:
        ready, _, _ = select.select([channel.fileno(), reader], [], [])
        if reader in ready:
            os.read(reader, 4096)
            _reap(channel)
        if channel.fileno() in ready:
            line = requests.readline()
            if not line:
                sys.exit()
            pid = os.fork()
            if not pid:
                break
            channel.sendall(json.dumps([pid, None]).encode() + b"\n")
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    requests.close()
    for one in (reader, writer):
        os.close(one)
    request: dict[str, Any] = json.loads(line)
    return request


def _reap(channel: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        channel.sendall(json.dumps([pid, os.waitstatus_to_exitcode(status)]).encode() + b"\n")


def _become(request: dict[str, Any]) -> NoReturn:
    """Be what was asked for."""
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    output = os.open(request["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    if request["script"] is not None:
        sys.argv = [request["script"], *request["arguments"]]
        run_path(request["script"], run_name="__main__")
        sys.exit()
    from keywright.cli import main

    sys.argv = ["keywright", *request["arguments"]]
    main(request["arguments"])


if __name__ == "__main__":
    from importlib import import_module

    from keywright.cli.program import command_tree

    for _name in _MODULES:
        import_module(_name)
    command_tree()
    # What a server looks at when it is ready is copied then; these stay shared.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as _channel:
        _request = _serve(_channel)
    _become(_request)
