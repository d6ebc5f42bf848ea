"""SQL of generators."""

from sqlalchemy import delete, select, update

from keywright.model import (
    Generator,
)
from keywright.storage import rows
from keywright.storage.schema import generators
from keywright.storage.transactions import Reading, Writing


def find_generator(tx: Reading, generator_id: int) -> Generator | None:
    """The generator with this number."""
    query = select(*rows.GENERATOR).where(generators.c.id == generator_id)
    row = tx.connection.execute(query).first()
    return None if row is None else rows.generator_of(row)


def list_generators(tx: Reading) -> list[Generator]:
    """Every generator, oldest first."""
    query = select(*rows.GENERATOR).order_by(generators.c.id)
    return [rows.generator_of(row) for row in tx.connection.execute(query)]


def save_new_generator(tx: Writing, generator: Generator) -> int:
    """Insert, and return the number that the generator has from now on."""
    return tx.insert(generators, rows.values_of(generator))


def lock_generator(tx: Writing, generator_id: int) -> Generator | None:
    """The generator with this number, locked until the end."""
    query = select(*rows.GENERATOR).where(generators.c.id == generator_id).with_for_update()
    row = tx.connection.execute(query).first()
    return None if row is None else rows.generator_of(row)


def save_generator(tx: Writing, generator: Generator) -> None:
    """Update every field."""
    query = update(generators).where(generators.c.id == generator.id)
    tx.connection.execute(query.values(rows.values_of(generator)))


def delete_generator(tx: Writing, generator_id: int) -> None:
    """Delete; the licenses it made stay."""
    tx.connection.execute(delete(generators).where(generators.c.id == generator_id))
