"""An instance that starts while another one migrates for a long time waits, and finds it done."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from keywright.db import open_storage
from tests.databases import a_postgres_url, execute
from tests.makers import KEY_RING
from tests.server import wait_until

pytestmark = pytest.mark.tier("ordinary")

WAITING = """SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
             AND wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE alembic_version%'"""


def test_who_comes_during_a_long_migration_waits_for_its_end() -> None:
    with a_postgres_url() as url, ThreadPoolExecutor(1) as thread:
        with closing(psycopg.connect(url)) as migrating:
            migrating.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
            coming = thread.submit(open_storage, url, KEY_RING)
            # Until then, its first look has been refused twice for want of the lock.
            wait_until(lambda: execute(url, WAITING), "the other instance to wait for the lock")
            assert not coming.done()
            migrating.rollback()
        coming.result().close()
