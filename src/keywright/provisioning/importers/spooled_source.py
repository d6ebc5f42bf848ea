"""A source whose rows lie in a spool: what dumps and the plugin's interface have in common."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from keywright.core import parsing
from keywright.provisioning.importers import lmfwc
from keywright.provisioning.importers.model import (
    ImportedGenerator,
    ImportedLicense,
    Notice,
    Outcome,
    Verdict,
)
from keywright.provisioning.importers.report import Report
from keywright.provisioning.importers.spool import Spool, Values, place_of

GENERATORS = "generators"
#: How many rows are read at once.
AT_ONCE = 500


class SpooledSource:
    """Rows in the columns of the plugin's tables, as records."""

    def __init__(
        self,
        name: str,
        sealing: lmfwc.Sealing,
        report: Report,
        *,
        now: datetime,
        keep_address: Callable[[str, datetime], str],
    ) -> None:
        """``name`` is that of the source in events."""
        self.name = name
        self._report = report
        self._plugin = lmfwc.Plugin(sealing, report.note, now=now, keep_address=keep_address)
        self._spool = Spool()

    def close(self) -> None:
        """Delete what was read."""
        self._spool.close()

    def _note_joined(self) -> None:
        for line, number, first in self._spool.joined():
            self._report.note(
                Notice("key_duplicate", place_of(line, f"license {number}"), f"as license {first}")
            )
            self._report.count(Outcome("license", Verdict.LEFT_OUT))

    @property
    def total(self) -> int:
        """The number of licenses in the source."""
        return self._spool.count("licenses")

    def largest_ids(self) -> tuple[int, int]:
        """The largest ids of licenses and activations that can be kept."""
        return (
            self._spool.largest_id("licenses", lmfwc.MAX_KEPT_ID),
            self._spool.largest_id("activations", lmfwc.MAX_KEPT_ID),
        )

    def keep_ids(self, after: int, until: int, taken: Iterable[int]) -> None:
        """Let activations keep their ids in this range, but those that are taken."""
        self._plugin.kept_ids = range(after + 1, until + 1)
        self._spool.add_taken(taken)

    def licenses(self) -> Iterator[ImportedLicense]:
        """The licenses that can be used, in the order of their ids."""
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
                    yield one
        found = lmfwc.find_local_midnight(self._plugin.ends)
        if found is not None:
            self._report.note(Notice("expiry_local", f"at {found[0]} UTC"), found[1])

    def generators(self) -> Iterator[ImportedGenerator]:
        """The generators that make keys."""
        for row in self._spool.others(GENERATORS):
            one = self._plugin.generator(row)
            self._count_left_out("generator", one is None)
            if one is not None:
                yield one

    def _count_left_out(self, kind: str, amount: int) -> None:
        if amount:
            self._report.count(Outcome(kind, Verdict.LEFT_OUT, int(amount)))


def id_of(values: Values, column: str) -> int | None:
    """The number in a column; None where there is none."""
    try:
        return parsing.parse_integer(values.get(column) or None)
    except ValueError:
        return None
