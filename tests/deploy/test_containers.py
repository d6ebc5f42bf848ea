"""The Dockerfile step by step, as far as that goes without a container engine; and the compose file."""

import ipaddress
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml  # type: ignore[import-untyped]

from keywright.config.sources import read_settings
from keywright.http.server import run
from tests.deploy.programs import is_required, program
from tests.deploy.proxies import DEPLOY
from tests.deploy.upstreams import an_upstream
from tests.server import environment, wait_until
from tools.postgres import free_port

ROOT = DEPLOY.parent
DOCKERFILE = DEPLOY / "Dockerfile"
_INSTRUCTION = re.compile(r"^([A-Z]+)\s+(.*)$")


class Step(NamedTuple):
    """One instruction of a Dockerfile."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The command in its exec form, which alone passes signals on."""
        return [str(word) for word in json.loads(self.rest)]


def steps() -> list[Step]:
    lines = [line for line in DOCKERFILE.read_text().splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    found = [_INSTRUCTION.match(line) for line in joined.splitlines()]
    return [Step(match[1], match[2]) for match in found if match is not None]


def only(name: str) -> Step:
    """The last of that name, which is the one in force."""
    return [step for step in steps() if step.name == name][-1]


def defaults() -> dict[str, str]:
    """What the image puts into the environment."""
    pairs = (word.split("=", 1) for step in steps() if step.name == "ENV" for word in shlex.split(step.rest))
    return {name: value for name, value in pairs}


def test_every_line_is_understood() -> None:
    text = DOCKERFILE.read_text()
    kept = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(steps()) == len(kept) - sum(line.endswith("\\") for line in kept)


def test_both_stages_begin_with_one_image_that_is_pinned(compose: Any) -> None:
    pinned = re.compile(r"[\w.:-]+:[\w.-]+@sha256:[0-9a-f]{64}")
    argument, first = steps()[:2]
    assert pinned.fullmatch(argument.rest.removeprefix("PYTHON="))
    assert [step.rest for step in steps() if step.name == "FROM"] == ["${PYTHON} AS build", "${PYTHON}"]
    assert (argument.name, first.name) == ("ARG", "FROM")
    assert pinned.fullmatch(compose["services"]["postgres"]["image"])


def test_commands_are_in_the_form_that_passes_signals_on() -> None:
    for step in steps():
        if step.name in ("RUN", "ENTRYPOINT", "CMD"):
            assert step.words
    assert only("ENTRYPOINT").words + only("CMD").words == ["keywright", "serve"]
    assert only("STOPSIGNAL").rest == "SIGTERM"


def test_the_image_runs_as_nobody_special_and_keeps_its_data_in_a_volume() -> None:
    assert only("USER").rest == "10001"
    made = next(step.words for step in steps() if step.name == "RUN" and "install" in step.words[0])
    assert made[-1] == "/data"
    assert "--owner=10001" in made
    assert only("VOLUME").words == ["/data"]
    assert defaults()["KEYWRIGHT_DATA_DIR"] == "/data"


def test_what_is_copied_is_there_and_nothing_else_is_sent_to_the_builder() -> None:
    copies = [step.rest.split() for step in steps() if step.name == "COPY" and "--from" not in step.rest]
    copied = [source for words in copies for source in words[:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied)


def test_the_settings_of_the_image_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in defaults().items():
        if name.startswith("KEYWRIGHT_"):
            monkeypatch.setenv(name, value)
    settings = read_settings()
    assert (settings.host, settings.port) == ("0.0.0.0", int(only("EXPOSE").rest))  # noqa: S104


# --- the build stage, carried out -----------------------------------------------------------------


HERE = Path(sys.executable).parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build stage makes in /opt/keywright, made in another folder and with this Python."""
    if not is_required("image"):
        pytest.skip("downloads for half a minute; TESTS_REQUIRE=image asks for it")
    folder = tmp_path_factory.mktemp("image")
    build, target = folder / "build", folder / "keywright"
    build.mkdir()
    every = steps()
    for step in every[: [step.name for step in every].index("FROM", 2)]:
        if step.name == "COPY":
            copy(step.rest.split(), build)
        elif step.name == "RUN":
            words = [word.replace("/opt/keywright", str(target)) for word in step.words]
            words[0] = sys.executable if words[0] == "python" else words[0]
            # Bytecode of all that is installed would take as long again, and is made when it is needed.
            hurried = os.environ | {"PIP_COMPILE": "0"}
            done = subprocess.run(words, cwd=build, env=hurried, check=False, capture_output=True, text=True)
            assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return target / "bin"


def copy(words: list[str], build: Path) -> None:
    *sources, target = words
    for source in sources:
        if (ROOT / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, build / target, ignore=ignored)
        else:
            shutil.copy(ROOT / source, build / target)


def in_image(programs: Path, folder: Path, port: int) -> dict[str, str]:
    """The environment that the image gives, with these programs, this folder and port."""
    own = {**defaults(), "PATH": f"{programs}:{os.environ['PATH']}"}
    changed = {"KEYWRIGHT_DATA_DIR": str(folder), "KEYWRIGHT_HOST": "127.0.0.1", "KEYWRIGHT_PORT": str(port)}
    return {**environment(), **own, **changed}


def test_what_the_lock_file_names_is_all_that_the_image_needs(installed: Path, tmp_path: Path) -> None:
    assert_serves(installed, tmp_path)


def test_the_image_serves_is_found_healthy_and_ends_in_order(tmp_path: Path) -> None:
    assert_serves(HERE, tmp_path)


def assert_serves(programs: Path, tmp_path: Path) -> None:
    given = in_image(programs, tmp_path / "data", free_port())
    command = only("ENTRYPOINT").words + only("CMD").words
    log = tmp_path / "log"
    with log.open("wb") as output:
        # Not by name: that is looked up where the tests run, not where the image's programs are.
        command[0] = str(programs / command[0])
        process = subprocess.Popen(command, cwd=tmp_path, env=given, stdout=output, stderr=output)
    try:
        wait_until(lambda: b" is ready at " in log.read_bytes(), "the server of the image")
        assert is_healthy(given)
        shown = subprocess.run(
            [str(programs / "keywright"), "license", "create", "--key", "IN-A-BOX"],
            check=True, capture_output=True, text=True, env=given,
        )  # fmt: skip
        assert "IN-A-BOX" in shown.stdout
        process.send_signal(getattr(signal, only("STOPSIGNAL").rest))
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert not is_healthy(given), "nobody is there"


def test_a_server_that_does_not_answer_is_not_healthy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = int(silent.getsockname()[1])
        assert not is_healthy(in_image(HERE, tmp_path, port))
    with an_upstream() as ill:
        ill.answer = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
        assert not is_healthy(in_image(HERE, tmp_path, ill.port))


def is_healthy(given: dict[str, str]) -> bool:
    """What the image's own check says."""
    rest = only("HEALTHCHECK").rest
    words = Step("CMD", rest[rest.index(" CMD ") + 5 :]).words
    seconds = re.search(r"--timeout=(\d+)s", rest)
    assert seconds is not None
    done = subprocess.run(words, check=False, env=given, capture_output=True, timeout=int(seconds[1]))
    return done.returncode == 0


# --- compose --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def compose_command() -> list[str]:
    """Docker's compose, which needs no engine to check a file. It is seldom there: then skip."""
    if shutil.which("docker") is not None:
        command = ["docker", "compose"]
        if subprocess.run([*command, "version"], check=False, capture_output=True).returncode == 0:
            return command
    return [program("docker-compose")]


def test_compose_takes_the_file() -> None:
    command = [*compose_command(), "--file", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_both_instances_differ_in_their_ports_only(compose: Any) -> None:
    one, two = (compose["services"][f"keywright-{number}"] for number in (1, 2))
    assert (one.pop("ports"), two.pop("ports")) == (["127.0.0.1:8000:8000"], ["127.0.0.1:8001:8000"])
    assert one == two
    assert one["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert int(one["stop_grace_period"].removesuffix("s")) > run._GRACE
    build = DEPLOY / one["build"]["context"]
    assert (build / one["build"]["dockerfile"]).samefile(DOCKERFILE)


def test_the_proxy_that_is_believed_is_the_gateway_of_the_network(compose: Any) -> None:
    (network,) = compose["networks"]["keywright"]["ipam"]["config"]
    given = compose["services"]["keywright-1"]["environment"]["KEYWRIGHT_TRUSTED_PROXIES"]
    assert ipaddress.ip_address(given) == next(ipaddress.ip_network(network["subnet"]).hosts())


def test_passwords_come_from_files_that_are_not_in_the_repository(compose: Any) -> None:
    ignored = (DEPLOY / ".gitignore").read_text().split()
    for secret in compose["secrets"].values():
        assert f"/{Path(secret['file']).parent}/" in ignored
    used = [name for service in compose["services"].values() for name in service.get("secrets", [])]
    assert set(used) == set(compose["secrets"])
    assert "PASSWORD:" not in (DEPLOY / "compose.yaml").read_text()
