"""Commands and queries about generators."""

from collections.abc import Mapping
from typing import Any

from keywright.core.command import Command, Cost, Query
from keywright.licensing.licenses.commands import NewLicenseCommand


class CreateGenerator(Command, frozen=True, kw_only=True):
    """Make a generator; ``is_weak_allowed`` permits keys that could be guessed."""

    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: int | None = None
    separator: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    expires_in_days: int | None = None
    is_weak_allowed: bool = False


class UpdateGenerator(Command, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``Generator``."""

    generator_id: int
    changes: Mapping[str, Any]
    is_weak_allowed: bool = False


class DeleteGenerator(Command, frozen=True, kw_only=True):
    """Delete the generator; its licenses stay."""

    generator_id: int


class GenerateLicenses(NewLicenseCommand, frozen=True, kw_only=True):
    """Make ``amount`` licenses with the generator, all or none."""

    cost = Cost.LONG

    generator_id: int
    amount: int


class GetGenerator(Query, frozen=True, kw_only=True):
    """The generator with this id."""

    generator_id: int


class ListGenerators(Query, frozen=True, kw_only=True):
    """Every generator, oldest first."""
