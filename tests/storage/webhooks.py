"""A process that works on endpoints, without a network: a test says what comes of each attempt."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from keywright.core.command import Context
from keywright.core.nouns import Paging
from keywright.db import Storage, run_read
from keywright.delivery.webhooks import store
from keywright.delivery.webhooks.commands import ListDeliveries, WorkOnEndpoint
from keywright.delivery.webhooks.model import Attempt, Delivery, Due, Endpoint, Step
from keywright.engine.executor import Executor
from keywright.engine.queue import Item
from tests.makers import NOW, an_origin

#: Says what comes of an attempt: a status, or None where nothing is answered.
Receive = Callable[[Due], int | Attempt | None]


def do(executor: Executor, command: Any) -> Any:
    """The outcome, which is no error."""
    (outcome,) = executor.execute([command])
    assert not isinstance(outcome, Exception), outcome
    return outcome


def deliver(
    executor: Executor, endpoint_id: int = 1, *, now: datetime = NOW, receive: Receive = lambda _: 200
) -> list[Due]:
    """Work on an endpoint until nothing is left to be done at this moment; returns what was attempted."""
    attempts: tuple[Attempt, ...] = ()
    seen: list[Due] = []
    while True:
        step = take_step(executor, endpoint_id, now=now, attempts=attempts)
        if step.is_over:
            return seen
        seen += step.due
        attempts = tuple(_attempt(one, receive(one)) for one in step.due)


def take_step(
    executor: Executor,
    endpoint_id: int = 1,
    *,
    now: datetime = NOW,
    claimed_by: str = "one",
    item: Item | None = None,
    limit: int = 24,
    **fields: Any,
) -> Step:
    """One step of the work."""
    command = WorkOnEndpoint(
        context=Context(now, an_origin(actor="keywright")),
        item=item or Item(endpoint_id),
        claimed_by=claimed_by,
        limit=limit,
        **fields,
    )
    step = do(executor, command)
    assert isinstance(step, Step)
    return step


def find_endpoint(storage: Storage, endpoint_id: int = 1) -> Endpoint:
    """The endpoint as it is."""
    found = run_read(storage, lambda tx: store.WEBHOOKS.find(tx, endpoint_id))
    assert found is not None
    return found


def list_all(storage: Storage, endpoint_id: int = 1) -> list[Delivery]:
    """The deliveries of an endpoint, oldest first."""
    query = ListDeliveries(endpoint_id=endpoint_id, paging=Paging(sort="created_at", limit=1000))
    return list(run_read(storage, lambda tx: store.list_deliveries(tx, query)).items)


def names(seen: list[Due]) -> list[tuple[int, str]]:
    """The license and the type of each."""
    return [(one.delivery.license_id, one.delivery.name) for one in seen]


def _attempt(due: Due, came: int | Attempt | None) -> Attempt:
    return came if isinstance(came, Attempt) else Attempt(due.delivery.id, came, "ok", 5)
