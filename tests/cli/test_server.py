"""``keywright serve``, ``init``, ``config`` and ``version``."""

import io
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from keywright import __version__
from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.config.sources import read_settings
from keywright.core.command import Context
from keywright.db import run_read
from keywright.identity.sessions import is_setup_token
from keywright.maintenance.tasks import SaveSettings
from keywright.registry import open_executor
from tests import forking
from tests.cli.conftest import Keywright, run
from tests.databases import a_postgres_url, from_afar
from tests.makers import NOW, an_origin
from tests.server import environment, wait_until

DATABASES = ("sqlite",)
SECRET = "a secret of thirty-two characters"


class Serving:
    """``keywright serve`` in a process of its own, and its output until it was ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.said = ""
        assert process.stdout is not None
        for line in process.stdout:
            self.said += line
            if line.startswith("Ctrl-C"):
                return
        raise AssertionError(f"it ended: {process.communicate()}")

    @property
    def lines_to_type(self) -> list[str]:
        """What the server says to type."""
        said = self.said.partition("database")[2].splitlines()[1:]
        return [line.strip() for line in said if line.startswith("  ") and line.strip() != self.setup_link]

    @property
    def setup_link(self) -> str | None:
        """Where the first administrator is made; None when there are users."""
        heading = "Create the first administrator (within 30 minutes):\n  "
        return self.said.partition(heading)[2].partition("\n")[0] or None

    @property
    def base_url(self) -> str:
        return self.said.partition(" is ready at ")[2].split()[0]

    @property
    def api_url(self) -> str:
        return next(word for word in self.said.split() if word.endswith("/v2"))

    def stop(self, with_signal: int = signal.SIGTERM) -> tuple[int, str]:
        """The status that it ends with, and its log."""
        self._process.send_signal(with_signal)
        log = self._process.communicate()[1]
        return self._process.returncode, log


@contextmanager
def serving(data_dir: Path, *options: str) -> Iterator[Serving]:
    command = [forking.command(), "serve", "--port", "0", "--data-dir", str(data_dir), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(log_calls="all"), text=True
    ) as process:
        try:
            yield Serving(process)
        finally:
            process.kill()


def paste(lines: list[str]) -> list[Any]:
    """What a shell prints when these lines are pasted into it: one JSON document a line."""
    done = subprocess.run(["sh", "-eu"], check=True, input="\n".join(lines), capture_output=True, text=True)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def got(url: str) -> Any:
    return httpx.get(url).json()["data"]


# --- serve ------------------------------------------------------------------------------------------


def test_the_lines_that_the_demo_prints_can_be_pasted(nowhere: Keywright) -> None:
    with serving(nowhere.data_dir, "--demo=one") as server:
        *answers, device, checked, sold, listed = paste(server.lines_to_type)
        status, log = server.stop()
    activated, _, _, reactivated = answers
    assert [answer["success"] for answer in (*answers, listed)] == [True] * 5
    assert (device["is_new"], checked["code"]) == (True, "valid")
    assert sold == {"received": True}
    counts = [answer["data"]["timesActivated"] for answer in answers]
    assert counts == [1, 1, 0, 1]
    token = activated["data"]["activationData"]["token"]
    assert reactivated["data"]["activationData"]["token"] == token
    assert reactivated["data"]["timesActivatedMax"] == 3
    assert activated["data"]["licenseKey"] in [one["licenseKey"] for one in listed["data"]]
    assert status == 0
    requests = [json.loads(line) for line in log.splitlines()]
    assert [one["status"] for one in requests] == [*[200] * 4, 201, *[200] * 3]
    for secret in (activated["data"]["licenseKey"], token, "cs_"):
        assert secret not in log


def test_the_demo_adds_its_data_once_and_finds_its_license_again(nowhere: Keywright) -> None:
    with serving(nowhere.data_dir, "--demo=one") as server:
        first = server.lines_to_type
        assert "cs_" in server.said
        server.stop()
    with serving(nowhere.data_dir, "--demo=one") as server:
        again = server.lines_to_type
        assert "cs_" not in server.said
        assert "was shown only once" in server.said
        assert [one["data"]["timesActivated"] for one in paste(again[:6])] == [1, 1, 0, 1]
        assert paste(again[8:12]) == [{"received": True}]
        wait_until(lambda: len(nowhere.json("license", "list")) == 2, "the license that was sold")
        server.stop()
    addresses = [line.split("/v2/")[1] for line in first if "/v2/licenses/" in line]
    assert [line.split("/v2/")[1] for line in again if "/v2/licenses/" in line] == addresses
    assert [one["name"] for one in nowhere.json("apikey", "list")] == ["demo"]
    (generator,) = nowhere.json("generator", "list")
    assert (generator["name"], generator["chunks"], generator["chunkLength"]) == ("Demo", 5, 5)
    assert [one["orderId"] for one in nowhere.json("license", "list")] == [None, None]


def test_the_full_demo_sells_for_a_made_up_vendor_once(nowhere: Keywright) -> None:
    def counts() -> list[int]:
        return [len(nowhere.json(kind, "list")) for kind in ("license", "generator", "apikey")]

    with serving(nowhere.data_dir, "--demo") as server:
        (key,) = {
            line.split("/validate/")[1].split("'")[0] for line in server.lines_to_type if "/validate/" in line
        }
        made = counts()
        assert got(f"{server.api_url}/licenses/validate/{key}")["timesActivatedMax"] == 3
        server.stop()
    assert made[0] > 300
    assert made[1:] == [5, 1]
    nowhere("doctor")
    with serving(nowhere.data_dir, "--demo") as server:
        assert key in server.said
        server.stop()
    assert counts() == made


def test_without_demo_nothing_is_added_and_the_next_steps_work(nowhere: Keywright, tmp_path: Path) -> None:
    with serving(nowhere.data_dir) as server:
        assert f"data directory  {nowhere.data_dir}" in server.said
        assert f"sqlite:///{nowhere.data_dir}/keywright.db" in server.said
        assert server.api_url.removesuffix("/wp-json/lmfwc/v2") + "/openapi/v2" in server.said
        assert nowhere.json("license", "list") == nowhere.json("apikey", "list") == []
        api_key, license, activate, validate = server.lines_to_type
        for line in (api_key, license):
            typed = (
                line.replace("keywright ", f"{forking.command()} ", 1)
                if line.startswith("keywright")
                else line
            )
            subprocess.run(["sh", "-c", typed], check=True, capture_output=True, env=environment())
        (made,) = nowhere.json("license", "list")
        lines = [line.replace("LICENSE-KEY", made["licenseKey"]) for line in (activate, validate)]
        assert [one["data"]["timesActivated"] for one in paste(lines)] == [1, 1]
        server.stop()


def test_the_lines_bring_an_api_key_where_one_is_required(nowhere: Keywright) -> None:
    nowhere("init")
    Path("strict.toml").write_text("require_api_key = true\n")
    with serving(nowhere.data_dir, "--demo=one", "--config", "strict.toml") as server:
        printed = paste(server.lines_to_type)
        assert [{"success", "activation", "received"}.isdisjoint(one) for one in printed] == [False] * 8
        assert not any("status" in one for one in printed)
        server.stop()


def test_the_server_prints_a_link_for_the_first_administrator_until_there_is_a_user(
    nowhere: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    with serving(nowhere.data_dir) as server:
        assert server.setup_link is not None
        address, _, token = server.setup_link.partition("?token=")
        assert address == f"{server.base_url}/admin/setup"
        assert f"{server.base_url}/admin\n" in server.said
        with closing(open_installation(read_settings({"data_dir": nowhere.data_dir}))) as storage:
            assert run_read(storage, lambda tx: is_setup_token(tx, token, now + timedelta(minutes=29)))
        _, log = server.stop()
        assert token not in log
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    nowhere("user", "create", "ada", "--role", "administrator", "--password-stdin")
    with serving(nowhere.data_dir) as server:
        assert server.setup_link is None
        assert f"  pages           {server.base_url}/admin\n" in server.said
        server.stop()


def test_commands_and_server_work_on_the_same_data_until_control_c_and_a_demo_adds_nothing(
    keywright: Keywright,
) -> None:
    keywright("license", "create", "--key", "SHARED", "--max", "2")
    with serving(keywright.data_dir, "--demo=one") as server:
        assert "SHARED" not in server.said
        assert "What to type next" in server.said
        assert got(f"{server.api_url}/licenses/activate/SHARED")["timesActivated"] == 1
        assert keywright.json("license", "activate", "SHARED")["timesActivated"] == 2
        assert got(f"{server.api_url}/licenses/validate/SHARED")["remainingActivations"] == 0
        events = keywright.json("license", "show", "SHARED")["events"]
        assert [one["actor"].partition(":")[0] for one in events] == ["cli", "program", "cli"]
        assert server.stop(signal.SIGINT)[0] == 0
    assert len(keywright.json("license", "list")) == 1
    assert keywright.json("apikey", "list") == keywright.json("generator", "list") == []


def test_a_taken_port_is_said_in_one_sentence_and_leaves_no_demo(nowhere: Keywright) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("serve", "--port", port, "--demo=one", "--data-dir", str(nowhere.data_dir))
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"Error: Cannot listen on 127.0.0.1:{port}: ")
    assert done.err.count("\n") == 1
    assert nowhere.json("apikey", "list") == []
    assert "'--port'" in nowhere.refused("serve", "--port", "99999", status=2)


# --- init -------------------------------------------------------------------------------------------


def test_init_says_what_it_made_and_then_what_was_there(
    nowhere: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = nowhere("init")
    assert said.count("created") == 2
    assert f"data directory  {nowhere.data_dir}\n" in said
    assert f"serve --data-dir {nowhere.data_dir}" in said
    secret = (nowhere.data_dir / "secret").read_text()
    assert secret.strip() not in said
    assert nowhere("init").count("already existed") == 2
    assert (nowhere.data_dir / "secret").read_text() == secret
    monkeypatch.setenv("KEYWRIGHT_SECRET", secret)
    assert "given by KEYWRIGHT_SECRET" in nowhere("init")


def test_two_inits_at_once_make_one_installation(nowhere: Keywright) -> None:
    command = [forking.command(), "init", "--data-dir", str(nowhere.data_dir)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        for _ in range(2)
    ]
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert nowhere.json("license", "list") == []


# --- config and version -----------------------------------------------------------------------------


def test_config_shows_every_setting_with_its_source(
    nowhere: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("keywright.toml").write_text('namespace = "shop"\n')
    monkeypatch.setenv("KEYWRIGHT_PORT", "9000")
    monkeypatch.setenv("KEYWRIGHT_SECRET", SECRET)
    shown = nowhere.json("config")
    assert list(shown) == list(Settings.model_fields)
    assert shown["port"] == {"value": 9000, "source": "KEYWRIGHT_PORT"}
    assert shown["namespace"] == {"value": "shop", "source": "keywright.toml"}
    assert shown["data_dir"] == {"value": str(nowhere.data_dir), "source": "--data-dir"}
    assert shown["host"] == {"value": "127.0.0.1", "source": "default"}
    assert shown["secret"] == {"value": "********", "source": "KEYWRIGHT_SECRET"}
    table = nowhere("config")
    assert SECRET not in table
    for name, one in shown.items():
        (line,) = (line for line in table.splitlines() if line.split()[:1] == [name])
        assert line.endswith(f" {one['source']} ") or line.rstrip().endswith(one["source"])
    assert not nowhere.data_dir.exists()


def test_config_shows_what_the_pages_have_set_and_changes_nothing(
    nowhere: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere("init")
    changes = {
        "smtp_url": "smtps://ada:geheim@mail.example.com",
        "mail_from": "a@example.com",
        "session_hours": "4",
    }
    with closing(open_installation(Settings(data_dir=nowhere.data_dir))) as storage:
        open_executor(storage).execute([SaveSettings(context=Context(NOW, an_origin()), changes=changes)])
    monkeypatch.setenv("KEYWRIGHT_SESSION_HOURS", "6")
    shown = nowhere.json("config")
    assert shown["smtp_url"] == {"value": "********", "source": "the pages"}
    assert shown["mail_from"] == {"value": "a@example.com", "source": "the pages"}
    assert shown["session_hours"] == {"value": 6, "source": "KEYWRIGHT_SESSION_HOURS"}
    assert "geheim" not in nowhere("config")
    # Without the secret they cannot be read, and the rest is shown.
    (nowhere.data_dir / "secret").rename(nowhere.data_dir / "elsewhere")
    assert nowhere.json("config")["mail_from"] == {"value": None, "source": "default"}


def test_config_takes_the_file_that_is_named(nowhere: Keywright) -> None:
    Path("other.toml").write_text("port = 7\nrequire_api_key = true\ntrusted_proxies = ['10.0.0.0/8']\n")
    shown = nowhere.json("config", "--config", "other.toml")
    assert shown["port"] == {"value": 7, "source": "other.toml"}
    assert "true" in nowhere("config", "--config", "other.toml")
    assert "10.0.0.0/8" in nowhere("config", "--config", "other.toml")
    assert "there is no settings file none.toml" in nowhere.refused("config", "--config", "none.toml")


def test_a_bad_setting_stops_every_command_in_one_sentence(
    keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYWRIGHT_PORT", "99999")
    for command in (("serve",), ("init",), ("config",), ("license", "list"), ("apikey", "list")):
        said = keywright.refused(*command)
        assert said.startswith("port = 99999 (from KEYWRIGHT_PORT) cannot be used: "), command


def test_version_is_the_package_s(nowhere: Keywright) -> None:
    for arguments in (("version",), ("--version",)):
        assert nowhere.run(*arguments).out == f"keywright {__version__}\n"


def test_a_connection_to_the_database_without_verified_tls_is_told_at_start(tmp_path: Path) -> None:
    with a_postgres_url(empty=True) as url:
        for given, times in ((url, 0), (from_afar(url), 1)):
            with serving(tmp_path / "data", "--database-url", given) as server:
                assert server.stop()[1].count("is not protected by verified TLS") == times
