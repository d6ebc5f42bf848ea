"""Read generators."""

from typing import Any

from keywright.provisioning.generators import store as generator_store
from keywright.provisioning.generators.commands import GetGenerator, ListGenerators
from keywright.provisioning.generators.handlers import get_generator
from keywright.provisioning.generators.model import Generator


def find_generator(read: Any, query: GetGenerator) -> Generator:
    """One generator. Raises ``UnknownGenerator``."""
    return get_generator(read.tx, query.generator_id)


def list_generators(read: Any, _query: ListGenerators) -> tuple[Generator, ...]:
    """Every generator."""
    return tuple(generator_store.list_generators(read.tx))
