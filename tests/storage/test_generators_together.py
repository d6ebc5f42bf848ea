"""Two instances that change the same generator at once."""

from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from keywright.core.errors import UnknownGenerator
from keywright.db import Storage
from keywright.provisioning.generators import store as generator_store
from keywright.registry import open_executor
from tests.makers import create_generator, delete_generator, update_generator
from tests.server import wait_until
from tests.storage.conftest import Opener

DATABASES = ("postgresql",)


def test_neither_change_is_lost(open_again: Opener) -> None:
    one, other = open_again(), open_again()
    open_executor(one).execute([create_generator()])
    with ThreadPoolExecutor(1) as thread:
        with one.write() as tx:
            generator = generator_store.lock_generator(tx, 1)
            assert generator is not None
            later = thread.submit(open_executor(other).execute, [update_generator(1, prefix="A-")])
            wait_until(lambda: is_waiting(one), "the other change to wait")
            generator_store.save_generator(tx, replace(generator, times_activated_max=3))
        (changed,) = later.result()
    assert (changed.prefix, changed.times_activated_max) == ("A-", 3)


def test_a_generator_is_deleted_once(open_again: Opener) -> None:
    one, other = open_again(), open_again()
    open_executor(one).execute([create_generator()])
    with ThreadPoolExecutor(1) as thread:
        with one.write() as tx:
            generator_store.lock_generator(tx, 1)
            later = thread.submit(open_executor(other).execute, [delete_generator(1)])
            wait_until(lambda: is_waiting(one), "the other change to wait")
            generator_store.delete_generator(tx, 1)
        (outcome,) = later.result()
    assert isinstance(outcome, UnknownGenerator)


def is_waiting(storage: Storage) -> bool:
    with storage.read(is_single=True) as tx:
        query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        return bool(tx.connection.exec_driver_sql(query).scalar_one())
