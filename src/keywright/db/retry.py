"""Transactions that the database asks to be run again."""

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from keywright.core.errors import LockTimeout, StoreConflict
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: How often a transaction is run again before it is given up.
MOST_REPEATS = 5
_FIRST_PAUSE = 0.005

Result = TypeVar("Result")


class Transactions(Protocol):
    """A storage."""

    def read(self, *, is_single: bool = False) -> AbstractContextManager[ReadTransaction]:
        """One moment of the database; with ``is_single``, perhaps another one for each statement."""

    def write(self, *, wait: float | None = None) -> AbstractContextManager[WriteTransaction]:
        """A transaction that changes things, begun within ``wait`` seconds where other processes keep it from
        that; None is as long as the storage thinks right.
        """


def again(transact: Callable[[], Result]) -> Result:
    """Return what ``transact`` returns; after a ``StoreConflict`` it is called again, at most five times
    more. Not after a ``LockTimeout``: that has been waited for already.

    In between is a pause of random length, at most 5 ms and twice as long each time, so that those who
    met do not meet again.
    """
    for repeat in range(MOST_REPEATS):
        try:
            return transact()
        except LockTimeout:
            raise
        except StoreConflict:
            time.sleep(random.uniform(0, _FIRST_PAUSE * 2**repeat))  # noqa: S311
    return transact()


def change(
    storage: Transactions, work: Callable[[WriteTransaction], Result], *, wait: float | None = None
) -> Result:
    """What ``work`` returns, durable; it is called again when the database undid what it did."""

    def transact() -> Result:
        with storage.write(wait=wait) as tx:
            return work(tx)

    return again(transact)


def ask(
    storage: Transactions, question: Callable[[ReadTransaction], Result], *, is_single: bool = False
) -> Result:
    """What ``question`` returns; it is called again when the connection broke.

    With ``is_single``, no two of its statements have to agree with each other, which may be faster.
    """

    def transact() -> Result:
        with storage.read(is_single=is_single) as tx:
            return question(tx)

    return again(transact)
