"""Run an import: everything is read and checked first, then brought in batches, each one transaction.

An import that was broken off is run again: what was brought is the same then, and changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from keywright.core.command import Command, Context
from keywright.provisioning.importers.commands import (
    Import,
    ImportApiKeys,
    ImportGenerators,
    ImportLicenses,
    ImportNames,
    ReserveIds,
)
from keywright.provisioning.importers.model import (
    ImportedApiKey,
    ImportedGenerator,
    ImportedLicense,
    ImportedNames,
)
from keywright.provisioning.importers.report import Report

#: A batch holds SQLite's lock for some hundredths of a second.
MAX_LICENSES, MAX_ACTIVATIONS = 500, 2_000
_MAX_NAMES = 500

Item = TypeVar("Item")
#: Decides a command; returns its outcome, or raises.
Change = Callable[[Command], Any]


Record = ImportedLicense | ImportedGenerator | ImportedApiKey | ImportedNames


class Source(Protocol):
    """A system from which records come."""

    #: The name of the source, for the events.
    name: str

    def records(self) -> Iterable[Record]:
        """The records, as they come."""


def run_import(
    source: Source,
    change: Change,
    context: Context,
    report: Report,
    *,
    is_dry_run: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Bring everything; ``progress`` gets the number of licenses so far."""
    about: dict[str, Any] = {"context": context, "source": source.name, "is_dry_run": is_dry_run}
    done = 0
    for command in _commands(source.records(), about):
        report.add(change(command))
        if isinstance(command, ImportLicenses):
            done += sum(not one.is_rest for one in command.licenses)
            progress(done)


def _commands(records: Iterable[Record], about: dict[str, Any]) -> Iterator[Import]:
    """The commands that bring these records, in their order."""
    for kind, of_kind in groupby(records, type):
        some: Iterator[Any] = of_kind
        if kind is ImportedLicense:
            yield from (ImportLicenses(licenses=batch, **about) for batch in split(some))
        elif kind is ImportedGenerator:
            yield ImportGenerators(generators=tuple(some), **about)
        elif kind is ImportedApiKey:
            yield from (ImportApiKeys(api_keys=few, **about) for few in _chunks(some, _MAX_NAMES))
        else:
            yield from (ImportNames(names=one, **about) for one in some)


def split(licenses: Iterable[ImportedLicense]) -> Iterator[tuple[ImportedLicense, ...]]:
    """Batches of so many licenses with so many activations; a license with more comes in pieces."""
    batch: list[ImportedLicense] = []
    size = 0
    for one in licenses:
        for piece in _pieces(one):
            if batch and (len(batch) >= MAX_LICENSES or size + len(piece.activations) > MAX_ACTIVATIONS):
                yield tuple(batch)
                batch, size = [], 0
            batch.append(piece)
            size += len(piece.activations)
    if batch:
        yield tuple(batch)


def _pieces(license: ImportedLicense) -> Iterator[ImportedLicense]:
    if len(license.activations) <= MAX_ACTIVATIONS:
        yield license
        return
    for start in range(0, len(license.activations), MAX_ACTIVATIONS):
        some = license.activations[start : start + MAX_ACTIVATIONS]
        yield replace(license, activations=some, is_rest=start > 0)


def _chunks(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    iterator = iter(items)
    while chunk := tuple(islice(iterator, size)):
        yield chunk


def reserve_ids(change: Change, context: Context, *, license_id: int, activation_id: int) -> tuple[int, int]:
    """Let nobody else have the ids that come; returns between which numbers activations may keep theirs."""
    command = ReserveIds(context=context, license_id=license_id, activation_id=activation_id)
    after, until = change(command)
    return after, until
