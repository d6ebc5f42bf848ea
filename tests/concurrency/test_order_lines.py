"""An order line that several servers sell at once has one license."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier

import pytest

from keywright.core.command import Context
from keywright.db import open_storage
from keywright.engine.executor import Executor
from keywright.licensing.licenses.model import Order, Status
from keywright.provisioning.licenses import CustomerReference, Issued, IssueLicenses
from keywright.registry import open_executor
from tests.concurrency.desks import a_url
from tests.makers import KEY_RING, NOW, an_origin, create_policy

SERVERS, LINES, TIMEOUT = 4, 25, 60
CONTEXT = Context(NOW, an_origin(), 1)


def sell(executor: Executor, barrier: Barrier, orders: Sequence[Order]) -> list[tuple[bool, tuple[int, ...]]]:
    """Sell these orders; whether each was new, and its licenses."""
    sold = []
    for order in orders:
        barrier.wait(TIMEOUT)
        customer = CustomerReference(email=f"{order.id}@example.com")
        command = IssueLicenses(
            context=CONTEXT, status=Status.ACTIVE, policy_id=1, quantity=2, order=order, customer=customer
        )
        (issued,) = executor.execute([command])
        assert isinstance(issued, Issued), issued
        sold.append((issued.is_new, tuple(one.license.id for one in issued.licenses)))
    return sold


@pytest.mark.parametrize("line", ["7", None])
def test_an_order_line_is_sold_by_one_server(database: str, tmp_path: Path, line: str | None) -> None:
    """The control is an order without a line: each server sells it."""
    orders = [Order("shop", str(number), line) for number in range(LINES)]
    with ExitStack() as stack:
        url = stack.enter_context(a_url(database, tmp_path / "data"))
        executors = []
        for _ in range(SERVERS):
            storage = stack.enter_context(closing(open_storage(url, KEY_RING)))
            executors.append(stack.enter_context(closing(open_executor(storage))))
        executors[0].execute([create_policy()])
        barrier = Barrier(SERVERS)
        with ThreadPoolExecutor(SERVERS) as pool:
            sold = list(pool.map(lambda one: sell(one, barrier, orders), executors))
    times = 1 if line else SERVERS
    for outcomes in zip(*sold, strict=True):
        assert sum(is_new for is_new, _ in outcomes) == times
        assert len({ids for _, ids in outcomes}) == times
