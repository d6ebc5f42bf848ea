"""Tables of licenses: CSV files and JSON Lines, read line by line.

A line that cannot be used is written to a file of its own with the reason, and is left out.
"""

import csv
import io
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import msgspec

from keywright.core.errors import SourceUnusable
from keywright.core.spreadsheets import unescape_formulas
from keywright.provisioning.importers.columns import ERROR, MAX_ID, WORDS, Preset, Words, assign_fields
from keywright.provisioning.importers.model import (
    ImportedApiKey,
    ImportedGenerator,
    ImportedLicense,
    ImportedNames,
    Notice,
    Outcome,
    Verdict,
)
from keywright.provisioning.importers.report import Report
from keywright.provisioning.importers.rows import Defaults, Rows

#: The longest line, in characters or bytes. A license in JSON may have very many activations.
_MAX_CSV_LINE, _MAX_JSON_LINE = 2**20, 2**26
_BOM = b"\xef\xbb\xbf"
#: The columns with which a file of Keywright's own begins: only there do apostrophes stand before formulas.
_OWN_COLUMNS = ["id", "license_key", "status"]
#: How many kinds of JSON objects, by their names, are remembered.
_MAX_SHAPES = 64


class About(NamedTuple):
    """The facts about a table besides its lines: its name, the fields of columns that were given, the
    preset, and what its rows do not say.
    """

    name: str
    given: Mapping[str, str]
    preset: Preset | None
    defaults: Defaults

    @property
    def words(self) -> Words:
        """The words in its columns that stand for other values."""
        return WORDS if self.preset is None else {**WORDS, **self.preset.words}

    def refuse(self, reason: str) -> SourceUnusable:
        """The refusal of the whole table."""
        return SourceUnusable(f"{self.name}: {reason}. Nothing was imported.")


class Rejects:
    """The file of the lines that could not be used; it is made, for its owner only, with the first of them.
    Without a path, they are only counted.
    """

    def __init__(self, path: Path | None, report: Report) -> None:
        self.path, self.amount = path, 0
        self._report = report
        self._file: TextIO | None = None

    def add(self, line: int, reason: str, write: Callable[[TextIO, bool], None]) -> None:
        """Add a line; ``write`` writes it, and is told whether it is the first."""
        self.amount += 1
        self._report.count(Outcome("license", Verdict.LEFT_OUT))
        self._report.note(Notice("line_unusable", f"line {line}", reason))
        if self.path is not None:
            is_first, self._file = self._file is None, self._file or _open_private(self.path)
            write(self._file, is_first)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _open_private(path: Path) -> TextIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)
    return open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="")


class Table:
    """A ``run.Source`` of licenses only."""

    name: str

    def __init__(self, about: About, rejects: Rejects) -> None:
        self._about, self._rejects = about, rejects

    @abstractmethod
    def licenses(self) -> Iterator[ImportedLicense]:
        """The licenses of the lines that can be used, in their order."""

    @property
    def unused(self) -> list[str]:
        """The columns that are not used."""
        return []

    def names(self) -> Iterable[ImportedNames]:
        """No names."""
        return ()

    def generators(self) -> Iterable[ImportedGenerator]:
        """No generators."""
        return ()

    def api_keys(self) -> Iterable[ImportedApiKey]:
        """No API keys."""
        return ()


class CsvTable(Table):
    """A CSV file in UTF-8 whose first line names its columns, separated by commas, semicolons or tabs."""

    name = "csv"

    def __init__(self, stream: BinaryIO, about: About, rejects: Rejects) -> None:
        """Read the first line. Raises ``SourceUnusable``."""
        super().__init__(about, rejects)
        # No text is lost: bytes that are no UTF-8 come out again as they were.
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
        self._lines = _Lines(text, about)
        first = next(self._lines, "")
        if "\0" in first or any("\ud800" <= one <= "\udfff" for one in first):
            raise about.refuse("this is no text in UTF-8; save it as CSV in UTF-8")
        self._separator = max(",;\t", key=first.count)
        self._columns = self._read_columns(first)
        names = ["" if _is_error(name) else name for name in self._columns]
        self._error = next((place for place, name in enumerate(self._columns) if _is_error(name)), None)
        try:
            self._fields = assign_fields(names, about.given, about.preset)
        except ValueError as problem:
            raise about.refuse(str(problem)) from None
        if "key" not in self._fields:
            raise about.refuse(
                "no column is the license key. Its first line has to name the columns; which of them is the "
                "license key can be said with --map COLUMN=key"
            )

    def _read_columns(self, first: str) -> list[str]:
        """The names of the columns; the first line of the file is read again as a row."""
        self._lines.unread(first)
        self._reader = csv.reader(self._lines, delimiter=self._separator, strict=True)
        try:
            return next(self._reader, [])
        except csv.Error as problem:
            raise self._about.refuse(f"the first line is no CSV: {problem}") from None

    @property
    def unused(self) -> list[str]:
        """The columns that are not used."""
        pairs = zip(self._columns, self._fields, strict=True)
        return [name for name, field in pairs if field is None and not _is_error(name)]

    def licenses(self) -> Iterator[ImportedLicense]:
        """The licenses of the lines that can be used, in their order."""
        rows, width = Rows(self._fields, self._about.defaults, self._about.words), len(self._columns)
        is_own = [name.strip().lower() for name in self._columns[:3]] == _OWN_COLUMNS
        for line, row, problem in self._rows():
            try:
                if problem is not None or len(row) != width:
                    raise ValueError(problem or f"it has {len(row)} cells instead of {width}")
                cells = [unescape_formulas(cell) for cell in row] if is_own else row
                yield rows.license(cells, f"line {line}")
            except ValueError as reason:
                self._reject(line, row, str(reason))

    def _rows(self) -> Iterator[tuple[int, list[str], str | None]]:
        """The number of each row's first line, its cells, and what is wrong if it is no CSV. Such a row has
        its text and more empty cells than there are columns.
        """
        width, has_error = len(self._columns), _is_error(self._columns[-1])
        while True:
            self._lines.begin()
            line = self._lines.number + 1
            try:
                row = next(self._reader)
            except StopIteration:
                return
            except csv.Error as problem:
                yield line, ["".join(self._lines.begun), *[""] * width], f"it is no CSV: {problem}"
                continue
            if has_error and len(row) == width - 1:
                row.append("")
            if row:
                yield line, row, None

    def _reject(self, line: int, row: list[str], reason: str) -> None:
        """Write the row as it is, with the reason. One with another number of cells keeps that, so that it
        is refused again until it is mended.
        """

        def write(file: TextIO, is_first: bool) -> None:
            writer = csv.writer(file, delimiter=self._separator, lineterminator="\r\n")
            for cells, last in ([(self._columns, ERROR)] if is_first else []) + [(row, reason)]:
                writer.writerow([*(one for place, one in enumerate(cells) if place != self._error), last])

        self._rejects.add(line, reason, write)


def _is_error(name: str) -> bool:
    return name.strip().lower() == ERROR


class _Lines:
    """The lines of a text. Those since ``begin`` are kept."""

    def __init__(self, text: TextIO, about: About) -> None:
        self._text, self._about = text, about
        self._unread: list[str] = []
        self.number = 0
        self.begun: list[str] = []

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._unread.pop() if self._unread else self._text.readline(_MAX_CSV_LINE)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) >= _MAX_CSV_LINE:
            raise SourceUnusable(f"{self._about.name}, line {self.number}: the line is too long for CSV.")
        self.begun.append(line)
        return line

    def begin(self) -> None:
        """Forget the lines that were kept."""
        self.begun.clear()

    def unread(self, line: str) -> None:
        """Let this line be the next one again."""
        self.number -= 1
        self._unread.append(line)


class JsonLines(Table):
    """A file with a JSON object in each line: a license, which may have its activations."""

    name = "jsonl"

    def __init__(self, stream: BinaryIO, about: About, rejects: Rejects) -> None:
        super().__init__(about, rejects)
        self._stream = stream
        self._rows_of = lru_cache(_MAX_SHAPES)(self._make_rows)

    def licenses(self) -> Iterator[ImportedLicense]:
        """The licenses of the lines that can be used, in their order."""
        number = 0
        while line := self._stream.readline(_MAX_JSON_LINE):
            number += 1
            if len(line) >= _MAX_JSON_LINE:
                raise SourceUnusable(f"{self._about.name}, line {number}: the line is too long.")
            line = line.removeprefix(_BOM) if number == 1 else line
            if line.strip():
                yield from self._license(number, line)

    def _license(self, number: int, line: bytes) -> Iterator[ImportedLicense]:
        values: Any = None
        try:
            values = _decode(line)
            rows = self._rows_of(tuple(values))
            yield rows.license([*values.values()], f"line {number}")
        except ValueError as problem:
            self._reject(number, line, values, str(problem))

    def _make_rows(self, names: Sequence[str]) -> Rows:
        given = {name: field for name, field in self._about.given.items() if name in names}
        used = ["" if name == ERROR else name for name in names]
        return Rows(assign_fields(used, given, self._about.preset), self._about.defaults, self._about.words)

    def _reject(self, number: int, line: bytes, values: Any, reason: str) -> None:
        kept = values if isinstance(values, dict) else {"line": line.decode(errors="replace").strip()}

        def write(file: TextIO, is_first: bool) -> None:
            del is_first
            file.write(msgspec.json.encode(kept | {ERROR: reason}).decode() + "\n")

        self._rejects.add(number, reason, write)


def _decode(line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise ValueError("it is no JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def largest_activation_id(stream: BinaryIO) -> int:
    """The largest id of an activation in JSON Lines; 0 without one."""
    largest = 0
    while line := stream.readline(_MAX_JSON_LINE):
        if b'"activation' in line:
            try:
                values = _decode(line.removeprefix(_BOM))
            except ValueError:
                continue
            listed = values.get("activations") or values.get("activationData") or ()
            ids = (one.get("id") for one in listed if isinstance(one, dict))
            largest = max(largest, *(one for one in ids if isinstance(one, int) and one <= MAX_ID), 0)
    return largest
