"""The secret: created once, unreadable for others, and never replaced."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr

from keywright.config import Settings
from keywright.config.installation import has_database, load_secret, open_installation
from keywright.core.errors import ConfigurationError, StoreError
from tests.server import environment

LONG = "a secret of thirty-two characters"


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in an empty directory, with no settings."""
    for variable in [name for name in os.environ if name.startswith("KEYWRIGHT_")]:
        monkeypatch.delenv(variable)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def an_installation() -> Settings:
    settings = Settings(data_dir=Path("data"))
    open_installation(settings).close()
    return settings


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_installation_belongs_to_its_owner_alone() -> None:
    settings = an_installation()
    assert mode(settings.data_dir) == 0o700
    assert mode(settings.secret_file) == 0o600
    assert mode(settings.data_dir / "keywright.db") == 0o600
    # SQLite keeps its log if the last connection was read-only.
    logs = {"keywright.db-shm", "keywright.db-wal"}
    names = {path.name for path in settings.data_dir.iterdir()}
    assert names - logs == {"keywright.db", "keywright.db.lock", "secret"}
    assert {mode(settings.data_dir / name) for name in names & logs} <= {0o600}


def test_the_secret_is_made_once() -> None:
    settings = an_installation()
    text = settings.secret_file.read_text()
    assert len(text) == 65
    assert bytes.fromhex(text)
    assert load_secret(settings) == load_secret(settings) == text.strip().encode()
    assert settings.secret_file.read_text() == text


def test_a_secret_that_is_set_is_used_and_none_is_made() -> None:
    settings = Settings(data_dir=Path("data"), secret=SecretStr(LONG))
    with closing(open_installation(settings)):
        assert load_secret(settings) == LONG.encode()
    assert not settings.secret_file.exists()


def test_the_same_text_is_the_same_secret_in_the_file_and_in_the_setting() -> None:
    in_file = an_installation()
    as_setting = Settings(data_dir=Path("data"), secret=SecretStr(in_file.secret_file.read_text()))
    open_installation(as_setting).close()


def test_a_database_does_not_open_with_another_secret() -> None:
    settings = an_installation()
    settings.secret_file.write_text(LONG)
    with pytest.raises(StoreError, match="another secret"):
        open_installation(settings)


def test_a_lost_secret_is_not_replaced() -> None:
    settings = an_installation()
    settings.secret_file.unlink()
    with pytest.raises(ConfigurationError, match=r"data/secret is missing.*Restore"):
        open_installation(settings)
    assert not settings.secret_file.exists()
    assert has_database(settings)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((one, "at least 32") for one in (b"", b"\n", b"short\n")),
        (b"\xff" * 64, "cannot be read: it is not text"),
    ],
)
def test_a_secret_that_is_too_short_or_no_text_is_refused(content: bytes, reason: str) -> None:
    settings = Settings(data_dir=Path("data"))
    settings.data_dir.mkdir()
    settings.secret_file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=reason):
        load_secret(settings)
    assert settings.secret_file.read_bytes() == content


def test_a_secret_that_others_can_read_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    settings = an_installation()
    load_secret(settings)
    assert caplog.messages == []
    settings.secret_file.chmod(0o640)
    load_secret(settings)
    assert ["can be read by others" in message for message in caplog.messages] == [True]


def test_a_file_in_the_place_of_the_data_directory_is_refused() -> None:
    Path("data").write_text("")
    with pytest.raises(ConfigurationError, match=r"data directory data cannot be created.*--data-dir"):
        open_installation(Settings(data_dir=Path("data")))


AT_ONCE = """
import sys
from pathlib import Path
from keywright.config import Settings
from keywright.config.installation import load_secret
settings = Settings(data_dir=Path("data"))
print("ready", flush=True)
sys.stdin.readline()
print(load_secret(settings).decode())
"""


def test_two_processes_that_come_at_once_get_the_same_secret(empty_directory: Path) -> None:
    (empty_directory / "data").mkdir()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    got = [process.communicate()[0] for process in processes]
    assert {process.returncode for process in processes} == {0}
    assert set(got) == {(empty_directory / "data" / "secret").read_text()}
    assert [path.name for path in (empty_directory / "data").iterdir()] == ["secret"]
