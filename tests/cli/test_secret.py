"""``keywright secret rotate``: its output, and the files of the secrets."""

import shutil
import stat
from pathlib import Path

import pytest

from keywright.core.crypto import KeyRing
from tests.cli.conftest import Keywright
from tests.server import running

OLD, NEW = "the secret before, 32 bytes or more", "the secret after, 32 bytes or more"
DATABASES = ("sqlite",)


def secret_of(data_dir: Path) -> str:
    return (data_dir / "secret").read_text().strip()


def test_the_secret_is_replaced_and_the_old_one_is_kept_for_backups(used: Keywright) -> None:
    used("backup", "before.tar")
    old = secret_of(used.data_dir)
    kept = used.data_dir / f"secret.retired-{KeyRing(old.encode()).secret_id}"
    said = used("secret", "rotate")
    assert "From now on, data is written with the new secret. You can start the server." in said
    assert "1 value of 1 resealed in " in said
    assert f"The previous secret is in {kept}: older backups need it." in said
    assert secret_of(used.data_dir) != old
    assert kept.read_text().strip() == old
    for file in (kept, used.data_dir / "secret"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (used.data_dir / "secret.previous").exists()
    assert used.json("doctor")["is_well"] is True
    assert used.json("license", "show", "A")["timesActivated"] == 1
    said = used.refused("restore", "before.tar", "--overwrite")
    assert f"secret.previous. It is in {kept}. Otherwise" in said
    shutil.copy(kept, used.data_dir / "secret.previous")
    done = used.run("restore", "before.tar", "--overwrite", "--data-dir", str(used.data_dir))
    assert done.status == 0, done
    assert "the rotation of the secret is not finished; run `keywright secret rotate`" in done.err
    assert "1 value of 1 resealed" in used("secret", "rotate")


def test_a_rotation_waits_until_the_server_is_stopped(used: Keywright) -> None:
    before = sorted(used.data_dir.iterdir())
    with running(used.data_dir):
        said = used.refused("secret", "rotate")
    assert "is in use by a server or another command" in said
    assert {"secret.previous"}.isdisjoint(one.name for one in used.data_dir.iterdir())
    assert secret_of(used.data_dir)
    assert set(before) <= set(used.data_dir.iterdir())
    assert "Run `keywright secret rotate` to reseal the existing rows" in used(
        "secret", "rotate", "--begin-only"
    )
    with running(used.data_dir):
        assert "1 value of 1 resealed" in used("secret", "rotate")


def test_a_secret_that_is_a_setting_is_taken_from_the_settings(
    nowhere: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYWRIGHT_SECRET", OLD)
    nowhere("init")
    nowhere("license", "create", "--key", "A")
    assert "the secret comes from KEYWRIGHT_SECRET" in nowhere.refused("secret", "rotate")
    monkeypatch.setenv("KEYWRIGHT_SECRET", NEW)
    monkeypatch.setenv("KEYWRIGHT_PREVIOUS_SECRET", OLD)
    said = nowhere("secret", "rotate")
    assert said.endswith("Remove previous_secret, or the file secret.previous, wherever else you set it.\n")
    assert nowhere("secret", "rotate").startswith("The secret is rotated")
    monkeypatch.delenv("KEYWRIGHT_PREVIOUS_SECRET")
    assert nowhere.json("license", "show", "A")["licenseKey"] == "A"
    monkeypatch.setenv("KEYWRIGHT_SECRET", OLD)
    assert "written with another secret" in nowhere.refused("license", "show", "A")
