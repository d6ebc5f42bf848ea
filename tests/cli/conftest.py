"""The program, as it is typed: mostly in this process, which is faster than a new one for every command."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from keywright.cli import main
from keywright.config import Settings
from keywright.config.installation import open_installation
from tests import forking
from tests.databases import a_postgres_url
from tests.makers import SECRET
from tests.server import KEYWRIGHT, environment


class Done(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


def run(*arguments: str, **variables: str) -> Done:
    """The program in a process of its own."""
    # What Python itself reads when it starts needs a process that starts.
    is_new = any(name.startswith("PYTHON") for name in variables)
    command = [KEYWRIGHT if is_new else forking.command(), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment() | variables)
    return Done(done.returncode, done.stdout, done.stderr)


class Keywright:
    """Runs commands on an installation of its own."""

    def __init__(self, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data_dir = data_dir
        self._capsys = capsys

    def run(self, *arguments: str) -> Done:
        """Type exactly this."""
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        status = ended.value.code
        assert isinstance(status, int)
        return Done(status, *self._capsys.readouterr())

    def __call__(self, *arguments: str) -> str:
        """What a command that succeeds prints."""
        done = self.run(*arguments, "--data-dir", str(self.data_dir))
        assert done.status == 0, done.err
        assert done.err == ""
        return done.out

    def json(self, *arguments: str) -> Any:
        """What it prints for programs."""
        return json.loads(self(*arguments, "--json"))

    def refused(self, *arguments: str, status: int = 1) -> str:
        """The one line that a command says which cannot be done."""
        done = self.run(*arguments, "--data-dir", str(self.data_dir))
        assert done.status == status, done
        assert done.out == ""
        assert done.err.startswith("Error: "), done.err
        assert done.err.count("\n") == 1, done.err
        return done.err.removeprefix("Error: ").strip()


@pytest.fixture(scope="session")
def empty_installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with nothing in its database, to be copied."""
    data_dir = tmp_path_factory.mktemp("installation") / "data"
    open_installation(Settings(data_dir=data_dir)).close()
    return data_dir


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those of the test, and a directory of its own."""
    for variable in [name for name in os.environ if name.startswith("KEYWRIGHT_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def keywright(
    database: str,
    tmp_path: Path,
    empty_installation: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Keywright]:
    """The program on an empty installation."""
    if database == "sqlite":
        yield Keywright(Path(shutil.copytree(empty_installation, tmp_path / "data")), capsys)
        return
    with a_postgres_url() as url:
        monkeypatch.setenv("KEYWRIGHT_DATABASE_URL", url)
        monkeypatch.setenv("KEYWRIGHT_SECRET", SECRET.decode())
        yield Keywright(tmp_path / "data", capsys)


@pytest.fixture
def nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Keywright:
    """The program where there is no installation yet."""
    return Keywright(tmp_path / "new", capsys)


@pytest.fixture
def used(keywright: Keywright) -> Keywright:
    """A database with a license, one of whose three places is taken."""
    keywright("license", "create", "--key", "A", "--max", "3")
    keywright("license", "activate", "A")
    return keywright
