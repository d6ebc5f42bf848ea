"""The command ``keywright status``."""

import json
import re
import time
from collections.abc import Iterable
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, command, with_installation
from keywright.core.parsing import format_size, write_time

if TYPE_CHECKING:
    from keywright.config import Settings

#: The timeout of a request to the server, and the time between two readings of its metrics, in seconds.
_TIMEOUT, _INTERVAL = 3.0, 1.0
_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? ([0-9.e+-]+)$", re.MULTILINE)

_Fields = dict[str, str | int | float | None]


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "keywright status", "keywright status --json | jq .server")(with_installation(status))


def status(here: Installation, *, as_json: AsJson = False) -> None:
    """Show whether the server runs, and what is in its database.

    With the setting metrics_address, it also shows how many calls the server answers per second, how many
    had an unknown license key, how many are waiting, and how much memory it uses.

    Status 0: the server is ready. Status 1: it is not.
    """
    from keywright.config.installation import find_servers
    from keywright.config.values import web_address

    servers = find_servers(here.settings)
    # The worst of several states, which is also the first in the alphabet.
    server = min(map(_ask_server, servers), default="not running")
    addresses = ", ".join(web_address(*one) for one in servers) or None
    fields: _Fields = {"server": server, "address": addresses}
    fields |= _read_metrics(here.settings) | _read_database(here)
    if as_json:
        output.print_json(fields)
    else:
        output.print_fields(
            [
                (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value)
                for name, value in fields.items()
                if value is not None
            ]
        )
    if server != "ready":
        raise typer.Exit(1)


def _ask_server(address: tuple[str, int]) -> str:
    """Return ``ready``, ``read only`` (no change is possible), ``not ready`` (it stops, or its database is
    unavailable), or ``no answer``.
    """
    from keywright.config.values import reachable_host

    try:
        status, body = _get(reachable_host(address[0]), address[1], "/readyz")
        return str(json.loads(body)["status"]).replace("_", " ") if status == HTTPStatus.OK else "not ready"
    except OSError:
        return "no answer"


def list_versions(settings: "Settings") -> list[tuple[str, str | None]]:
    """Return the address and version of each server on this machine; None for an unknown version."""
    from keywright.config.installation import find_servers
    from keywright.config.values import reachable_host, web_address

    def ask_version(address: tuple[str, int]) -> str | None:
        try:
            return str(
                json.loads(_get(reachable_host(address[0]), address[1], f"/{settings.v3_root}")[1])["version"]
            )
        except (OSError, HTTPException, ValueError, LookupError, TypeError):
            return None

    return [(web_address(*one), ask_version(one)) for one in find_servers(settings)]


def _get(host: str, port: int, path: str) -> tuple[int, str]:
    """Return the status and body of the response. Raises ``OSError``."""
    with closing(HTTPConnection(host, port, timeout=_TIMEOUT)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def _read_metrics(settings: "Settings") -> _Fields:
    """Measure the load of the server processes by two readings of their metrics."""
    if settings.metrics_host_and_ports is None:
        return {}
    host, ports = settings.metrics_host_and_ports
    first, began = _sum_samples(host, ports), time.monotonic()
    if not first:
        return {"metrics": "no answer"}
    time.sleep(_INTERVAL)
    second, calls = _sum_samples(host, ports), "keywright_requests_total"
    rate = (second.get(calls, 0.0) - first.get(calls, 0.0)) / (time.monotonic() - began)
    return {
        "calls_per_second": round(max(rate, 0.0), 1),
        "unknown_keys_since_start": int(second.get("keywright_unknown_keys_total", 0)),
        "waiting_calls": int(second.get("keywright_waiting_calls", 0)),
        "memory": format_size(int(second.get("process_resident_memory_bytes", 0))),
    }


def _sum_samples(host: str, ports: Iterable[int]) -> dict[str, float]:
    """Add up the samples of all processes by name."""
    sums: dict[str, float] = {}
    for port in ports:
        try:
            _, text = _get(host, port, "/metrics")
        except OSError:
            continue
        for name, value in _SAMPLE.findall(text):
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def _read_database(here: Installation) -> _Fields:
    from keywright.db import run_read, without_password
    from keywright.jobs.store import count_unfinished_jobs
    from keywright.maintenance.backup import find_backup_time
    from keywright.maintenance.inspection import measure
    from keywright.maintenance.tasks import TaskRunner
    from keywright.search.projector import lag

    settings = here.settings
    measured, behind, jobs = run_read(
        here.storage, lambda tx: (measure(tx), lag(tx).behind, count_unfinished_jobs(tx))
    )
    task = TaskRunner(settings.data_dir / "tasks").find("backup")
    failed_at = task.ended_at if task is not None and task.status else None
    return {
        "database": without_password(settings.database_url_in_force),
        "database_version": f"{measured.kind} {measured.version}",
        "database_size": format_size(measured.size),
        "unfinished_jobs": jobs,
        "search_events_behind": behind,
        "last_backup": output.format_time(run_read(here.storage, find_backup_time)),
        "last_backup_failed": f"{write_time(failed_at)}: {task.reason}" if task and failed_at else None,
    }
