"""`keywright status` says whether the server runs, and how busy it is."""

import json
import subprocess
from pathlib import Path

from tests.http.asking import Client
from tests.server import KEYWRIGHT, environment, running


def status(data_dir: Path, port: int, *options: str, **settings: object) -> tuple[int, str]:
    done = subprocess.run(
        [KEYWRIGHT, "status", "--data-dir", str(data_dir), *options],
        env=environment(port=port, **settings),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_server_that_runs_is_ready_and_one_that_was_stopped_is_not_running(tmp_path: Path) -> None:
    with running(tmp_path / "data", metrics_address="127.0.0.1:0") as server:
        metrics_address = server.log.partition("metrics are at ")[2].partition("/")[0]
        with Client(server) as program:
            program.validate("UNKNOWN")
        code, text = status(tmp_path / "data", server.port, "--json", metrics_address=metrics_address)
        shown = json.loads(text)
        assert (code, shown["server"]) == (0, "ready")
        assert (shown["waiting_calls"], shown["unfinished_jobs"]) == (0, 0)
        assert shown["unknown_keys_since_start"] == 1
        assert shown["memory"].endswith("MB")
        assert shown["database_version"].startswith("sqlite 3.")
        assert "calls per second" not in status(tmp_path / "data", server.port)[1]
        server.stop()
        code, text = status(tmp_path / "data", server.port, metrics_address=metrics_address)
        assert code == 1
        assert "server" in text
        assert "not running" in text
        assert "no answer" in text
