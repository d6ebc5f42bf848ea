"""``keywright signing-key …``, ``keywright license file`` and ``keywright license explain``."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.registry import open_executor
from keywright.signing.jws import read_signed
from keywright.signing.rules import read_license_file
from tests.cli.conftest import Keywright
from tests.jobs import Work

DATABASES = ("sqlite",)


@pytest.mark.smoke
def test_a_license_file_is_made_and_explained(keywright: Keywright, tmp_path: Path) -> None:
    keywright("license", "create", "--key", "KEY-1")
    file = tmp_path / "anna.license"
    said = keywright("license", "file", "KEY-1", "--days", "7", "--out", str(file))
    assert said.startswith(f"{file} is valid until ")
    explained = keywright.json("license", "explain", str(file))
    assert (explained["is_good"], explained["claims"]["code"]) == (True, "valid")
    assert explained["claims"]["exp"] - explained["claims"]["iat"] == 7 * 86_400
    assert "valid" in keywright("license", "explain", str(file))
    printed = keywright("license", "file", "KEY-1").encode()
    key = keywright.json("signing-key", "export-public")["public_key"]
    assert read_signed(read_license_file(printed), key)


def test_files_for_all_are_counted_ordered_and_fetched_once_they_are_made(
    keywright: Keywright, tmp_path: Path
) -> None:
    keywright("license", "create", "--key", "KEY-1")
    counted = keywright("license", "files", "--dry-run").split("\n")
    assert [line.split()[-1] for line in counted if line] == ["1", "1", "0", "0", "1"]
    assert "must be in the future" in keywright.refused("license", "files", "--ends-at", "2020-01-01")
    assert "Job 1 started" in keywright("license", "files", "--no-mail", "--ends-at", "2126-12-31")
    assert "no file" in keywright.refused("license", "fetch-files", "1")
    with (
        closing(open_installation(Settings(data_dir=keywright.data_dir))) as storage,
        closing(open_executor(storage)) as executor,
    ):
        assert [one.done for one in Work(executor, storage).steps()] == [1, 1]
    out = tmp_path / "files.jsonl"
    keywright("license", "fetch-files", "1", "--out", str(out))
    (line,) = out.read_text().splitlines()
    file = tmp_path / "one.license"
    file.write_text(json.loads(line)["file"])
    assert "valid" in keywright("license", "explain", str(file))


def test_a_file_that_was_altered_or_is_none_is_said_to_be(keywright: Keywright, tmp_path: Path) -> None:
    keywright("license", "create", "--key", "KEY-1")
    file = tmp_path / "anna.license"
    keywright("license", "file", "KEY-1", "--out", str(file))
    good = file.read_bytes()
    lines = good.split(b"\n")
    # The last character but one is of the signature.
    lines[-3] = lines[-3][:-2] + (b"A" if lines[-3][-2:-1] != b"A" else b"B") + lines[-3][-1:]
    file.write_bytes(b"\n".join(lines))
    data_dir = ("--data-dir", str(keywright.data_dir))
    done = keywright.run("license", "explain", str(file), *data_dir)
    assert (done.status, "its signature is invalid" in done.out) == (1, True)
    file.write_bytes(good)
    other = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    # The installation is not needed.
    done = keywright.run("license", "explain", str(file), "--public-key", other)
    assert (done.status, "was signed with another key" in done.out) == (1, True)
    file.write_text("Dear Anna")
    assert "is neither a license file" in keywright.refused("license", "explain", str(file), status=2)


def test_keys_are_rotated_listed_and_withdrawn(keywright: Keywright) -> None:
    keywright("init")
    first = keywright.json("signing-key", "show")["keys"][0]
    assert first["state"] == "signs"
    assert "From now on, the key " in keywright("signing-key", "rotate")
    shown = keywright.json("signing-key", "show")
    assert [one["state"] for one in shown["keys"]] == ["signs", "ended"]
    assert shown["issuer"].startswith("keywright:")
    assert first["public_key"] in keywright("signing-key", "show")
    newest = shown["keys"][0]["kid"]
    assert "signing-key rotate" in keywright.refused("signing-key", "withdraw", newest, "--yes")
    assert "is withdrawn" in keywright("signing-key", "withdraw", first["kid"], "--yes")
    assert [one["state"] for one in keywright.json("signing-key", "show")["keys"]] == ["signs", "withdrawn"]
    for kid in ("unknown", "-h".ljust(43, "y"), "--".ljust(43, "h")):
        assert "there is no signing key" in keywright.refused("signing-key", "withdraw", kid, "--yes")


def test_the_line_that_pins_the_key_is_printed_for_each_language(keywright: Keywright) -> None:
    keywright("init")
    key = keywright.json("signing-key", "export-public")["public_key"]
    assert keywright("signing-key", "export-public", "--language", "python").strip() == (
        f'PUBLIC_KEYS = ["{key}"]'
    )
    said = keywright("signing-key", "export-public")
    for language in ("Python", "JavaScript", "PHP", "Go", "C", "C#"):
        assert f"\n{language}:\n" in said
    assert "choose one of" in keywright.refused(
        "signing-key", "export-public", "--language", "Basic", status=2
    )
