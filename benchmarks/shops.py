"""Measure a shop's sales under activations: how long until the license exists, and how much activations slow
down.
"""

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.request import Request, urlopen

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied, opened
from keywright.core.command import Context, Origin
from keywright.core.errors import KeywrightError
from keywright.core.standard_webhooks import sign
from keywright.db import Storage, run_read
from keywright.licensing.licenses.keys import UNAMBIGUOUS
from keywright.provisioning.policies.model import CreatePolicy
from keywright.provisioning.shops.commands import AddConnection
from keywright.provisioning.shops.model import ANY_PRODUCT, Connection, MappedProduct, Shop
from keywright.provisioning.shops.sold_store import list_sold
from keywright.registry import open_executor

_SECRET = "whsec_Zm9yIGJlbmNobWFya3MsIG5vdGhpbmcgZWxzZQ=="
#: The pause between two sales, and between two checks for the license, in seconds.
_BETWEEN, _LOOK = 0.2, 0.001
#: With this many connections and this mean pause, there are about 300 activations per second.
_CONNECTIONS, _PAUSE_MS = 64, 210
_LONGEST = 30.0


class Shops(msgspec.Struct, frozen=True):
    """The time from a sale to its license and mail in the database, in milliseconds; the rate of activations
    meanwhile; and the ratio of maximum activation rates, with sales ÷ without.
    """

    sales: int
    p50_ms: float
    p99_ms: float
    activated_per_second: float
    ratio: float


def measure(filled: Filled, seconds: int, rounds: int, say: Callable[[str], None]) -> Shops:
    """Sell five times per second during activations."""
    say("sales during activations …")
    with copied(filled, "shops") as copy:
        with opened(copy.data_dir, copy.database) as storage:
            connection_id = _connect(storage)
        with servers.running(copy) as server, opened(copy.data_dir, copy.database) as storage:
            server.wait_until_idle()
            with _selling(server.url, storage, connection_id) as late:
                paced = wrk.drive(server, copy, "activate", _CONNECTIONS, 4 * seconds, pause_ms=_PAUSE_MS)
            waited = sorted(late)
            ratios = []
            for _ in range(rounds):
                without = wrk.drive(server, copy, "activate", _CONNECTIONS, seconds)
                with _selling(server.url, storage, connection_id):
                    beside = wrk.drive(server, copy, "activate", _CONNECTIONS, seconds)
                ratios.append(beside.per_second / without.per_second)
    p99 = waited[min(len(waited) - 1, int(0.99 * len(waited)))]
    return Shops(len(waited), statistics.median(waited), p99, paced.per_second, statistics.median(ratios))


def _connect(storage: Storage) -> int:
    """Add a connection that creates a license for any product."""
    now = datetime.now(UTC).replace(microsecond=0)
    executor, context = open_executor(storage), Context(now, Origin("benchmark", "", ""))
    policy = CreatePolicy(
        context=context, name="Sold", charset=UNAMBIGUOUS, chunks=5, chunk_length=5, separator="-"
    )
    [made] = executor.execute([policy])
    connection = Connection(
        id=0,
        shop=Shop.GENERIC,
        name="Shop",
        mapping=(MappedProduct(ANY_PRODUCT, made.id),),
        created_at=now,
        updated_at=now,
    )
    [added] = executor.execute([AddConnection(context=context, connection=connection, secret=_SECRET)])
    if isinstance(added, KeywrightError):
        raise added
    return int(added.connection.id)


@contextmanager
def _selling(url: str, storage: Storage, connection_id: int) -> Iterator[list[float]]:
    """Sell until the end of the block; yield the times of the sales, in milliseconds."""
    late: list[float] = []
    is_over = threading.Event()

    def sell() -> None:
        while not is_over.wait(_BETWEEN):
            late.append(_sell(url, storage, connection_id))

    thread = threading.Thread(target=sell)
    thread.start()
    try:
        yield late
    finally:
        is_over.set()
        thread.join()


def _sell(url: str, storage: Storage, connection_id: int) -> float:
    """Send one sale, and wait until its license exists, which is written together with its mail."""
    order, now = f"order-{time.monotonic_ns()}", datetime.now(UTC)
    contents = {
        "order": order,
        "customer": {"email": f"{order}@example.com"},
        "lines": [{"product": "pro", "quantity": 1}],
    }
    body = json.dumps({"type": "order.paid", "timestamp": now.isoformat(), "data": contents}).encode()
    seconds = int(now.timestamp())
    headers = {
        "webhook-id": order,
        "webhook-timestamp": str(seconds),
        "webhook-signature": sign(order, seconds, body, [_SECRET]),
    }
    began = time.monotonic()
    with urlopen(Request(f"{url}/in/generic/{connection_id}", body, headers)):  # noqa: S310
        pass
    while not run_read(storage, lambda tx: list_sold(tx, connection_id, order, None)):
        if time.monotonic() - began > _LONGEST:
            raise RuntimeError("a sale made no license")
        time.sleep(_LOOK)
    return 1000 * (time.monotonic() - began)
