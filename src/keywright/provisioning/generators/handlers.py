"""Generators: recipes that make license keys, and the making."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import GeneratorTooWeak, InvalidParameters, UnknownGenerator
from keywright.db import ReadTransaction
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import keys
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.handlers import new_license
from keywright.licensing.licenses.model import LicenseSource
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.generators import rules
from keywright.provisioning.generators import store as generator_store
from keywright.provisioning.generators.commands import (
    CreateGenerator,
    DeleteGenerator,
    GenerateLicenses,
    UpdateGenerator,
)
from keywright.provisioning.generators.model import Generator

#: The number of draws per key: a key that exists already is drawn again.
_DRAWS_PER_KEY = 10


def create_generator(work: LicenseWork, command: CreateGenerator) -> Generator:
    """Make a generator."""
    generator = Generator(
        id=0,
        name=command.name,
        charset=command.charset,
        chunks=command.chunks,
        chunk_length=command.chunk_length,
        times_activated_max=command.times_activated_max,
        separator=command.separator,
        prefix=command.prefix,
        suffix=command.suffix,
        expires_in_days=command.expires_in_days,
        created_at=command.context.now,
        created_by=command.context.api_key_id,
        updated_at=command.context.now,
        updated_by=None,
    )
    require_sound(generator, is_weak_allowed=command.is_weak_allowed)
    generator = replace(generator, id=generator_store.save_new_generator(work.tx, generator))
    work.record_event("generator.created", command, _of(generator))
    return generator


def update_generator(work: LicenseWork, command: UpdateGenerator) -> Generator:
    """Change the given fields of a generator."""
    generator = _lock_generator(work, command.generator_id)
    changed = replace(
        generator, **command.changes, updated_at=command.context.now, updated_by=command.context.api_key_id
    )
    require_sound(changed, is_weak_allowed=command.is_weak_allowed)
    generator_store.save_generator(work.tx, changed)
    pairs = {name: [getattr(generator, name), getattr(changed, name)] for name in sorted(command.changes)}
    different = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    work.record_event("generator.updated", command, _of(changed) | different)
    return changed


def delete_generator(work: LicenseWork, command: DeleteGenerator) -> None:
    """Delete a generator; the licenses it made stay."""
    generator = _lock_generator(work, command.generator_id)
    generator_store.delete_generator(work.tx, command.generator_id)
    work.record_event("generator.deleted", command, _of(generator))


def generate(work: LicenseWork, command: GenerateLicenses) -> tuple[LicenseRecord, ...]:
    """Make licenses with new keys, all or none."""
    generator = get_generator(work.tx, command.generator_id)
    return tuple(
        LicenseRecord(
            new_license(
                work,
                command,
                key,
                LicenseSource.GENERATOR,
                valid_for_days=generator.expires_in_days,
                times_activated_max=generator.times_activated_max,
            )
        )
        for key in _new_keys(work, generator, command.amount)
    )


def get_generator(tx: ReadTransaction, generator_id: int) -> Generator:
    """The generator with this id. Raises ``UnknownGenerator``."""
    generator = generator_store.find_generator(tx, generator_id)
    if generator is None:
        raise UnknownGenerator(generator_id)
    return generator


def _lock_generator(work: LicenseWork, generator_id: int) -> Generator:
    generator = generator_store.lock_generator(work.tx, generator_id)
    if generator is None:
        raise UnknownGenerator(generator_id)
    return generator


def _of(generator: Generator) -> dict[str, Any]:
    return {"generator_id": generator.id, "generator": generator.name}


def require_sound(generator: Generator, *, is_weak_allowed: bool) -> None:
    """Raise ``InvalidParameters`` for keys that are no license keys, ``GeneratorTooWeak`` for weak ones."""
    if not rules.is_drawable(generator):
        reason = "keys would have control characters in them, or white space at an end"
        raise InvalidParameters({"charset": reason})
    length = rules.key_length(generator)
    if length > keys.MAX_KEY_LENGTH:
        raise InvalidParameters(
            {"chunk_length": f"keys would have {length} characters; {keys.MAX_KEY_LENGTH} is the most"}
        )
    bits = rules.entropy_bits(generator.charset, generator.chunks, generator.chunk_length)
    if bits < rules.MIN_ENTROPY_BITS and not is_weak_allowed:
        raise GeneratorTooWeak(bits)


def _new_keys(work: LicenseWork, generator: Generator, amount: int) -> list[str]:
    """Different keys that no license has, in the order they were drawn."""
    new: dict[str, None] = {}
    draws_left = amount * _DRAWS_PER_KEY
    while len(new) < amount:
        wanted = amount - len(new)
        draws_left -= wanted
        if draws_left < 0:
            raise InvalidParameters({"amount": "the generator cannot make that many new keys"})
        drawn = dict.fromkeys(rules.generate_key(generator) for _ in range(wanted))
        taken = license_store.find_licenses(work.tx, drawn)
        new |= {key: None for key in drawn if key not in taken and not work.has_license(key)}
    return list(new)


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    CreateGenerator: create_generator,
    UpdateGenerator: update_generator,
    DeleteGenerator: delete_generator,
    GenerateLicenses: generate,
}
