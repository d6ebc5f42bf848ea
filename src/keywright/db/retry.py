"""Transactions, retried when the database asks for that."""

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from keywright.core.errors import LockTimeout, StoreConflict
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: How often a transaction is retried before its error is raised: while that goes quickly, and where each try
#: takes long, such as to connect again.
MAX_RETRIES, MAX_SLOW_RETRIES = 9, 5
#: The longest time of quick retries, in seconds.
_QUICK = 3.0
_FIRST_PAUSE, _MAX_PAUSE = 0.005, 0.16

Result = TypeVar("Result")


class Transactions(Protocol):
    """A storage."""

    def read(self, *, is_single: bool = False) -> AbstractContextManager[ReadTransaction]:
        """Begin a transaction that sees one moment or, with ``is_single``, one for each statement."""

    def write(self, *, wait: float | None = None) -> AbstractContextManager[WriteTransaction]:
        """Begin a transaction that changes rows, after at most ``wait`` seconds; None is the usual limit."""


def with_retries(transact: Callable[[], Result]) -> Result:
    """Return what ``transact`` returns. After a ``StoreConflict`` it is called again, at most nine times, or
    five when that takes more than three seconds; not after a ``LockTimeout``, which has waited already.

    Pauses are of random length, so that transactions that collided do not collide again: at most 5 ms, and
    twice as long each time, up to 160 ms.
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
    """Run ``work`` in a transaction and return what it returns, durably; retry it if it was rolled back."""

    def transact() -> Result:
        with storage.write(wait=wait) as tx:
            return work(tx)

    return with_retries(transact)


def run_read(
    storage: Transactions, query: Callable[[ReadTransaction], Result], *, is_single: bool = False
) -> Result:
    """Run ``query`` in a transaction and return what it returns; retry it when the connection broke.

    With ``is_single``, its statements need not agree with each other, which may be faster.
    """

    def transact() -> Result:
        with storage.read(is_single=is_single) as tx:
            return query(tx)

    return with_retries(transact)
