"""The files of deploy/ are what the programs that read them want."""

import os
import re
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path

import pytest

from keywright.config.sources import read_settings
from keywright.core import errors as e
from keywright.http.middleware import pipeline
from keywright.http.server import protocol, run
from keywright.http.v2 import wire
from tests.deploy.programs import program
from tests.deploy.proxies import DEPLOY, KINDS, Certificate
from tests.server import KEYWRIGHT

UNIT = DEPLOY / "keywright.service"
PROXY_FILES = ("nginx.conf", "haproxy.cfg", "Caddyfile")


def checked(command: list[str], **environment: str) -> str:
    """What a program says, whose status must be 0."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment or None)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_setup_refuses_an_interpreter_that_the_servers_user_cannot_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root sets it up for another user")
    readable, hidden = Path(program("/usr/bin/python3")), tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    shutil.copy(readable.resolve(), hidden / "python3")
    shutil.copy(DEPLOY.parent / "Makefile", tmp_path)

    def make(python: Path) -> "subprocess.CompletedProcess[str]":
        command = ["make", "check-python", f"PYTHON={python}"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert make(readable).returncode == 0
    done = make(hidden / "python3")
    assert done.returncode != 0
    assert f"The server's own user could not read {hidden}/python3:" in done.stderr
    assert f"make clean && make setup PYTHON={readable}\n" in done.stderr


@pytest.mark.parametrize("ports", [(8000,), (8000, 8001)], ids=["one instance", "two instances"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_proxys_own_check_finds_nothing(
    kind: str, ports: tuple[int, ...], tmp_path: Path, certificate: Certificate
) -> None:
    program(kind)
    proxy = KINDS[kind](tmp_path, certificate, ports)
    said = checked(proxy.check_command(), **proxy.environment)
    assert "[warn]" not in said
    assert "WARNING" not in said
    # Of the certificate, which is these tests' own.
    warnings = [
        line for line in said.splitlines() if '"level":"warn"' in line and '"stapling OCSP"' not in line
    ]
    assert warnings == []


def test_the_caddyfile_is_formatted_as_caddy_does_it() -> None:
    assert checked([program("caddy"), "fmt", str(DEPLOY / "Caddyfile")]) == (DEPLOY / "Caddyfile").read_text()


@pytest.mark.parametrize("file", PROXY_FILES)
def test_the_proxies_refuse_in_keywrights_words(file: str) -> None:
    text = (DEPLOY / file).read_text()
    for error in (e.StoreUnavailable(), e.BodyTooLarge()):
        _, body = wire.write(error, wire.NO_SENTENCES)
        assert body.decode() in text


@pytest.mark.parametrize("file", PROXY_FILES)
def test_what_the_proxies_say_of_keywrights_limits_is_so(file: str) -> None:
    assert (pipeline.MAX_ADDRESS, protocol.MAX_HEADERS) == (8 * 1024, 32 * 1024)
    assert read_settings().body_limit == 1024 * 1024
    text = (DEPLOY / file).read_text()
    assert "(32 KiB, of which the address 8 KiB)" in text
    assert "client_max_body_size 1m;" in text or "1048576" in text


# --- systemd --------------------------------------------------------------------------------------


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with the program that is here."""
    installed = "/opt/keywright/.venv/bin/keywright"
    text = UNIT.read_text()
    assert f"ExecStart={installed} serve" in text
    file = tmp_path / "keywright.service"
    file.write_text(text.replace(installed, KEYWRIGHT))
    return file


def test_systemd_takes_the_unit(unit: Path) -> None:
    assert "keywright.service" not in checked([program("systemd-analyze"), "verify", str(unit)])


def test_systemd_finds_the_unit_well_enclosed(unit: Path) -> None:
    # From 0, nothing is allowed, to 100; most units of a distribution have 90 and more.
    checked([program("systemd-analyze"), "security", "--offline=yes", "--threshold=20", str(unit)])


def test_the_unit_waits_longer_than_the_server_does() -> None:
    service = read_unit()["Service"]
    assert int(service["TimeoutStopSec"]) > run._GRACE
    assert (service["Restart"], service["KillMode"]) == ("on-failure", "mixed")


def test_the_unit_and_its_settings_mean_the_same_folder() -> None:
    settings = read_settings({}, DEPLOY / "keywright.toml")
    service = read_unit()["Service"]
    assert settings.data_dir == Path("/var/lib") / service["StateDirectory"]
    assert service["ExecStart"].endswith(" serve --config /etc/keywright/keywright.toml")


def read_unit() -> RawConfigParser:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser


def test_the_proxies_speak_tls_1_2_and_later_alone() -> None:
    texts = {name: (DEPLOY / name).read_text() for name in PROXY_FILES}
    assert texts["nginx.conf"].count("ssl_protocols") == texts["nginx.conf"].count(
        "ssl_protocols TLSv1.2 TLSv1.3;"
    )
    assert "ssl_protocols" in texts["nginx.conf"]
    assert "ssl-default-bind-options ssl-min-ver TLSv1.2" in texts["haproxy.cfg"]
    # Caddy's own default is that.
    assert not re.search(r"^\s*protocols .*tls", texts["Caddyfile"], re.MULTILINE)
