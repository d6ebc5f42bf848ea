"""The fingerprint of a device, and the command for support."""

import sys
from pathlib import Path

import pytest

from clients.vectors.pieces import BEGIN, END
from keywright_client import __main__, _device
from keywright_client._device import Device, identify
from tests.clients.conftest import Program, Time
from tests.clients.signing_server import KEY, LICENSE_KEY, STRANGER, SigningServer

MACHINE_ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "machine-id").write_text(MACHINE_ID + "\n")
    return tmp_path / "root"


def known(root: Path, product: str = "editor", installation: str = "i-1", **environ: str) -> Device:
    named_by = environ.pop("named_by", "machine")
    return identify(product, installation, named_by, environ, str(root))


def test_a_machine_has_one_fingerprint_for_each_product(machine: Path) -> None:
    here = known(machine)
    assert here == known(machine, installation="i-2")
    assert here.fingerprint != known(machine, product="viewer").fingerprint
    assert MACHINE_ID not in here.fingerprint
    assert (len(here.fingerprint), here.source) == (64, "linux-1")


@pytest.mark.parametrize("machine_id", ["", "uninitialized\n", "0" * 32, "b08dfa6083e7567a1921a715000001fb"])
def test_without_an_id_of_its_own_the_installation_counts(machine: Path, machine_id: str) -> None:
    (machine / "etc" / "machine-id").write_text(machine_id)
    assert known(machine) == known(machine)
    assert known(machine).fingerprint != known(machine, installation="i-2").fingerprint
    assert known(machine).source == "installation-1"
    (machine / "etc" / "machine-id").unlink()
    assert known(machine).source == "installation-1"


def test_in_a_container_the_installation_counts(machine: Path) -> None:
    assert known(machine, container="podman").source == "installation-1"
    (machine / ".dockerenv").touch()
    assert known(machine).fingerprint != known(machine, installation="i-2").fingerprint


def test_the_environment_names_the_device_only_where_the_program_lets_it(machine: Path) -> None:
    rack = {"KEYWRIGHT_FINGERPRINT": "rack-7"}
    assert known(machine, **rack) == known(machine)
    assert known(machine, named_by="environment", **rack) == Device("rack-7", "environment")
    # Mixed, it names no other machine: neither shares a place, nor opens a copied file.
    mixed = known(machine, named_by="machine+environment", **rack)
    assert mixed.source == "linux-1+environment"
    assert mixed.fingerprint not in ("rack-7", known(machine).fingerprint)
    assert mixed != known(machine, named_by="machine+environment", KEYWRIGHT_FINGERPRINT="rack-8")
    (machine / "etc" / "machine-id").write_text("f" * 31 + "0")
    assert known(machine, named_by="machine+environment", **rack).fingerprint != mixed.fingerprint
    for named_by in ("environment", "machine+environment"):
        assert known(machine, named_by=named_by) == known(machine)


def test_a_cloned_machine(
    machine: Path, program: Program, server: SigningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _device, "identify", lambda product, installation, _: known(machine, product, installation)
    )
    program.start().activate(LICENSE_KEY)
    # With its machine id it is the same device; with a new one, as images get, it has no place.
    assert program.start(is_online=False).check().state == "valid"
    (machine / "etc" / "machine-id").write_text("f" * 31 + "0")
    assert program.start(is_online=False).check().state == "not_activated"
    assert program.start().check().state == "not_activated"
    assert program.start().activate(LICENSE_KEY).state == "valid"
    assert len(server.devices) == 2


def test_another_way_to_name_the_device_takes_its_place_along(
    machine: Path, program: Program, server: SigningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _device, "identify", lambda product, installation, _: known(machine, product, installation)
    )
    (machine / "etc" / "machine-id").write_text("")
    program.start().activate(LICENSE_KEY)
    first = program.start().fingerprint
    (machine / "etc" / "machine-id").write_text(MACHINE_ID)
    assert program.start().check().state == "valid"
    assert server.requests[-1][1]["replaces"] == first
    assert list(server.devices) == [program.start().fingerprint] != [first]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The status and the output of the command."""
    status = __main__.main(list(arguments))
    return status, capsys.readouterr().out


def test_the_command_tells_fingerprint_and_status(
    program: Program, server: SigningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (
        "--url",
        server.url,
        "--product",
        "editor",
        "--public-key",
        KEY.x,
        "--folder",
        str(program.folder),
        "--named-by",
        "environment",
    )
    assert run(capsys, "fingerprint", *options) == (0, "the-first-device\n")
    status, said = run(capsys, "check", *options)
    assert status == 1
    assert '"state": "not_activated"' in said


def test_the_command_says_what_is_wrong_with_its_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    for arguments, said in (
        (["explain", str(path)], "No such file"),
        (["explain", str(path), "--public-key", "short"], "A public key is base64url of 32 bytes"),
        (["check", "--product", "editor", "--public-key", "short"], "A public key is base64url of 32 bytes"),
    ):
        with pytest.raises(SystemExit):
            __main__.main(arguments)
        assert said in capsys.readouterr().err


def test_the_command_explains_a_file(
    server: SigningServer, time: Time, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time.now = 4_000_000_000
    path = tmp_path / "license.txt"
    path.write_text(f"{BEGIN}\n{server.sign({'license_key': LICENSE_KEY})}\n{END}\n")
    status, said = run(capsys, "explain", str(path))
    assert status == 0
    assert '"code": "valid"' in said
    assert "Not verified" in said
    assert LICENSE_KEY not in said
    assert "NOT good (not_yet_valid)" in run(capsys, "explain", str(path), "--public-key", KEY.x)[1]
    assert "NOT good (header)" in run(capsys, "explain", str(path), "--public-key", STRANGER.x)[1]
    path.write_text("Hello")
    assert run(capsys, "explain", str(path))[0] == 1
