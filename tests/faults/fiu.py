"""A server whose calls to the system fail now and then, from one moment to another (libfiu, fiu-run(1))."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.programs import program
from tests.server import NO_LIMITS, RunningServer, running

#: Calls that can fail, by the names that libfiu has for them.
SYNC = "posix/io/sync/fdatasync"
WRITE = "posix/io/rw/pwrite*"


class Failing:
    """A running server, and what makes its calls fail."""

    def __init__(self, server: RunningServer, control: Path) -> None:
        self.server = server
        self._control = control

    def fail(self, points: Sequence[str], probability: float = 0.02) -> None:
        """Each of these calls fails with this probability from now on."""
        for name in points:
            self._order(f"enable_random name={name},probability={probability}")

    @contextmanager
    def failing(self, points: Sequence[str], probability: float = 0.02) -> Iterator[None]:
        """The same, until the block ends."""
        self.fail(points, probability)
        yield
        for name in points:
            self._order(f"disable name={name}")

    def _order(self, words: str) -> None:
        command = [program("fiu-ctrl"), "-f", str(self._control), "-c", words, str(self.server.pid)]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=30)
        # It says what went wrong, and ends as if it had not.
        assert done.stdout + done.stderr == ""


@contextmanager
def may_fail(folder: Path, of: Sequence[str], *, under: Sequence[str] = ()) -> Iterator[Failing]:
    """A server on a new SQLite file in this folder. ``of`` is what is run as ``keywright``, ``under`` another
    program that runs it all.

    The test is skipped where there is no libfiu.
    """
    control = folder / "fiu"
    command = [*under, program("fiu-run"), "-x", "-f", str(control), *of]
    with running(folder / "data", program=command, **NO_LIMITS) as server:
        yield Failing(server, control)
