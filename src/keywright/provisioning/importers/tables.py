"""Read tables of licenses, CSV files and JSON Lines, line by line.

A line that cannot be used is skipped, and written to a separate file with the reason.
"""

import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, Protocol, TextIO

import msgspec

from keywright.core.errors import SourceUnusable
from keywright.core.spreadsheets import unescape_formulas
from keywright.provisioning.importers import model
from keywright.provisioning.importers.columns import ERROR, MAX_ID, WORDS, Preset, Words, assign_fields
from keywright.provisioning.importers.csv_rows import CsvRows, is_error
from keywright.provisioning.importers.rows import Defaults, Rows
from keywright.provisioning.importers.run import Report

#: The maximum length of a line of JSON, in bytes: a license may have very many activations.
_MAX_JSON_LINE = 2**26
_BOM = b"\xef\xbb\xbf"
#: The first columns of a file that Keywright exported: only such files have apostrophes before formulas.
_OWN_COLUMNS = ["id", "license_key", "status"]
#: The number of JSON object shapes, by their member names, that are cached.
_MAX_SHAPES = 64


class About(NamedTuple):
    """The description of a table: its name, the given fields of columns, the preset, and the defaults for
    what its rows lack. ``first_line`` is the number of the first row, if this is part of a longer table.
    """

    name: str
    given: Mapping[str, str]
    preset: Preset | None
    defaults: Defaults
    first_line: int | None = None

    @property
    def words(self) -> Words:
        """The words that stand for other values, by field."""
        words = WORDS if self.preset is None else {**WORDS, **self.preset.words}
        return {**words, "product_id": self.defaults.products}


class Unusable(NamedTuple):
    """A line that cannot be used, and why; ``write`` writes it, and is told whether it is the first."""

    line: int
    reason: str
    write: Callable[[TextIO, bool], None]


class Rejects:
    """The file of the lines that could not be used, created with the first of them, for its owner only.
    Without a path, the lines are only counted.
    """

    def __init__(self, path: Path | None, report: Report) -> None:
        self.path, self.amount = path, 0
        self._report = report
        self._file: TextIO | None = None

    def add(self, one: Unusable) -> None:
        """Count, report and write a line."""
        self.amount += 1
        self._report.count(model.Outcome("license", model.Verdict.LEFT_OUT))
        self._report.note(model.Notice("line_unusable", f"line {one.line}", one.reason))
        if self.path is not None:
            is_first, self._file = self._file is None, self._file or _open_private(self.path)
            one.write(self._file, is_first)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _open_private(path: Path) -> TextIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)
    return open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="")


class Table:
    """A ``run.Source`` that reads its records from lines."""

    name: str

    def __init__(self, about: About, rejects: Rejects) -> None:
        self._about, self._rejects = about, rejects

    @abstractmethod
    def read(self) -> Iterator[model.ImportedLicense | Unusable]:
        """Yield the licenses, and the lines that cannot be used, in order."""

    def records(self) -> Iterator[model.ImportedLicense]:
        """Yield the licenses of the usable lines, in order; reject the others."""
        for one in self.read():
            if isinstance(one, Unusable):
                self._rejects.add(one)
            else:
                yield one

    @property
    def unused(self) -> list[str]:
        """The names of the columns that are not used."""
        return []


class CsvTable(Table):
    """A CSV file in UTF-8 whose first line names its columns, separated by commas, semicolons or tabs."""

    name = "csv"

    def __init__(self, stream: BinaryIO, about: About, rejects: Rejects) -> None:
        """Read the first line. Raises ``SourceUnusable``."""
        super().__init__(about, rejects)
        self._csv = CsvRows(stream, about.name)
        try:
            self._fields = assign_fields(self._csv.names, about.given, about.preset)
        except ValueError as problem:
            raise self._csv.refuse(str(problem)) from None
        if "key" not in self._fields:
            raise self._csv.refuse(
                "no column contains the license key. The first line must name the columns; use --map "
                "COLUMN=key to choose the one with the license key"
            )
        if about.first_line is not None:
            self._csv.number_from(about.first_line)

    @property
    def unused(self) -> list[str]:
        """The names of the columns that are not used."""
        pairs = zip(self._csv.columns, self._fields, strict=True)
        return [name for name, field in pairs if field is None and not is_error(name)]

    def read(self) -> Iterator[model.ImportedLicense | Unusable]:
        """Yield the licenses, and the lines that cannot be used, in order."""
        rows, width = Rows(self._fields, self._about.defaults, self._about.words), len(self._csv.columns)
        is_own = [name.strip().lower() for name in self._csv.columns[:3]] == _OWN_COLUMNS
        for line, row, problem in self._csv:
            try:
                if problem is not None or len(row) != width:
                    raise ValueError(problem or f"it has {len(row)} cells instead of {width}")
                cells = [unescape_formulas(cell) for cell in row] if is_own else row
                yield rows.license(cells, f"line {line}")
            except ValueError as reason:
                yield self._unusable(line, row, str(reason))

    def _unusable(self, line: int, row: list[str], reason: str) -> Unusable:
        def write(file: TextIO, is_first: bool) -> None:
            self._csv.write(file, row, reason, is_first=is_first)

        return Unusable(line, reason, write)


class Lines(Protocol):
    """A file that is read line by line."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, of at most so many bytes; b"" at the end."""


class JsonLines(Table):
    """A file with a JSON object per line: a license, which may have its activations."""

    name = "jsonl"
    _max_line = _MAX_JSON_LINE

    def __init__(self, stream: Lines, about: About, rejects: Rejects) -> None:
        super().__init__(about, rejects)
        self._stream = stream
        self._rows_of = lru_cache(_MAX_SHAPES)(self._make_rows)

    def read(self) -> Iterator[model.ImportedLicense | Unusable]:
        """Yield the licenses, and the lines that cannot be used, in order."""
        number = (self._about.first_line or 1) - 1
        while line := self._stream.readline(self._max_line):
            number += 1
            if len(line) >= self._max_line:
                raise SourceUnusable(f"{self._about.name}, line {number}: the line is too long.")
            line = line.removeprefix(_BOM) if number == 1 else line
            if line.strip():
                yield self._record(number, line)

    def _record(self, number: int, line: bytes) -> model.ImportedLicense | Unusable:
        values: Any = None
        try:
            values = decode_object(line)
            return self._parse(values, f"line {number}")
        except ValueError as problem:
            return refuse_object(number, line, values, str(problem))

    def _parse(self, values: dict[str, Any], place: str) -> model.ImportedLicense:
        """Parse the license in a line. Raises ``ValueError``."""
        return self._rows_of(tuple(values)).license([*values.values()], place)

    def _make_rows(self, names: Sequence[str]) -> Rows:
        there = {*names}
        given = {name: field for name, field in self._about.given.items() if name in there}
        used = ["" if name == ERROR else name for name in names]
        return Rows(assign_fields(used, given, self._about.preset), self._about.defaults, self._about.words)


class ConvertedLines(JsonLines):
    """The output of the converter: licenses, each with its ``place`` in the shop, and the shop's generators,
    API keys and names. Only for the terminal: a person who may import API keys has all rights.
    """

    _max_line = sys.maxsize
    _kinds: Mapping[str, Any] = MappingProxyType(
        {"generator": model.ImportedGenerator, "api_key": model.ImportedApiKey, "names": model.ImportedNames}
    )

    def __init__(self, name: str, stream: Lines, about: About, rejects: Rejects) -> None:
        """``name`` is the name of the source in events."""
        super().__init__(stream, about, rejects)
        self.name = name

    def _parse(self, values: dict[str, Any], place: str) -> Any:
        for kind in values.keys() & self._kinds.keys():
            return msgspec.convert(values[kind], self._kinds[kind], str_keys=True)
        return super()._parse(values, values.get("place", place))


def refuse_object(number: int, line: bytes, values: Any, reason: str) -> Unusable:
    """Build the rejection of a line of JSON. ``values`` is the decoded value, if there is one."""
    kept = values if isinstance(values, dict) else {"line": line.decode(errors="replace").strip()}

    def write(file: TextIO, is_first: bool) -> None:
        del is_first
        file.write(msgspec.json.encode(kept | {ERROR: reason}).decode() + "\n")

    return Unusable(number, reason, write)


def decode_object(line: bytes) -> dict[str, Any]:
    """Decode the JSON object in a line. Raises ``ValueError``."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def largest_activation_id(stream: BinaryIO) -> int:
    """Return the largest ID of an activation in JSON Lines; 0 if there is none."""
    largest = 0
    while line := stream.readline(_MAX_JSON_LINE):
        if b'"activation' in line:
            try:
                values = decode_object(line.removeprefix(_BOM))
            except ValueError:
                continue
            listed = values.get("activations") or values.get("activationData") or ()
            ids = (one.get("id") for one in listed if isinstance(one, dict))
            largest = max(largest, *(one for one in ids if isinstance(one, int) and one <= MAX_ID), 0)
    return largest
