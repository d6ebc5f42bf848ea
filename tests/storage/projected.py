"""What follows the events, as it is and as it has to be, computed from everything else."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from keywright.core.command import Context
from keywright.db import ReadTransaction, Storage, run_read
from keywright.db.schema import (
    activations,
    daily_counts,
    daily_product_counts,
    events,
    license_updates,
    licenses,
    search_terms,
)
from keywright.engine.executor import Executor
from keywright.search import projector
from keywright.search.counters_store import count_as
from keywright.search.projector import Lag, Projected
from keywright.search.statistics import ProjectEvents, SaveCounters
from tests.makers import NOW, an_origin

#: A term, a license's number, an activation's number.
SearchTerm = tuple[str, int, int]


def follow(limit: int = 500) -> ProjectEvents:
    return ProjectEvents(context=Context(NOW, an_origin()), limit=limit)


def tally(now: datetime = NOW, **counted: Any) -> SaveCounters:
    return SaveCounters(context=Context(now, an_origin()), **counted)


def project(executor: Executor, limit: int = 500) -> Projected:
    """One step."""
    [outcome] = executor.execute([follow(limit)])
    assert isinstance(outcome, Projected), outcome
    return outcome


def follow_all(executor: Executor, limit: int = 500) -> int:
    """Follow until there is nothing left; how many rows that were."""
    total = 0
    for _ in range(1000):
        step = project(executor, limit)
        total += step.rows
        if step.lag.is_complete:
            return total
    raise AssertionError(f"it never ends: {step}")


def lag(storage: Storage) -> Lag:
    return run_read(storage, projector.lag)


def list_terms(storage: Storage) -> list[SearchTerm]:
    """Every search term there is."""
    return run_read(storage, lambda tx: sorted(map(tuple, tx.connection.execute(select(search_terms)))))


def right_terms(storage: Storage) -> list[SearchTerm]:
    """Every search term that there has to be."""
    return run_read(storage, lambda tx: sorted(_right_terms(tx)))


def _right_terms(tx: ReadTransaction) -> Iterator[SearchTerm]:
    used = set()
    for row in tx.connection.execute(select(activations)):
        used.add(row.license_id)
        yield f"t{row.token}", row.license_id, row.id
        if row.ip_address:
            yield f"i{row.ip_address}", row.license_id, row.id
        if row.fingerprint:
            yield f"d{row.fingerprint}", row.license_id, row.id
        if row.label:
            yield f"l{row.label.lower()}"[:300], row.license_id, row.id
    for row in tx.connection.execute(select(licenses)):
        limit = row.times_activated_max
        if limit is not None and row.times_activated >= limit:
            yield "full", row.id, 0
        if row.id not in used:
            yield "unused", row.id, 0


def list_counts(storage: Storage) -> dict[tuple[int, str], int]:
    """How often which event happened, by day and name."""
    return run_read(
        storage,
        lambda tx: {
            (one.day, one.name): one.amount
            for one in tx.connection.execute(select(daily_counts))
            if one.name != projector.REFUSED
        },
    )


def right_counts(storage: Storage) -> dict[tuple[int, str], int]:
    """The same, counted from the events."""
    return run_read(
        storage,
        lambda tx: dict(Counter(count_as(one) for one in tx.connection.execute(select(events)))),
    )


def list_product_counts(storage: Storage) -> dict[tuple[int, int, str], int]:
    """How often what happened to licenses of products, by product, day and name."""
    return run_read(
        storage,
        lambda tx: {
            (one.product_id, one.day, one.name): one.amount
            for one in tx.connection.execute(select(daily_product_counts))
        },
    )


def day(moment: int | datetime) -> int:
    """The number of a day since 1970."""
    seconds = moment if isinstance(moment, int) else int(moment.timestamp())
    return timedelta(seconds=seconds).days


def assert_followed(storage: Storage) -> None:
    """Search terms, counts and when licenses were changed are what they have to be."""
    assert list_terms(storage) == right_terms(storage)
    assert list_counts(storage) == right_counts(storage)
    assert run_read(storage, _list_updates) == run_read(storage, _right_updates)


def _list_updates(tx: ReadTransaction) -> dict[int, int]:
    return {row.license_id: row.updated_at for row in tx.connection.execute(select(license_updates))}


def _right_updates(tx: ReadTransaction) -> dict[int, int]:
    return {row.id: row.updated_at for row in tx.connection.execute(select(licenses))}
