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
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

#: Modules that a server needs, or most of them.
_MODULES = (
    "keywright.cli",
    "keywright.http.app",
    "keywright.http.admin.app",
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


#: The program ``keywright`` of shell scripts: it hands its descriptors to the process that forks, passes
#: signals on, and ends with the status of the forked process.
_COMMAND = """#!{python} -IS
import json, os, signal, socket, sys
channel = socket.socket(socket.AF_UNIX)
channel.connect({address!r})
umask = os.umask(0)
request = dict(arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ), umask=umask)
socket.send_fds(channel, [len(text := json.dumps(request).encode()).to_bytes(4, "big")], [0, 1, 2])
channel.sendall(text)
answers = channel.makefile()
pid = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
status = int(answers.readline())
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


class _Parent:
    """The process that forks, as seen from here."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._folder = TemporaryDirectory(prefix="kw-")
        address = f"{self._folder.name}/socket"
        with theirs, socket.socket(socket.AF_UNIX) as commands:
            commands.bind(address)
            commands.listen(64)
            passed = [theirs.fileno(), commands.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", __file__, *map(str, passed), self._folder.name],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
            )
        self.command = Path(self._folder.name, "keywright")
        self.command.write_text(_COMMAND.format(python=sys.executable, address=address))
        self.command.chmod(0o755)
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
        self._channel.close()
        self._folder.cleanup()


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


def command() -> str:
    """The path of a program that does what ``keywright`` does, for shell scripts. It begins in a tenth of the
    time.
    """
    return str(_parent().command)


# --- in the process that forks --------------------------------------------------------------------


class _Server:
    """Forks for each request."""

    def __init__(self, channel: socket.socket, commands: socket.socket) -> None:
        self._channel, self._commands = channel, commands
        self._requests = channel.makefile("rb")
        #: The commands that wait, by the process that was forked for them.
        self._clients: dict[int, socket.socket] = {}
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        self._writer = writer
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Ctrl-C is for those who are told; this one ends with whoever started it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def run(self) -> dict[str, Any]:
        """Serve until the tests end. Returns in each forked process, with its request."""
        request = None
        while request is None:
            sockets: list[Any] = [self._channel, self._commands, *self._clients.values()]
            ready, _, _ = select.select([*sockets, self._reader], [], [])
            if self._reader in ready:
                os.read(self._reader, 4096)
                self._reap()
            self._kill(ready)
            if self._commands in ready:
                request = self._fork_for_command()
            elif self._channel in ready:
                request = self._fork()
        self._leave()
        return request

    def _fork(self) -> dict[str, Any] | None:
        """Fork; in the forked process, return the request."""
        line = self._requests.readline()
        if not line:
            sys.exit()
        if not (pid := os.fork()):
            request: dict[str, Any] = json.loads(line)
            return request
        self._channel.sendall(json.dumps([pid, None]).encode() + b"\n")
        return None

    def _fork_for_command(self) -> dict[str, Any] | None:
        client, _ = self._commands.accept()
        received, descriptors, _, _ = socket.recv_fds(client, 4, 3)
        with client.makefile("rb") as body:
            text = body.read(int.from_bytes(received, "big"))
        if not (pid := os.fork()):
            client.close()
            return {**json.loads(text), "descriptors": descriptors}
        for one in descriptors:
            os.close(one)
        self._clients[pid] = client
        client.sendall(f"{pid}\n".encode())
        return None

    def _kill(self, ready: Sequence[object]) -> None:
        """Kill the processes whose commands were killed."""
        for pid in [pid for pid, client in self._clients.items() if client in ready]:
            os.kill(pid, signal.SIGKILL)
            self._clients.pop(pid).close()

    def _reap(self) -> None:
        """Report the processes that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            if pid in self._clients:
                with suppress(OSError), self._clients.pop(pid) as client:
                    client.sendall(f"{code}\n".encode())
            else:
                self._channel.sendall(json.dumps([pid, code]).encode() + b"\n")

    def _leave(self) -> None:
        """Keep nothing of this in a forked process."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._requests.close()
        for one in (self._reader, self._writer):
            os.close(one)
        for client in self._clients.values():
            client.close()


def _become(request: dict[str, Any]) -> NoReturn:
    """Be what was asked for."""
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    if "descriptors" in request:
        os.umask(request["umask"])
        for number, one in enumerate(request["descriptors"]):
            os.dup2(one, number)
            os.close(one)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    else:
        output = os.open(request["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.close(output)
    if request.get("script") is not None:
        sys.argv = [request["script"], *request["arguments"]]
        run_path(request["script"], run_name="__main__")
        sys.exit()
    from keywright.cli import main

    sys.argv = ["keywright", *request["arguments"]]
    main(request["arguments"])


def _keep_templates(folder: str) -> None:
    """Compile each template once for all forked processes: it is a third of the first pages of a server."""
    from jinja2 import Environment, FileSystemBytecodeCache

    init, cache = Environment.__init__, FileSystemBytecodeCache(folder)

    def init_with_cache(self: Environment, *positional: Any, **options: Any) -> None:
        # What is compiled for a sandbox is other code.
        if type(self) is Environment:
            options["bytecode_cache"] = cache
        init(self, *positional, **options)

    Environment.__init__ = init_with_cache  # type: ignore[method-assign]


def _fork_for_tasks(command: Path) -> None:
    """Let servers fork for backups and examinations, too."""
    from keywright.background import daily_backup
    from keywright.http.admin.sections import system

    for module in (daily_backup, system):
        assert module.PROGRAM
        vars(module).update(PROGRAM=(str(command),))


if __name__ == "__main__":
    from importlib import import_module

    from keywright.cli.program import command_tree

    for _name in _MODULES:
        import_module(_name)
    command_tree()
    _keep_templates(sys.argv[3])
    _fork_for_tasks(Path(sys.argv[3], "keywright"))
    # What a server looks at when it is ready is copied then; these stay shared.
    gc.collect()
    gc.freeze()
    _channel, _commands = (socket.socket(fileno=int(one)) for one in sys.argv[1:3])
    with _channel, _commands:
        _request = _Server(_channel, _commands).run()
    _become(_request)
