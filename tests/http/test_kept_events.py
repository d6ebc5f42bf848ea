"""A server purges old events automatically."""

import sqlite3
from contextlib import closing
from pathlib import Path

from keywright.db import database_path
from tests.http.asking import Client
from tests.server import NO_LIMITS, RunningServer, running, wait_until


def is_followed(server: RunningServer) -> bool:
    """Whether all events are projected, including those from before the projection began."""
    [(newest,)] = server.sql("SELECT max(id) FROM events")
    at = {str(name): int(number) for name, number in server.sql("SELECT name, last_id FROM checkpoints")}
    return (
        {"events", "past_until", "past_events"} <= at.keys()
        and at["events"] == newest
        and 0 <= at["past_until"] <= at["past_events"]
    )


def test_a_server_forgets_events_that_are_older_than_they_are_kept(tmp_path: Path) -> None:
    with running(tmp_path / "data", "sqlite", keep_events_days=400, **NO_LIMITS) as server:
        with Client(server, server.api_key()) as vendor:
            key = vendor.license()
            vendor.activated(key)
            vendor.activated(key)
            before = server.count("events")
            wait_until(lambda: is_followed(server), "every event to be followed")
        server.stop()
        path = database_path(server.database_url)
        assert path is not None
        with closing(sqlite3.connect(path)) as connection, connection:
            older = "UPDATE events SET occurred_at = occurred_at - 401 * 86400 WHERE name = 'license.created'"
            assert connection.execute(older).rowcount == 1
        server.start()
        wait_until(lambda: server.count("events") == before - 1, "the oldest event to be forgotten")
        assert server.sql("SELECT count(*) FROM events WHERE name = 'license.created'") == [(0,)]
