"""A server whose clock can be set while it runs (libfaketime); what it measures durations with goes on."""

import re
import subprocess
from pathlib import Path

from tests.deploy.programs import program
from tests.faults.altered import altering_command

_SETTINGS = {
    # Looked at each time somebody asks for the time.
    "FAKETIME_NO_CACHE": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    # Otherwise threads that wait for each other wait by the wrong clock.
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    "NO_FAKE_STAT": "1",
}


#: What libfaketime shares, by the number of the process that began it; who finds it there gives up at once.
_SHARED = Path("/dev/shm")


class Clock:
    """The clock of the programs that are started with it; right at first."""

    def __init__(self, folder: Path) -> None:
        """The test is skipped where there is no libfaketime."""
        self._file = folder / "clock"
        _forget_the_dead()
        command = [program("faketime"), "-m", "-f", "+0d", "env"]
        shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        found = re.search(r"(?m)^LD_PRELOAD=(.+)$", shown)
        assert found is not None
        settings = _SETTINGS | {"LD_PRELOAD": found[1], "FAKETIME_TIMESTAMP_FILE": str(self._file)}
        self._settings = [f"{name}={value}" for name, value in settings.items()]
        self.jump(0)

    def jump(self, days: int) -> None:
        """Be that many days ahead from now on, or behind."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{days:+d}d\n")
        draft.rename(self._file)

    def program(self, *alterations: str) -> list[str]:
        """What to run in place of the command ``keywright``, so that this is its clock (see ``altered``)."""
        return ["env", *self._settings, *altering_command("sleeping by select", *alterations)]


def _forget_the_dead() -> None:
    """Remove what killed processes have left: their numbers are given again."""
    for file in _SHARED.glob("*faketime_s*_*"):
        if not Path("/proc", file.name.rpartition("_")[2]).exists():
            file.unlink(missing_ok=True)
