"""Run an import in batches, each one transaction, and report the outcome.

An interrupted import can be run again: what was imported before is the same then, and changes nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from keywright.core.command import Command, Context
from keywright.provisioning.importers import model

#: The meaning of each code of a notice, and what is done about it.
ODDITIES: dict[str, tuple[str, str]] = {
    "line_unusable": ("Lines that cannot be used", "left out"),
    "key_unreadable": ("License keys that cannot be decrypted with the secrets", "left out"),
    "key_unusable": ("License keys that are empty, too long, or have control characters", "left out"),
    "key_duplicate": (
        "License keys of several licenses",
        "the first is imported, with all activations",
    ),
    "key_changed": ("License keys that were changed in one system", "the newer key is kept"),
    "key_trimmed": ("License keys with spaces around them", "imported without the spaces"),
    "key_weak": ("License keys that could be guessed (under 64 bits)", "imported; consider longer ones"),
    "hash_wrong": ("License keys with a wrong hash", "imported as decrypted"),
    "counter_wrong": ("Activation counts that differ from the number of active records", "recounted"),
    "over_limit": (
        "Licenses with more places taken than their limit",
        "imported; new activations are refused",
    ),
    "id_changed": ("License IDs that are already taken", "imported with new IDs"),
    "policy_missing": (
        "Policies that do not exist here",
        "imported without a policy; the terms are imported",
    ),
    "order_line_taken": (
        "Order lines of another license here",
        "imported with only the order's ID",
    ),
    "device_taken": (
        "Devices that already have another place on the license",
        "imported without the fingerprint",
    ),
    "customer_unnamed": (
        "Customer names without an e-mail address or an ID",
        "the license is imported without a customer",
    ),
    "license_missing": ("Activations of licenses that do not exist", "left out"),
    "token_unusable": ("Activation tokens that are not 40 hexadecimal digits", "left out"),
    "token_twice": ("Duplicate activation tokens of a license", "the latest version is imported"),
    "site_unusable": ("Sites without an address", "left out"),
    "site_twice": ("Duplicate sites of a license", "imported once, active if one is"),
    "status_unknown": ("Unknown statuses", "imported as inactive"),
    "date_zero": ("Dates with only zeros", "imported without a date"),
    "date_odd": ("Invalid dates", "imported without a date"),
    "expiry_local": ("Licenses that expire at midnight in another time zone", "imported as they are, in UTC"),
    "number_odd": ("Numbers that are invalid or out of range", "imported without a value"),
    "text_cut": ("Texts that are too long, or have null characters", "cut"),
    "text_broken": ("Texts that are not UTF-8", "imported with \ufffd in place of the invalid bytes"),
    "metadata_unusable": ("Metadata that is not an object of texts, or is too large", "left out"),
    "generator_unusable": ("Generators that cannot make keys", "left out"),
    "api_key_unusable": ("API keys that no program can use", "left out"),
    "api_key_owner": ("API keys whose WordPress user does not exist", "left out"),
    "list_refused": ("Lists that the shop refused to return", "not imported"),
    "table_missing": ("Missing tables", "not imported"),
}
#: The number of places that are listed for each code.
_MAX_LISTED = 20
#: The words for each verdict.
VERDICTS = {
    model.Verdict.NEW: "new",
    model.Verdict.SAME: "the same",
    model.Verdict.NEWER_THERE: "newer there, updated here",
    model.Verdict.NEWER_HERE: "newer here, kept",
    model.Verdict.DELETED_HERE: "deleted here, not restored",
    model.Verdict.LEFT_OUT: "left out",
}


class Report:
    """Counts outcomes and notices, and keeps the first notices of each code."""

    def __init__(self) -> None:
        self._outcomes: Counter[tuple[str, model.Verdict]] = Counter()
        self._notices: dict[str, list[model.Notice]] = {}
        self._amounts: Counter[str] = Counter()
        self._people: set[str | int] = set()

    def add(self, imported: model.Imported) -> None:
        """Add the outcome of a command."""
        for one in imported.outcomes:
            self.count(one)
        for notice in imported.notices:
            self.note(notice)

    def count(self, outcome: model.Outcome) -> None:
        """Add the outcome for records of a kind."""
        if outcome.who in self._people:
            return
        self._people |= {outcome.who} if outcome.who else set()
        self._outcomes[outcome.kind, outcome.verdict] += outcome.amount

    def note(self, notice: model.Notice, amount: int = 1) -> None:
        """Add a notice."""
        self._amounts[notice.code] += amount
        listed = self._notices.setdefault(notice.code, [])
        if len(listed) < _MAX_LISTED:
            listed.append(notice)

    def amount(self, kind: str, verdict: model.Verdict) -> int:
        """Return the number of records of a kind with this verdict."""
        return self._outcomes[kind, verdict]

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        records: dict[str, dict[str, int]] = {}
        for (kind, verdict), amount in self._outcomes.items():
            records.setdefault(kind, {})[verdict.value] = amount
        return {
            "records": records,
            "odd": [
                {
                    "code": code,
                    "amount": self._amounts[code],
                    "what": ODDITIES[code][0],
                    "done": ODDITIES[code][1],
                    "places": [msgspec.structs.asdict(one) for one in self._notices[code]],
                }
                for code in ODDITIES
                if code in self._amounts
            ],
        }

    def lines(self) -> list[str]:
        """Return the report for people, line by line."""
        kinds = dict.fromkeys(kind for kind, _ in self._outcomes)
        lines = [f"  {_plural(kind)}: {self._verdicts(kind)}" for kind in kinds]
        for code in ODDITIES:
            if code in self._amounts:
                lines += ["", f"{ODDITIES[code][0]}: {self._amounts[code]:,} ({ODDITIES[code][1]})"]
                lines += [
                    f"  {': '.join(filter(None, (one.place, one.what)))}" for one in self._notices[code]
                ]
                hidden = self._amounts[code] - len(self._notices[code])
                lines += [f"  and {hidden:,} more"] if hidden > 0 else []
        return lines

    def _verdicts(self, kind: str) -> str:
        amounts = ((verdict, self._outcomes[kind, verdict]) for verdict in model.Verdict)
        return ", ".join(f"{amount:,} {VERDICTS[verdict]}" for verdict, amount in amounts if amount)


def _plural(kind: str) -> str:
    first, _, rest = kind.partition(" of ")
    return f"{first}s of {rest.removeprefix('a ')}s" if rest else f"{kind}s"


#: The maximum size of a batch, which holds SQLite's lock for some hundredths of a second.
MAX_LICENSES, MAX_ACTIVATIONS = 500, 2_000
_MAX_NAMES = 500

Item = TypeVar("Item")
#: Runs a command; returns its outcome, or raises.
Change = Callable[[Command], Any]


Record = model.ImportedLicense | model.ImportedGenerator | model.ImportedApiKey | model.ImportedNames


class Source(Protocol):
    """A system from which records are imported."""

    #: The name of the source, for the events.
    name: str

    def records(self) -> Iterable[Record]:
        """Yield the records, in order."""


def run_import(
    source: Source,
    change: Change,
    context: Context,
    report: Report,
    *,
    is_dry_run: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Import all records; ``progress`` gets the number of licenses so far."""
    about: dict[str, Any] = {"context": context, "source": source.name, "is_dry_run": is_dry_run}
    done = 0
    for command in _commands(source.records(), about):
        report.add(change(command))
        if isinstance(command, model.ImportLicenses):
            done += sum(not one.is_rest for one in command.licenses)
            progress(done)


def _commands(records: Iterable[Record], about: dict[str, Any]) -> Iterator[model.Import]:
    """Yield the commands that import these records, in order."""
    for kind, of_kind in groupby(records, type):
        some: Iterator[Any] = of_kind
        if kind is model.ImportedLicense:
            yield from (model.ImportLicenses(licenses=batch, **about) for batch in split(some))
        elif kind is model.ImportedGenerator:
            yield model.ImportGenerators(generators=tuple(some), **about)
        elif kind is model.ImportedApiKey:
            yield from (model.ImportApiKeys(api_keys=few, **about) for few in _chunks(some, _MAX_NAMES))
        else:
            yield from (model.ImportNames(names=one, **about) for one in some)


def split(licenses: Iterable[model.ImportedLicense]) -> Iterator[tuple[model.ImportedLicense, ...]]:
    """Yield batches of at most so many licenses and activations; a license with more is split."""
    batch: list[model.ImportedLicense] = []
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


def _pieces(license: model.ImportedLicense) -> Iterator[model.ImportedLicense]:
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
    """Reserve the IDs of an import; return the range in which activations may keep theirs."""
    command = model.ReserveIds(context=context, license_id=license_id, activation_id=activation_id)
    after, until = change(command)
    return after, until
