"""Transactions, with retries if the database requires them."""

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from keywright.core.errors import LockTimeout, StoreConflict
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: How often a transaction is retried before its error is raised: while retries are quick, and if each attempt
#: takes long, such as reconnecting.
MAX_RETRIES, MAX_SLOW_RETRIES = 9, 5
#: The time within which retries count as quick, in seconds.
_QUICK = 3.0
_FIRST_PAUSE, _MAX_PAUSE = 0.005, 0.16

Result = TypeVar("Result")


class Transactions(Protocol):
    """A storage."""

    def read(self, *, is_single: bool = False) -> AbstractContextManager[ReadTransaction]:
        """Begin a transaction that sees one snapshot or, with ``is_single``, one per statement."""

    def write(self, *, wait: float | None = None) -> AbstractContextManager[WriteTransaction]:
        """Begin a transaction for changes, after waiting at most ``wait`` seconds (None: the default)."""


def with_retries(transact: Callable[[], Result]) -> Result:
    """Return the result of ``transact``. After a ``StoreConflict``, it is retried up to nine times, or five
    if that takes more than three seconds; not after a ``LockTimeout``, which has already waited.

    Backoff is random, so that transactions that collided do not collide again: at most 5 ms, doubling with
    each retry up to 160 ms.
    """
    quick_until, retries = time.monotonic() + _QUICK, 0
    while True:
        try:
            return transact()
        except LockTimeout:
            raise
        except StoreConflict:
            if retries >= (MAX_RETRIES if time.monotonic() < quick_until else MAX_SLOW_RETRIES):
                raise
        time.sleep(random.uniform(0, min(_FIRST_PAUSE * 2**retries, _MAX_PAUSE)))  # noqa: S311
        retries += 1


def run_write(
    storage: Transactions, work: Callable[[WriteTransaction], Result], *, wait: float | None = None
) -> Result:
    """Run ``work`` in a durable transaction and return its result; retry if it was rolled back."""

    def transact() -> Result:
        with storage.write(wait=wait) as tx:
            return work(tx)

    return with_retries(transact)


def run_read(
    storage: Transactions, query: Callable[[ReadTransaction], Result], *, is_single: bool = False
) -> Result:
    """Run ``query`` in a transaction and return its result; retry if the connection broke.

    With ``is_single``, its statements may see different snapshots, which can be faster.
    """

    def transact() -> Result:
        with storage.read(is_single=is_single) as tx:
            return query(tx)

    return with_retries(transact)
