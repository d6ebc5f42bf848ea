"""The first release as it was: its code, from the history of this repository, and databases that it fills."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.once import make_once
from tests.server import TIMEOUT, environment

#: The commit whose statements are in ``tests/storage/release-0016.json``.
COMMIT = "d383517d"
REVISION = "0016"
_ROOT = Path(__file__).parents[2]
_LIBRARIES = "libraries"
#: Names of settings that tests give every server, and that it does not know.
_UNKNOWN = ("KEYWRIGHT_LOG_CALLS",)
_FILL = """
import os
import random
from datetime import UTC, datetime, timedelta
import alembic.command  # Read before a transaction waits for it.
from benchmarks.installations import _insert
from keywright.config import Settings
from keywright.config.installation import open_installation
amount, folder, url = int(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = Settings(data_dir=folder, database_url=url, secret=os.environ["KEYWRIGHT_SECRET"])
storage, chance = open_installation(settings), random.Random(amount)
now = datetime.now(UTC).replace(microsecond=0)
for start in range(0, amount, 2_000):
    numbers = range(start, min(amount, start + 2_000))
    with storage.write() as tx:
        moments = [now - timedelta(days=365) * (amount - one) / amount for one in numbers]
        _insert(tx, [(one, at.replace(microsecond=0)) for one, at in zip(numbers, moments)], now, chance)
storage.close()
"""


class FirstRelease:
    """Its code, and the libraries that it names, in a folder of its own; run by this Python."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        """The test is skipped where this is no whole clone: the history has the code."""
        if subprocess.run(["git", "cat-file", "-e", COMMIT], cwd=_ROOT, check=False).returncode != 0:
            pytest.skip(f"the history does not reach back to {COMMIT}")
        folder = make_once(factory, "first-release", _make)
        paths = [str(folder / "src"), str(folder), str(folder / _LIBRARIES)]
        self._begin = f"import sys; sys.path[:0] = {paths!r}\n"

    @property
    def program(self) -> list[str]:
        """What to run in place of the command ``keywright``."""
        unknown = [word for name in _UNKNOWN for word in ("-u", name)]
        return ["env", *unknown, *self._python("from keywright.cli import main; main()")]

    def fill(self, licenses: int, data_dir: Path, settings: Mapping[str, object]) -> None:
        """Make a database with so many licenses, of three activations each; their keys are those of
        ``benchmarks.installations.key_of``.
        """
        given = {name: value for name, value in settings.items() if name == "secret"}
        command = [*self._python(_FILL), str(licenses), str(data_dir), str(settings["database_url"])]
        done = subprocess.run(command, env=environment(**given), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()

    def run(self, *arguments: str, **settings: object) -> None:
        """Run a command of it."""
        command, variables = [*self.program, *arguments], environment(**settings)
        done = subprocess.run(command, env=variables, capture_output=True, check=False, timeout=10 * TIMEOUT)
        assert done.returncode == 0, done.stderr.decode()

    def _python(self, code: str) -> list[str]:
        return [sys.executable, "-P", "-c", self._begin + code]


def _make(folder: Path) -> None:
    command = ["git", "archive", COMMIT, "src", "benchmarks", "tools", "requirements.lock"]
    taken = subprocess.run(command, cwd=_ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(taken)) as archive:
        archive.extractall(folder, filter="data")
    options = ("--quiet", "--no-compile", "--require-hashes", "--target", str(folder / _LIBRARIES))
    install = [sys.executable, "-m", "pip", "install", *options, "-r", str(folder / "requirements.lock")]
    subprocess.run(install, check=True, timeout=10 * TIMEOUT)
