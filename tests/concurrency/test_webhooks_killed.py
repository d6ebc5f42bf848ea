"""Two servers deliver, and are killed again and again: no event is left out, and those of a license come in
their order.
"""

import threading
from collections import defaultdict
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import select

from keywright.background.loops import read_clock
from keywright.db import Storage, run_read
from keywright.db.schema import events
from keywright.delivery.webhooks.model import NewEndpoint
from keywright.licensing.licenses.model import Status
from keywright.registry import open_executor
from tests.concurrency.instances import instances
from tests.makers import create, create_endpoint, update
from tests.proving import IS_LONG, record, size
from tests.receiver import Received, Receiver, Reply, receiving
from tests.server import wait_until

pytestmark = [pytest.mark.tier("rest"), pytest.mark.timeout(3600 if IS_LONG else 240)]
DATABASES = ("postgresql",)
LICENSES = 20


class FlakyOnce:
    """Refuses the first attempt of some deliveries."""

    def __init__(self) -> None:
        self._refused: set[int] = set()

    def answer(self, request: Received) -> Reply:
        number = request.event_id
        if number % 40 or number in self._refused:
            return Reply()
        self._refused.add(number)
        return Reply(500)


def write(storage: Storage, is_over: threading.Event) -> None:
    """Change licenses until it is over, some at once."""
    with closing(open_executor(storage.clone())) as executor:
        turn = 0
        while not is_over.wait(0.5):
            turn += 1
            some = [(turn + n) % LICENSES for n in range(3)]
            statuses = (Status.ACTIVE, Status.DISABLED)
            now, status = read_clock(), statuses[turn % 2]
            executor.execute([update(f"KEY-{one}", status=status, now=now) for one in some])


def list_changes(storage: Storage) -> set[int]:
    query = select(events.c.id).where(events.c.name.startswith("license."))
    return run_read(storage, lambda tx: set(tx.connection.execute(query).scalars()))


def assert_in_order(receiver: Receiver) -> None:
    """Of each license, no event comes after a later one; the same one may come again."""
    last: dict[int, int] = defaultdict(int)
    for one in receiver.received:
        license_id = one.json["data"]["license_id"]
        assert one.event_id >= last[license_id], (license_id, one.event_id, last[license_id])
        last[license_id] = one.event_id


def test_no_event_is_left_out_while_servers_are_killed(tmp_path: Path, database: str) -> None:
    is_over = threading.Event()
    with (
        receiving(FlakyOnce().answer) as receiver,
        instances(tmp_path, 2, database, webhook_networks="127.0.0.0/8") as servers,
        servers[0].storage() as storage,
    ):
        with closing(open_executor(storage.clone())) as executor:
            (made,) = executor.execute([create_endpoint(receiver.url, now=read_clock())])
            assert isinstance(made, NewEndpoint)
            now = read_clock()
            executor.execute([create(f"KEY-{number}", now=now) for number in range(LICENSES)])
        writer = threading.Thread(target=write, args=(storage, is_over))
        writer.start()
        try:
            for kills in range(size(2, 100)):
                before = len(receiver.received)
                wait_until(lambda before=before: len(receiver.received) >= before + 10, "deliveries")  # type: ignore[misc]
                servers[kills % 2].kill()
                servers[kills % 2].start()
        finally:
            is_over.set()
            writer.join()
        wanted = list_changes(storage)
        with suppress(AssertionError):
            # As long as there is one after the other: how many are left depends on the machine.
            while before := len(wanted - set(receiver.event_ids)):
                wait_until(
                    lambda before=before: len(wanted - set(receiver.event_ids)) < before,  # type: ignore[misc]
                    "another event",
                )
        left_out = wanted - set(receiver.event_ids)
        figures = {"kills": size(2, 100), "deliveries": len(receiver.received), "left out": len(left_out)}
        record("R25", database, figures)
        assert set(receiver.event_ids) == wanted
    assert_in_order(receiver)
