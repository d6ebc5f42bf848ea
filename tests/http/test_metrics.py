"""The metrics, at a separate address; dashboard and alerting rules use only existing ones."""

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from math import isnan
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from keywright.core import errors
from keywright.http.metrics import _GAUGES
from tests.databases import a_postgres_url
from tests.http.asking import Client
from tests.server import RunningServer, running, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy" / "prometheus"
_ADDRESS = re.compile(r"metrics are at ([^\s\"]+)")
_NAME = re.compile(r"\b((?:keywright|process)_[a-z_]+)")
_OUTCOME = re.compile(r'outcome(=~|!=|=)\\*"([^"]+?)\\*"')


def measured(folder: Path, **settings: Any) -> AbstractContextManager[RunningServer]:
    return running(folder / "data", metrics_address="127.0.0.1:0", **settings)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with measured(tmp_path_factory.mktemp("measured")) as started:
        started.cli("license", "create", "--key", "K", "--max", "1")
        with Client(started) as program:
            for call in (program.activate, program.activate, program.validate, program.validate):
                call("K")
            program.validate("UNKNOWN")
        yield started


#: The metrics that exist only with PostgreSQL.
OF_SERVERS = {
    *("keywright_database_connections", "keywright_replica_aside", "keywright_replica_lag_seconds"),
    "keywright_clock_difference_seconds",
}


def scrape(server: RunningServer) -> dict[tuple[str, str], float]:
    """Scrape the samples, by name and labels."""
    (address,) = _ADDRESS.findall(server.log)
    found = {}
    # Without loading the CA certificates, which takes 20 ms each time.
    answer = httpx.get(f"http://{address}", verify=False)  # noqa: S501
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[sample.name, ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))] = sample.value
    return found


def test_calls_are_counted_by_operation_and_outcome(server: RunningServer) -> None:
    samples = scrape(server)
    calls = {labels: value for (name, labels), value in samples.items() if name == "keywright_requests_total"}
    assert calls == {
        "operation=activate,outcome=ok": 1,
        "operation=activate,outcome=license.limit_reached": 1,
        "operation=validate,outcome=ok": 2,
        "operation=validate,outcome=license.unknown": 1,
    }
    assert samples["keywright_request_seconds_count", "operation=activate"] == 2
    assert samples["keywright_batch_calls_sum", "lane=queries"] >= 3
    assert samples["keywright_batch_seconds_count", "lane=changes"] >= 2
    assert samples["keywright_commit_seconds_count", ""] >= 2
    longest = samples["keywright_batch_seconds_sum", "lane=changes"]
    assert samples["keywright_commit_seconds_sum", ""] <= longest
    assert samples["keywright_unknown_keys_total", ""] == 1
    assert samples["keywright_waiting_calls", ""] == 0
    assert samples["keywright_database_up", ""] == 1
    assert samples["keywright_unfinished_jobs", ""] == 0


def test_only_their_own_address_has_the_metrics(server: RunningServer) -> None:
    assert httpx.get(f"{server.base_url}/metrics").status_code == 404


def names_in(text: str) -> set[str]:
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in _NAME.findall(text)}


@pytest.mark.parametrize("file", ["dashboard.json", "alerts.yaml"])
def test_the_dashboard_and_the_rules_ask_for_metrics_that_there_are(file: str, server: RunningServer) -> None:
    text = (DEPLOY / file).read_text()
    there = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in scrape(server)} | OF_SERVERS
    # Some gauges have no samples, for example without an endpoint.
    there |= {f"keywright_{name}" for name in _GAUGES}
    assert names_in(text)
    assert names_in(text) - there == set()
    assert names_in(text + "keywright_no_such_metric") - there == {"keywright_no_such_metric"}
    codes = {"ok"} | {
        one.code for one in vars(errors).values() if isinstance(getattr(one, "code", None), str)
    }
    for _, pattern in _OUTCOME.findall(text):
        assert any(re.fullmatch(pattern.replace("\\\\", "\\"), code) for code in codes), pattern


def test_the_dashboard_is_json_with_a_query_in_every_panel() -> None:
    panels = json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
    assert all(target["expr"] for panel in panels for target in panel["targets"])
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_a_database_that_is_away_is_a_metric(tmp_path: Path) -> None:
    with a_postgres_url(empty=True) as url, measured(tmp_path, database_url=url) as server:
        assert scrape(server)["keywright_database_up", ""] == 1
        with psycopg.connect(re.sub(r"/[^/]*$", "/postgres", url), autocommit=True) as administrator:
            name = url.rpartition("/")[2]
            administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
            administrator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            wait_until(lambda: not scrape(server)["keywright_database_up", ""], "a database that is away")
            with Client(server) as program:
                assert program.get("/readyz").status == 503
            assert ("keywright_unfinished_jobs", "") not in scrape(server)
            administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
            wait_until(lambda: scrape(server)["keywright_database_up", ""], "the database")
            with Client(server) as program:
                wait_until(lambda: program.get("/readyz").status == 200, "a server that is ready")
            wait_until(lambda: "the database answers again after " in server.log, "a line in the log")


def test_connections_and_a_replica_that_is_set_aside_are_metrics(tmp_path: Path) -> None:
    # A primary is not a replica: it is taken out of use with the first query.
    with (
        a_postgres_url(empty=True) as url,
        measured(tmp_path, database_url=url, read_database_url=url) as server,
    ):
        with Client(server) as program:
            program.validate("UNKNOWN")
        samples = scrape(server)
        assert samples["keywright_replica_aside", ""] == 1
        assert isnan(samples["keywright_replica_lag_seconds", ""])
        assert samples["keywright_database_connections", "state=idle"] >= 3
        assert samples.keys() >= {("keywright_database_connections", "state=busy")}
        assert {name for name, _ in samples} >= OF_SERVERS


def test_each_worker_has_metrics_of_its_own(tmp_path: Path) -> None:
    with a_postgres_url(empty=True) as url, measured(tmp_path, database_url=url, workers=2) as server:
        wait_until(lambda: len(_ADDRESS.findall(server.log)) == 2, "two addresses")
        for address in _ADDRESS.findall(server.log):
            assert "keywright_build_info" in httpx.get(f"http://{address}").text


def test_an_address_that_is_taken_is_said_in_one_sentence(server: RunningServer, tmp_path: Path) -> None:
    taken = _ADDRESS.findall(server.log)[0].removesuffix("/metrics")
    with pytest.raises(AssertionError, match=f"Cannot listen on {taken}: ") as ended:
        running(tmp_path / "data", metrics_address=taken).__enter__()
    assert "Traceback" not in str(ended.value)
