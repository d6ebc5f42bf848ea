"""Two instances that change the same generator at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from keywright.core.errors import StillInUse, UnknownPolicy
from keywright.db import Storage
from keywright.provisioning.policies import store as policy_store
from keywright.registry import open_executor
from tests.makers import create_policy, delete_policy, generate, update_policy
from tests.server import wait_until
from tests.storage.conftest import Opener

DATABASES = ("postgresql",)
pytestmark = pytest.mark.of_the_database


def test_neither_change_is_lost(open_again: Opener) -> None:
    one, other = open_again(), open_again()
    open_executor(one).execute([create_policy()])
    with ThreadPoolExecutor(1) as thread:
        with one.write() as tx:
            generator = policy_store.lock_policy(tx, 1)
            assert generator is not None
            later = thread.submit(open_executor(other).execute, [update_policy(1, prefix="A-")])
            wait_until(lambda: is_waiting(one), "the other change to wait")
            policy_store.save_policy(tx, replace(generator, separator="/"))
        (changed,) = later.result()
    assert (changed.prefix, changed.separator) == ("A-", "/")


def test_a_generator_is_deleted_once(open_again: Opener) -> None:
    one, other = open_again(), open_again()
    open_executor(one).execute([create_policy()])
    with ThreadPoolExecutor(1) as thread:
        with one.write() as tx:
            policy_store.lock_policy(tx, 1)
            later = thread.submit(open_executor(other).execute, [delete_policy(1)])
            wait_until(lambda: is_waiting(one), "the other change to wait")
            policy_store.delete_policy(tx, 1)
        (outcome,) = later.result()
    assert isinstance(outcome, UnknownPolicy)


def test_a_policy_is_not_deleted_while_licenses_are_made_of_it(open_again: Opener) -> None:
    """A sale, a trial or a batch has read the policy, and has not committed yet."""
    one, other = open_again(), open_again()
    open_executor(one).execute([create_policy()])
    unused = replace(delete_policy(1), is_unused=True)
    with ThreadPoolExecutor(1) as thread:
        with one.write() as tx:
            assert policy_store.find_policy(tx, 1) is not None
            later = thread.submit(open_executor(other).execute, [unused])
            wait_until(lambda: is_waiting(one), "the deletion to wait")
            open_executor(one)._decide([generate(1, 1)], tx)
        (outcome,) = later.result()
    assert isinstance(outcome, StillInUse)


def is_waiting(storage: Storage) -> bool:
    with storage.read(is_single=True) as tx:
        query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        return bool(tx.connection.exec_driver_sql(query).scalar_one())
