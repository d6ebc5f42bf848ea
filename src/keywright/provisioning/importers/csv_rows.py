"""Read the rows of CSV files, line by line."""

import csv
import io
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, TextIO

from keywright.core.errors import SourceUnusable
from keywright.provisioning.importers.columns import ERROR

#: The maximum length of a line, in characters.
_MAX_LINE = 2**20


class CsvRow(NamedTuple):
    """A row: the number of its first line, its cells, and the problem if it is not valid CSV. Such a row has
    its whole text in the first cell, and too many cells.
    """

    line: int
    cells: list[str]
    problem: str | None = None


class CsvRows:
    """The rows of a CSV file in UTF-8 whose first line names its columns, separated by commas, semicolons or
    tabs. ``name`` is the name of the file.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        """Read the first line. Raises ``SourceUnusable``."""
        self._name = name
        # Bytes that are not UTF-8 are preserved, so that rejected lines are written unchanged.
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
        self._lines = _Lines(text, name)
        first = next(self._lines, "")
        if "\0" in first or any("\ud800" <= one <= "\udfff" for one in first):
            raise self.refuse("this is not text in UTF-8; save it as CSV in UTF-8")
        self.separator = max(",;\t", key=first.count)
        if first:
            self._lines.unread(first)
        self._reader = csv.reader(self._lines, delimiter=self.separator, strict=True)
        try:
            self.columns = next(self._reader, [])
        except csv.Error as problem:
            raise self.refuse(f"the first line is not CSV: {problem}") from None
        #: The index of the column with errors.
        self.error = next((place for place, one in enumerate(self.columns) if is_error(one)), None)

    @property
    def names(self) -> list[str]:
        """The names of the columns, with an empty name for the column with errors."""
        return ["" if is_error(one) else one for one in self.columns]

    @property
    def text(self) -> str:
        """The text of the row that was read last, at first that of the columns."""
        return "".join(self._lines.begun)

    def number_from(self, line: int) -> None:
        """Set the number of the next line: the rows are part of a longer file."""
        self._lines.number = line - 1

    def __iter__(self) -> Iterator[CsvRow]:
        width, has_error = len(self.columns), self.error == len(self.columns) - 1
        while True:
            self._lines.begin()
            line = self._lines.number + 1
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as problem:
                yield CsvRow(line, [self.text, *[""] * width], f"it is not CSV: {problem}")
                continue
            if has_error and len(cells) == width - 1:
                cells.append("")
            if cells:
                yield CsvRow(line, cells)

    def write(self, file: TextIO, cells: list[str], reason: str, *, is_first: bool) -> None:
        """Write a row with the reason why it cannot be used, and the columns before the first one. The row
        keeps its number of cells, so that it is refused again until it is corrected.
        """
        writer = csv.writer(file, delimiter=self.separator, lineterminator="\r\n")
        for row, last in ([(self.columns, ERROR)] if is_first else []) + [(cells, reason)]:
            writer.writerow([*(one for place, one in enumerate(row) if place != self.error), last])

    def refuse(self, reason: str) -> SourceUnusable:
        """Return the refusal of the whole file."""
        return SourceUnusable(f"{self._name}: {reason}. Nothing was imported.")


def is_error(name: str) -> bool:
    """Whether this is the column with the reasons why lines could not be used."""
    return name.strip().lower() == ERROR


class _Lines:
    """The lines of a text; those since ``begin`` are remembered."""

    def __init__(self, text: TextIO, name: str) -> None:
        self._text, self._name = text, name
        self._unread: list[str] = []
        self.number = 0
        self.begun: list[str] = []

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._unread.pop() if self._unread else self._text.readline(_MAX_LINE)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) >= _MAX_LINE:
            raise SourceUnusable(f"{self._name}, line {self.number}: the line is too long for CSV.")
        self.begun.append(line)
        return line

    def begin(self) -> None:
        """Forget the remembered lines."""
        self.begun.clear()

    def unread(self, line: str) -> None:
        """Return this line again as the next one."""
        self.number -= 1
        self._unread.append(line)
        self.begun.remove(line)
