"""A server that starts with a wrong clock, or whose clock jumps and comes back, changes no table and sends
nothing. Every table is compared, whole, with everything in it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import LargeBinary, String, Table, Text, insert, select, update

from keywright.core.command import Context
from keywright.db import Storage, open_storage
from keywright.db.schema import metadata, webhook_endpoints
from keywright.licensing.licenses.model import Status
from keywright.provisioning.licenses import CustomerReference, IssueLicenses
from keywright.registry import open_executor
from keywright.search.statistics import ProjectEvents
from tests import receiver, smtp_server
from tests.connections import a_sale, receive
from tests.databases import a_postgres_url
from tests.faults.clocks import Clock
from tests.http.asking import Client
from tests.makers import KEY_RING, NOW, SECRET, a_storage, an_origin, create, delete, url_of
from tests.proving import record
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.smtp_server import Mailbox
from tests.storage import recording

COUNTED = ("daily_counts", "daily_product_counts", "report_counts")
#: Leases end by the clock, and days are counted by it. The search deletes the last ones at once.
EXEMPT = ("leases", "lease_counters", "pruned_activations", *COUNTED)
#: Where the clock is right, in days from now: a day or two after everything was made.
RIGHT = 1 - (datetime.now(UTC) - NOW) // timedelta(days=1)
AHEAD, BEHIND = RIGHT + 400, RIGHT - 400

Tables = dict[str, list[str]]
Ask = Callable[[str], Iterable[Any]]


def read_tables(ask: Ask) -> Tables:
    """Every table, but what is exempt, and when the clock was believed last."""
    found = {
        name: sorted(repr(tuple(row)) for row in ask(f"SELECT * FROM {name}"))  # noqa: S608
        for name in metadata.tables
        if name not in EXEMPT
    }
    found["checkpoints"] = [
        one for one in found["checkpoints"] if "clock_believed_at" not in one and "devices_" not in one
    ]
    return found


class Scene(NamedTuple):
    """A server on a database with everything in it, and what it sends. ``before``: the tables at first."""

    server: RunningServer
    clock: Clock
    mailbox: Mailbox
    receiver: receiver.Receiver
    before: Tables

    @property
    def sent(self) -> int:
        return len(self.mailbox.messages) + len(self.receiver.received)

    def tables(self) -> Tables:
        return read_tables(self.server.sql)

    def let_turn(self) -> None:
        """Wait until each loop has had some turns: what is counted is saved seldom."""
        count = "SELECT coalesce(sum(amount), 0) FROM daily_counts WHERE name = 'call.forwarded_blindly'"
        for _ in range(2):
            before = self.server.sql(count)
            with Client(self.server) as stranger:
                headers = {"X-Forwarded-For": "192.0.2.1"}
                stranger.post("/v3/validate", json_body={"license_key": "none"}, headers=headers)
            wait_until(partial(self._is_other, count, before), "the counters")

    def _is_other(self, query: str, before: list[Any]) -> bool:
        return self.server.sql(query) != before

    def restart(self, days: int) -> None:
        """Start again, where the clock stands there."""
        assert self.server.stop() == 0
        self.clock.jump(days)
        self.server.start()
        self.let_turn()

    def differing(self, before: Tables) -> list[str]:
        """The tables that are not as they were, but for mails and webhooks, which are something sent."""
        after = self.tables()
        return [name for name in before if before[name] != after[name]] + ["sent"] * bool(self.sent)


def fill(storage: Storage) -> None:
    """Everything that there can be; a license that will expire, one that was deleted, a sale that waits."""
    recording.live(storage)
    executor = open_executor(storage)
    issue = IssueLicenses(
        context=Context(NOW, an_origin()),
        status=Status.ACTIVE,
        key="expiring",
        customer=CustomerReference(email="bob@example.com"),
        expires_at=NOW + timedelta(days=100),
        has_expiry=True,
    )
    for command in (issue, create("gone"), delete("gone")):
        assert not isinstance(executor.execute([command])[0], Exception)
    receive(executor, a_sale("2", product="unknown"))
    project = ProjectEvents(context=Context(NOW, an_origin()), limit=500)
    while not executor.execute([project])[0].lag.is_complete:
        pass
    with storage.write() as tx:
        for table in metadata.sorted_tables:
            is_empty = tx.connection.execute(select(table).limit(1)).first() is None
            if is_empty and table.name not in EXEMPT:
                tx.connection.execute(insert(table).values(a_row(table)))


def a_row(table: Table) -> dict[str, Any]:
    """A row in which every column has a value; its moments are of the day before the server starts."""
    kinds = {LargeBinary: b"x" * 32, Text: "[]", String: "x"}
    values = {
        one.name: next((value for kind, value in kinds.items() if isinstance(one.type, kind)), 1)
        for one in table.c
    }
    at = int(NOW.timestamp())
    return {name: at if name.endswith(("_at", "_until")) else values[name] for name in values}


@contextmanager
def a_database(folder: Path, database: str) -> Iterator[str]:
    folder.mkdir()
    if database == "sqlite":
        a_storage(folder).close()
        yield url_of(folder)
    else:
        with a_postgres_url(key_ring=KEY_RING) as url:
            yield url


@contextmanager
def a_scene(folder: Path, database: str, days: int, *alterations: str) -> Iterator[Scene]:
    clock, mailbox, data_dir = Clock(folder), Mailbox(), folder / "data"
    with (
        smtp_server.receiving(mailbox) as smtp_port,
        receiver.receiving() as receiving,
        a_database(data_dir, database) as url,
    ):
        with closing(open_storage(url, KEY_RING)) as storage:
            fill(storage)
            with storage.write() as tx:
                endpoint = update(webhook_endpoints).values(url=receiving.url)
                tx.connection.execute(endpoint)
            with storage.read() as tx:
                before = read_tables(tx.connection.exec_driver_sql)
        assert [name for name, rows in before.items() if not rows] == []
        clock.jump(days)
        with running(
            data_dir,
            database,
            program=clock.program("hurrying", *alterations),
            database_url=url,
            secret=SECRET.decode(),
            smtp_url=f"smtp://127.0.0.1:{smtp_port}",
            mail_from="keys@example.com",
            webhook_networks="127.0.0.0/8",
            keep_events_days=30,
            keep_addresses_days=30,
            **NO_LIMITS,
        ) as server:
            scene = Scene(server, clock, mailbox, receiving, before)
            scene.let_turn()
            yield scene


def test_a_start_with_a_wrong_clock_changes_nothing(tmp_path: Path, database: str) -> None:
    with a_scene(tmp_path, database, AHEAD) as scene:
        differing = scene.differing(scene.before)
        scene.restart(BEHIND)
        differing += scene.differing(scene.before)
        doubted = scene.server.log.count("the clock says")
        scene.restart(RIGHT)
        wait_until(lambda: scene.mailbox.messages and scene.receiver.received, "what is sent then")
    record("R27", f"{database}, started", {"tables that differ": len(differing)})
    assert (differing, doubted) == ([], 2)


@pytest.mark.databases("sqlite")
def test_a_jump_and_back_changes_nothing(tmp_path: Path, database: str) -> None:
    with a_scene(tmp_path, database, RIGHT) as scene:
        before, turns = scene.tables(), 0

        def is_quiet() -> bool:
            """Whether three turns in a row changed nothing: one may be between two changes."""
            nonlocal before, turns
            scene.let_turn()
            last, before = before, scene.tables()
            working = scene.server.sql("SELECT id FROM jobs WHERE state IN ('waiting', 'running')")
            turns = turns + 1 if last == before and not working else 0
            return turns == 3

        wait_until(is_quiet, "an idle server")
        scene.mailbox.messages.clear()
        scene.receiver.received.clear()
        differing = []
        for days in (AHEAD, BEHIND, AHEAD, RIGHT):
            scene.clock.jump(days)
            scene.let_turn()
            differing += scene.differing(before)
    record("R27", f"{database}, jumped", {"tables that differ": len(differing)})
    assert differing == []


def test_control_a_server_that_believes_every_clock_destroys_much(tmp_path: Path) -> None:
    with a_scene(tmp_path, "sqlite", AHEAD, "believing every clock") as scene:
        destroyed = {"deleted_licenses", "events", "shop_events", "mail_outbox", "webhook_deliveries", "sent"}
        wait_until(lambda: destroyed <= {*scene.differing(scene.before)}, "what is destroyed")
        differing = scene.differing(scene.before)
    record("R27", "control: believing every clock", {"tables": len(differing)})
