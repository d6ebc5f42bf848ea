"""``keywright release``: three commands in a build script, and twice is once."""

from pathlib import Path

import pytest

from tests.cli.conftest import Keywright
from tests.unit.test_versions import CONTENT, MINISIGN_KEY, minisign

DATABASES = ("sqlite",)


@pytest.mark.smoke
def test_a_build_script_publishes_a_release_for_three_platforms(keywright: Keywright, tmp_path: Path) -> None:
    keywright("product", "create", "--name", "Paint", "--code", "paint", "--public-key", MINISIGN_KEY)
    build = tmp_path / "build"
    build.mkdir()
    names = ("paint.msi", "paint.dmg", "paint.AppImage")
    for name in names:
        (build / name).write_bytes(CONTENT + name.encode())
    (build / "paint.zip").write_bytes(CONTENT)
    (build / "paint.zip.minisig").write_text(minisign(CONTENT))
    script = [
        ("create", "paint", "3.2.1", "--rollout", "50"),
        (
            "upload",
            "paint",
            "3.2.1",
            f"windows/x86_64={build / 'paint.msi'}",
            f"macos={build / 'paint.dmg'}",
            str(build / "paint.AppImage"),
        ),
        (
            "upload",
            "paint",
            "3.2.1",
            str(build / "paint.zip"),
            "--signature",
            str(build / "paint.zip.minisig"),
        ),
        ("publish", "paint", "3.2.1"),
    ]
    for arguments in script:
        keywright("release", *arguments)
    before = keywright.json("release", "list", "paint")
    assert [(one["version"], one["state"], one["rollout"]) for one in before] == [
        ("3.2.1", "published", {"percent": 50})
    ]
    events = keywright.json("events")
    for arguments in script:
        keywright("release", *arguments)
    assert keywright.json("release", "list", "paint") == before, "twice is once"
    assert len(keywright.json("events")) == len(events)
    rules = keywright("release", "explain", "paint", "3.2.1", "--platform", "windows")
    assert "unknown_license" in rules
    (build / "paint.msi").write_bytes(b"other")
    altered = f"windows/x86_64={build / 'paint.msi'}"
    refused = keywright.refused("release", "upload", "paint", "3.2.1", altered)
    assert "paint.msi" in refused
    for target, reason in (("Win 11", "must be a word"), ("linux", "another platform")):
        given = f"{target}={build / 'paint.dmg'}"
        assert reason in keywright.refused("release", "upload", "paint", "3.2.1", given, status=2)
    assert "there is no file" in keywright.refused(
        "release", "upload", "paint", "3.2.1", str(build), status=2
    )
    assert "no release 9" in keywright.refused("release", "publish", "paint", "9", status=2)
    assert "no product has the code x" in keywright.refused("release", "list", "x", status=2)
    keywright("release", "yank", "paint", "3.2.1")
    assert keywright.json("release", "list", "paint")[0]["state"] == "yanked"


def test_what_cannot_be_a_release_is_refused(keywright: Keywright, tmp_path: Path) -> None:
    keywright("product", "create", "--name", "Paint", "--code", "paint")
    keywright("release", "create", "paint", "1.0")
    binary, odd = tmp_path / "binary.msi", tmp_path / "Paint é.msi"
    for path in (binary, odd):
        path.write_bytes(bytes(range(256)))
    create, upload = ("release", "create", "paint", "2.0"), ("release", "upload", "paint", "1.0")
    for arguments, reason in (
        (("release", "create", "0", "2.0"), "'PRODUCT': must be an integer from 1"),
        (("release", "list", str(2**63)), "'PRODUCT': must be an integer"),
        (("release", "create", "paint", ""), "'VERSION': must not be empty"),
        ((*create, "--channel", "Not A Channel"), "'--channel'"),
        ((*create, "--notes-file", str(binary)), "is not text in UTF-8"),
        ((*upload, str(odd)), "must be a file name"),
        ((*upload, str(binary), "--signature", str(binary)), "is not a signature"),
    ):
        assert reason in keywright.refused(*arguments, status=2), arguments
    unsigned, signature = tmp_path / "paint.msi", tmp_path / "signature"
    unsigned.write_bytes(CONTENT)
    signature.write_text(minisign(CONTENT))
    keywright(*upload, str(unsigned))
    refused = keywright.refused(*upload, str(unsigned), "--signature", str(signature), status=2)
    assert "is in release 1.0 without this signature" in refused
    long = tmp_path / "notes.md"
    long.write_text("x" * 20_001)
    assert "at most 20000 characters" in keywright.refused(*create, "--notes-file", str(long), status=2)
