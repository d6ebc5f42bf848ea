"""The log of requests: one line each, enough to identify it, and no secret."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from keywright.http.middleware.access_log import _trace_of
from tests import forking
from tests.http.asking import Client, Reply, a_key, basic, core, in_query, license_path
from tests.http.conftest import assert_clean
from tests.server import RunningServer, environment, running, wait_until


@pytest.fixture
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with its own log."""
    with running(tmp_path_factory.mktemp("logged") / "data") as server:
        yield server


def lines(server: RunningServer) -> list[dict[str, Any]]:
    """The log's lines about requests."""
    entries = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    return [entry for entry in entries if entry["event"] == "request"]


def last_line(server: RunningServer, count: int) -> dict[str, Any]:
    wait_until(lambda: len(lines(server)) >= count, f"line {count} of the log")
    found = lines(server)
    assert len(found) == count
    return found[-1]


TRACE = {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "parent_id": "00f067aa0ba902b7"}
TRACED = {"traceparent": f"00-{TRACE['trace_id']}-{TRACE['parent_id']}-01"}


def test_a_line_names_the_trace_of_a_well_formed_traceparent_and_of_no_other() -> None:
    good, (trace, parent) = TRACE, TRACE.values()
    cases: list[tuple[list[str], dict[str, str]]] = [
        ([f"00-{trace}-{parent}-01"], good),
        ([f"01-{trace}-{parent}-01-later"], good),
        ([f"01-{trace}-{parent}-01"], good),
        ([], {}),
        ([""], {}),
        ([f"00-{trace}-{parent}-01"] * 2, {}),
        ([f"00-{trace}-{parent}-01-more"], {}),
        ([f"01-{trace}-{parent}-01." + "x" * 20], {}),
        ([f"01-{trace}-{parent}-01-" + "x" * 300], {}),
        ([f"ff-{trace}-{parent}-01"], {}),
        ([f"00-{'0' * 32}-{parent}-01"], {}),
        ([f"00-{trace}-{'0' * 16}-01"], {}),
        ([f"00-{trace.upper()}-{parent}-01"], {}),
        ([f"00-{trace}-{parent}"], {}),
        ([f"00-{trace}-{parent}-01\n"], {}),
        ([f"00-{trace[:-1]}\n-{parent}-01"], {}),
    ]
    for given, expected in cases:
        headers = [(b"host", b"x"), *((b"traceparent", one.encode()) for one in given)]
        assert _trace_of({"headers": headers}) == expected, given


def test_every_request_is_one_line(logged: RunningServer) -> None:
    vendor_key, client_key = logged.api_key(), logged.api_key()
    with Client(logged, vendor_key) as vendor, Client(logged) as program:
        key = vendor.license()
        token = program.activated(key)
        shown = f"…{key[-4:]}"
        unknown = a_key()
        known = {"license_id": 1, "key": shown, "caller": "program"}
        recipe = {"charset": "ABCDEF0123456789", "chunks": 4, "chunk_length": 8, "prefix": "CANARY"}
        vendor.post("generators", json_body={"name": "g", **recipe})
        basic_of = {"Authorization": basic(*client_key)}
        wrong_half = {"Authorization": basic("ck_no", client_key[1])}
        in_route = f"rest_route=/lmfwc/v2/licenses/validate/{unknown}"
        update, another = {"order_id": 1}, {"license_key": a_key()}
        expected: list[tuple[Reply, dict[str, Any]]] = [
            (program.activate(key), {"route": "activate", "method": "GET", "status": 200, **known}),
            (program.post(core("activate", key)), {"route": "activate", "method": "POST", **known}),
            (program.validate(key), {"route": "validate", "status": 200, **known}),
            (program.validate(key, token), {"route": "validate", "status": 200, **known}),
            (program.deactivate(key, token), {"route": "deactivate", "status": 200, **known}),
            (program.activate(key, token), {"route": "activate", "status": 200, **known}),
            (program.deactivate(key), {"route": "deactivate", "status": 200, **known}),
            (program.validate(unknown), {"route": "validate", "status": 404, "key": f"…{unknown[-4:]}"}),
            (vendor.get("licenses"), {"route": "list_licenses", "status": 200, "caller": "api_key:1"}),
            (vendor.get("licenses?page=1"), {"route": "list_licenses", "status": 200, "caller": "api_key:1"}),
            (vendor.get(license_path(key)), {"route": "get_license", **known, "caller": "api_key:1"}),
            (vendor.put(license_path(key), json_body=update), {"route": "update_license", "license_id": 1}),
            (vendor.post("licenses", json_body=another), {"route": "create_license", "license_id": 2}),
            (vendor.delete(license_path(key)), {"route": "delete_license", "status": 200, "key": shown}),
            (vendor.post("generators/1/generate", json_body={"amount": 2}), {"route": "generate"}),
            (vendor.get("generators"), {"route": "list_generators", "caller": "api_key:1"}),
            (program.get("licenses"), {"status": 401, "caller": "program"}),
            (program.get("licenses", query=in_query(client_key)), {"caller": "api_key:2"}),
            (program.get("licenses", headers=basic_of), {"caller": "api_key:2"}),
            (program.get("licenses", headers=wrong_half), {"status": 401}),
            (program.get("/", query=in_route), {"route": "validate", "status": 404}),
            (program.ask("OPTIONS", "licenses"), {"method": "OPTIONS", "status": 200}),
            (program.ask("HEAD", core("activate", key)), {"method": "HEAD", "status": 405}),
            (vendor.get("nothing/at/all"), {"status": 404, "caller": "api_key:1"}),
            (program.get(f"/nothing/{unknown}?k={unknown}"), {"status": 404}),
            (program.get("/healthz", headers=TRACED), {"status": 200} | TRACE),
            (program.validate(key, headers=TRACED), TRACE),
            (program.get("licenses/validate/" + "x" * 9000), {"status": 414}),
        ]
        wait_until(lambda: len(lines(logged)) >= len(expected) + 3, "the log's last line")
    found = lines(logged)[3:]
    assert len(found) == len(expected)
    for line, (reply, about) in zip(found, expected, strict=True):
        assert {name: line[name] for name in about} == about
        assert line["status"] == reply.status
        assert line["level"] == "info"
        assert isinstance(line["duration_ms"], float)
        assert 0 < line["duration_ms"] < 10_000
    for line in found:
        assert {"method", "route", "status", "duration_ms", "timestamp"} <= set(line)


def test_a_line_never_shows_more_than_a_quarter_of_a_key(logged: RunningServer) -> None:
    with Client(logged, logged.api_key()) as vendor:
        for count, (key, shown) in enumerate((("ABCDEFGHIJKLMNOPQRST", "…QRST"), ("ABC", "…")), 1):
            vendor.validate(key)
            assert last_line(logged, count)["key"] == shown


def test_no_secret_is_in_the_log(logged: RunningServer) -> None:
    credentials = logged.api_key()
    with Client(logged, credentials) as vendor, Client(logged) as program:
        key = vendor.license()
        token = program.activated(key)
        headers = {"Authorization": basic(*credentials), "Idempotency-Key": f"ck_{token}", "Referer": key}
        ways: list[dict[str, Any]] = [{"query": {"token": token, **in_query(credentials)}}]
        ways.append({"headers": headers})
        calls = (core("activate", key), f"//{core('validate', key)}/")
        for client in (vendor, program):
            for path in (*calls, license_path(key), f"nothing/{key}"):
                for way in ways:
                    for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
                        client.ask(method, path, **way)
        for path in (f"/{key}", f"/{token}", f"/wp-json/{key}", f"/?rest_route=/{key}", f"/{credentials[1]}"):
            program.get(path, query=in_query(credentials))
        program.get("x" * 9000 + key)
        program.get("licenses", headers={"X": key * 3000, **headers})
        vendor.post("licenses", body=f'{{"license_key": "{key}'.encode())
        # It is refused while it is being sent.
        with Client(logged, credentials) as other, suppress(BrokenPipeError, ConnectionResetError):
            other.post("licenses", body=key.encode() * 100_000)
        vendor.put(license_path(key), json_body={"license_key": a_key(), "expires_at": token})
        program.get("licenses", headers={"Authorization": f"Basic {credentials[1]}"})
        program.get("licenses", headers={"Authorization": f"Bearer {credentials[1]}"})
        program.get("/readyz")
    logged.stop()
    assert_clean(logged)


@pytest.mark.parametrize("format", ["json", "console"])
def test_other_levels_and_formats_show_no_secret_either(tmp_path: Path, format: str) -> None:
    with running(tmp_path / "data", log_format=format, log_level="debug") as server:
        credentials = server.api_key()
        with Client(server, credentials) as vendor:
            key = vendor.license()
            vendor.activate(key, query=in_query(credentials))
            vendor.deactivate(key)
            vendor.get(f"/nothing/{key}", query=in_query(credentials))
        assert "request" in server.log
    assert_clean(server)


def every_line(log: str) -> list[dict[str, Any]]:
    """Parse the whole log: one JSON object per line."""
    return [json.loads(line) for line in log.splitlines()]


def test_good_calls_are_no_line_by_default(tmp_path: Path) -> None:
    with running(tmp_path / "data", log_calls="errors_and_slow") as server:
        with Client(server, server.api_key()) as vendor, Client(server) as program:
            key = vendor.license()
            before = len(every_line(server.log))
            good = [program.activate(key), program.validate(key), vendor.get(license_path(key))]
            assert [one.status for one in (*good, program.get("/readyz"))] == [200] * 4
            assert program.validate("UNKNOWN").status == 404
            # The last call is a vendor's error, which is logged.
            assert vendor.get(license_path("UNKNOWN")).status == 404
            wait_until(lambda: lines(server), "the line of the mistake")
            (line,) = every_line(server.log)[before:]
        assert (line["route"], line["status"]) == ("get_license", 404)


def test_nothing_but_json_is_written_in_json(tmp_path: Path) -> None:
    with running(tmp_path / "data", backup_daily_at="00:00") as server:
        with Client(server) as program:
            program.validate("UNKNOWN")
        wait_until(lambda: server.sql("SELECT 1 FROM events WHERE name = 'backup.made'"), "a backup")
        taken = subprocess.run(
            [forking.command(), "serve", "--port", str(server.port), "--data-dir", str(tmp_path / "other")],
            env=environment(log_format="json"),
            capture_output=True,
            text=True,
            check=False,
        )
    said = every_line(server.log)
    ready = next(line for line in said if " is ready at " in line["event"])
    assert ready["setup_link"].startswith(f"{server.base_url}/admin/setup?token=")
    assert ready["data_directory"] == str(tmp_path / "data")
    assert said[-1]["event"] == "Keywright has stopped."
    assert taken.returncode == 1
    *_, failed = every_line(taken.stdout + taken.stderr)
    assert failed["level"] == "critical"
    assert "Cannot listen on " in failed["event"]


def test_the_demo_says_its_key_in_json_too(tmp_path: Path) -> None:
    with running(tmp_path / "data", log_format="json") as server:
        server.stop()
        process = subprocess.Popen(
            [forking.command(), "serve", "--demo=one", "--port", "0", "--data-dir", str(tmp_path / "data")],
            env=environment(log_format="json"),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        ready = json.loads(process.stderr.readline())
        process.terminate()
        rest = process.communicate()[1]
    assert ready["license_key"]
    assert ready["api_key"].startswith("ck_")
    assert [line["event"] for line in every_line(rest)] == ["Keywright has stopped."]
