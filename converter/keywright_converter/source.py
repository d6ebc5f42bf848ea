"""Base class for sources that spool their rows: dumps and the plugin's interface."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from keywright.core import parsing
from keywright.provisioning.importers.lmfwc import MAX_KEPT_ID, Plugin, Sealing, Spooled, Values, place_of
from keywright.provisioning.importers.model import (
    ImportedApiKey,
    ImportedGenerator,
    ImportedLicense,
    ImportedNames,
    Notice,
    Outcome,
    Verdict,
)
from keywright.provisioning.importers.run import Report
from keywright.provisioning.products import NameKind
from keywright_converter.rows import find_local_midnight, read_generator
from keywright_converter.spool import Spool

GENERATORS = "generators"
#: How many rows to read per query.
AT_ONCE = 500
#: The names in JSON Lines of the license fields that a shop has, by field.
_MEMBERS = {
    one: {"key": "license_key", "valid_for_days": "valid_for"}.get(one, one)
    for one in (
        *("key", "status", "created_at", "updated_at", "id", "order_id", "product_id", "customer_id"),
        *("expires_at", "valid_for_days", "source", "times_activated_max", "created_by", "updated_by"),
        *("metadata", "activations", "place"),
    )
}


class Licenses(Protocol):
    """Converts rows to licenses."""

    def license(
        self, row: Spooled, activations: list[Spooled], meta: Mapping[str, str | None]
    ) -> ImportedLicense | None:
        """Convert a row, with its activations, to a license; None if its key is unusable."""


class SpooledSource:
    """Converts rows with the columns of the plugin's tables to lines that ``keywright import`` reads."""

    members = _MEMBERS

    def __init__(self, name: str, sealing: Sealing, report: Report, *, now: datetime) -> None:
        """``name`` identifies the source in events."""
        self.name = name
        self._report, self._now = report, now
        self._plugin: Licenses = Plugin(sealing, report.note, now=now)
        self._spool = Spool()
        self._lines = self._write_lines()
        #: The number of licenses that expire at each time of day.
        self._ends: Counter[str] = Counter()
        #: The products and customers that licenses refer to.
        self._named: dict[NameKind, set[int]] = {kind: set() for kind in NameKind}

    @abstractmethod
    def load(self, progress: Callable[[int], None] = lambda _: None) -> None:
        """Read everything; ``progress`` gets the number of rows so far. Raises ``SourceUnusable``."""

    def close(self) -> None:
        """Delete what was read."""
        self._spool.close()

    def readline(self, _size: int = -1, /) -> bytes:
        """Return the next line of JSON, b"" after the last: licenses, then generators, API keys and names,
        each in a member named after its kind. Lines are always complete.
        """
        return next(self._lines, b"")

    @property
    def total(self) -> int:
        """The number of licenses in the source."""
        return self._spool.count("licenses")

    def largest_ids(self) -> tuple[int, int]:
        """The largest IDs of licenses and activations that can be kept."""
        return (
            self._spool.largest_id("licenses", MAX_KEPT_ID),
            self._spool.largest_id("activations", MAX_KEPT_ID),
        )

    def licenses(self) -> Iterator[ImportedLicense]:
        """Yield the usable licenses, in the order of their IDs."""
        last = 0
        while rows := self._spool.licenses(after=last, limit=AT_ONCE):
            first, last = rows[0][0], rows[-1][0]
            activations, meta = self._spool.activations(first, last), self._spool.meta(first, last)
            for number, row in rows:
                taken = activations.get(number, [])
                one = self._plugin.license(row, taken, meta.get(number, {}))
                self._count_left_out("license", one is None)
                self._count_left_out("activation", len(taken) - (len(one.activations) if one else 0))
                if one is not None:
                    self._remember(one)
                    yield one
        found = find_local_midnight(self._ends)
        if found is not None:
            self._report.note(Notice("expiry_local", f"at {found[0]} UTC"), found[1])

    def generators(self) -> Iterator[ImportedGenerator]:
        """Yield the usable generators."""
        for row in self._spool.others(GENERATORS):
            one = read_generator(row, self._report.note, self._now)
            self._count_left_out("generator", one is None)
            if one is not None:
                yield one

    def api_keys(self) -> Iterator[ImportedApiKey]:
        """Yield the usable API keys; not every source has them."""
        return iter(())

    def names(self) -> Iterator[ImportedNames]:
        """Yield the names of the products and customers that licenses refer to; not every source has them."""
        return iter(())

    def _write_lines(self) -> Iterator[bytes]:
        encode = msgspec.json.Encoder().encode
        for license in self.licenses():
            yield encode({name: getattr(license, field) for field, name in self.members.items()})
        records: Any = (("generator", self.generators), ("api_key", self.api_keys), ("names", self.names))
        for kind, read in records:
            for one in read():
                yield encode({kind: one})

    def _remember(self, license: ImportedLicense) -> None:
        if license.expires_at is not None:
            self._ends[f"{license.expires_at:%H:%M:%S}"] += 1
        self._named[NameKind.PRODUCT].add(license.product_id or 0)
        self._named[NameKind.CUSTOMER].add(license.customer_id or 0)

    def _note_joined(self) -> None:
        for line, number, first in self._spool.joined():
            self._report.note(
                Notice("key_duplicate", place_of(line, f"license {number}"), f"as license {first}")
            )
            self._report.count(Outcome("license", Verdict.LEFT_OUT))

    def _count_left_out(self, kind: str, amount: int) -> None:
        if amount:
            self._report.count(Outcome(kind, Verdict.LEFT_OUT, int(amount)))


def id_of(values: Values, column: str) -> int | None:
    """The integer in a column; None if there is none."""
    try:
        return parsing.parse_integer(values.get(column) or None)
    except ValueError:
        return None
