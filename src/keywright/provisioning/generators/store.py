"""Statements about generators."""

from typing import Any

from sqlalchemy import Row, delete, select, update

from keywright.db import rows
from keywright.db.rows import with_datetimes
from keywright.db.schema import generators
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.generators.model import Generator


def find_generator(tx: ReadTransaction, generator_id: int) -> Generator | None:
    """The generator with this id."""
    return tx.first(select(*GENERATOR).where(generators.c.id == generator_id), _generator_of)


def list_generators(tx: ReadTransaction) -> list[Generator]:
    """Every generator, oldest first."""
    query = select(*GENERATOR).order_by(generators.c.id)
    return [_generator_of(row) for row in tx.connection.execute(query)]


def save_new_generator(tx: WriteTransaction, generator: Generator) -> int:
    """Insert a generator; returns its id."""
    return tx.insert(generators, rows.to_columns(generator))


def lock_generator(tx: WriteTransaction, generator_id: int) -> Generator | None:
    """The generator with this id, locked until the end of the transaction."""
    query = select(*GENERATOR).where(generators.c.id == generator_id)
    return tx.first(query.with_for_update(), _generator_of)


def save_generator(tx: WriteTransaction, generator: Generator) -> None:
    """Update every field."""
    query = update(generators).where(generators.c.id == generator.id)
    tx.connection.execute(query.values(rows.to_columns(generator)))


def delete_generator(tx: WriteTransaction, generator_id: int) -> None:
    """Delete; the licenses it made stay."""
    tx.connection.execute(delete(generators).where(generators.c.id == generator_id))


GENERATOR = [generators.c[name] for name in Generator.__struct_fields__]


def _generator_of(row: Row[Any]) -> Generator:
    return Generator(**with_datetimes(row))
