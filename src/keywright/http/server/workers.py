"""Several server processes at one address: a parent that serves nothing, but starts and replaces workers.

The parent listens, and all workers accept connections from the same queue, so that no connection is lost when
a worker ends. Workers share no state: the database holds what must be true for all of them.
"""

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from keywright.core.errors import WorkerFailed

log = logging.getLogger(__name__)

#: The shortest interval between replacements of a worker that exits, in seconds.
_MIN_LIFETIME = 1.0
#: The timeout for a worker to start, and to exit after it was asked to stop, in seconds.
_TIMEOUT = 40.0
_INTERVAL = 0.05

#: Serves in a separate process until a signal arrives. It calls the first argument once it listens, and stops
#: when the second one, a descriptor, becomes readable: the parent has then ended.
Work = Callable[[Callable[[], None], int], None]


class Workers:
    """The parent's view of the workers. Belongs to the main thread."""

    def __init__(
        self, amount: int, work: Work, *, when_stopping: Callable[[], None], drain_seconds: int
    ) -> None:
        """``when_stopping`` is called before the workers are asked to stop. They continue to serve for
        ``drain_seconds`` after SIGTERM.
        """
        self._amount = amount
        self._work = work
        self._when_stopping = when_stopping
        self._drain_seconds = drain_seconds
        self._started_at: dict[int, float] = {}
        self._is_stopping = False
        #: Whether workers may drain: not after SIGINT, because a user waits at a terminal.
        self._may_drain = False
        #: Whether a worker is missing because the system could not start it.
        self._is_short = False
        # Nothing is written to this pipe: its end tells the workers that the parent has ended or no longer
        # waits.
        self._reader, writer = os.pipe()
        self._alive = os.fdopen(writer, "wb", buffering=0)

    def run(self, when_ready: Callable[[], None]) -> None:
        """Start the workers, call ``when_ready`` once all of them listen, and keep them running until SIGTERM
        or SIGINT; return when they have exited.

        Raises ``WorkerFailed`` if one of them fails to start.
        """
        with self._handling_signals():
            try:
                for _ in range(self._amount):
                    self._start()
                if not self._is_stopping:
                    when_ready()
                while not self._is_stopping:
                    self._replace_ended()
                    time.sleep(_INTERVAL)
            finally:
                self._stop()

    def _start(self) -> None:
        """Start a worker, and wait until it listens."""
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        if pid == 0:
            os.close(reader)
            self._run_worker(writer)
        os.close(writer)
        self._started_at[pid] = time.monotonic()
        try:
            end = time.monotonic() + _TIMEOUT
            while not self._is_stopping:
                if time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
                    raise WorkerFailed
                if select.select([reader], [], [], _INTERVAL)[0]:
                    if os.read(reader, 1):
                        return
                    raise WorkerFailed
        finally:
            os.close(reader)

    def _run_worker(self, writer: int) -> NoReturn:
        status = 1
        try:
            # A worker that is stopped before it serves has nothing to finish.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._alive.close()
            self._work(lambda: _report_ready(writer), self._reader)
            status = 0
        except BaseException:
            log.exception("a worker failed")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _replace_ended(self) -> None:
        if len(self._started_at) < self._amount and self._is_short:
            self._is_short = False
            self._wait(_MIN_LIFETIME)
            self._replace()
        for pid in list(self._started_at):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            lived = time.monotonic() - self._started_at.pop(pid)
            log.error("worker %d ended (%s); another takes its place", pid, _describe_status(status))
            self._wait(_MIN_LIFETIME - lived)
            self._replace()

    def _replace(self) -> None:
        try:
            self._start()
        except WorkerFailed:
            # It is replaced like a worker that exited.
            log.error("the new worker could not start; the log says why")
        except OSError as problem:
            log.error("no worker can be started: %s", problem.strerror)
            self._is_short = True

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._is_stopping and time.monotonic() < end:
            time.sleep(_INTERVAL)

    def _stop(self) -> None:
        """Ask all workers to finish the requests that they accepted, and wait until they exit."""
        self._when_stopping()
        for pid in self._started_at:
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + self._drain_seconds + _TIMEOUT
        for pid in self._started_at:
            while not os.waitpid(pid, os.WNOHANG)[0]:
                if not self._may_drain:
                    self._alive.close()
                if time.monotonic() > end:
                    log.error("worker %d does not end; it is killed", pid)
                    os.kill(pid, signal.SIGKILL)
                time.sleep(_INTERVAL)
        self._alive.close()
        os.close(self._reader)

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self._handle_signal) for one in signals}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True
        self._may_drain = number == signal.SIGTERM


def _report_ready(writer: int) -> None:
    # A stopping parent does not read this, and has asked the worker to stop.
    with suppress(BrokenPipeError):
        os.write(writer, b".")
    os.close(writer)


def _describe_status(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"status {code}"
