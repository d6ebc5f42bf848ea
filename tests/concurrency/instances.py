"""Several servers on one new database."""

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.databases import a_postgres_url
from tests.server import NO_LIMITS, RunningServer, running


@contextmanager
def instances(
    folder: Path, amount: int, database: str = "postgresql", **settings: Any
) -> Iterator[list[RunningServer]]:
    """As several machines would run them on PostgreSQL; an SQLite database has one server, whatever the
    amount.
    """
    with ExitStack() as stack:
        if database == "sqlite":
            yield [stack.enter_context(running(folder / "data", **NO_LIMITS, **settings))]
            return
        url, secret = stack.enter_context(a_postgres_url(empty=True)), secrets.token_hex(32)
        here = {"database_url": url, "secret": secret, **NO_LIMITS, **settings}
        # All at once: one of them makes the tables.
        with ThreadPoolExecutor(amount) as pool:
            folders = [folder / f"data {number}" for number in range(amount)]
            yield list(pool.map(lambda one: stack.enter_context(running(one, **here)), folders))
