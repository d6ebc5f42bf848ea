"""Uploaded tables, stored in parts of a few lines, so that a job's step reads only what it imports."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from io import BytesIO, StringIO
from itertools import islice
from typing import Final, NamedTuple

from keywright.core.errors import SourceUnusable
from keywright.provisioning.importers import tables
from keywright.provisioning.importers.columns import ERROR, METADATA, PRESETS, Preset
from keywright.provisioning.importers.csv_rows import CsvRows
from keywright.provisioning.importers.model import ImportedLicense
from keywright.provisioning.importers.rows import Defaults
from keywright.provisioning.importers.run import MAX_ACTIVATIONS, Report

#: The maximum size of a table, in bytes: some 100,000 lines. It is received into memory, and the bodies of
#: all requests share 32 MiB. The command line imports larger tables.
MAX_UPLOAD: Final = 8 * 1024 * 1024
#: The field of a column that is imported as metadata under the column's name.
AS_METADATA: Final = "as_metadata"
#: The maximum number of lines in a part, and of bytes, unless a single line is longer.
_PART_LINES, _PART_BYTES = 25, 64 * 1024
#: The maximum length of a line, in bytes; of the first line of CSV, which is read again for each part; and
#: the maximum number of columns.
_MAX_LINE, _MAX_HEADER, _MAX_COLUMNS = 2**20, 64 * 1024, 1_000
#: The maximum number of lines: each part is a row in the database.
_MAX_LINES: Final = 250_000
_BOM = b"\xef\xbb\xbf"
_TOO_MANY_ACTIVATIONS = f"it has more than {MAX_ACTIVATIONS:,} activations; keywright import jsonl imports it"


class Format(StrEnum):
    """The format of a table."""

    CSV = "csv"
    JSONL = "jsonl"


class Part(NamedTuple):
    """Some lines of a table: the number of the first line, the text, and the number of lines with data."""

    first_line: int
    text: bytes
    amount: int


class TableParts(NamedTuple):
    """A table in parts; ``header`` is the first line of CSV, and empty for JSON Lines."""

    format: Format
    header: bytes
    parts: list[Part]

    @property
    def amount(self) -> int:
        """The number of lines with a license."""
        return sum(one.amount for one in self.parts)


class ReadOptions(NamedTuple):
    """The options to read a table with: its name and format, the field of each column by the column's name,
    the name of the preset for its words, and the defaults for what rows lack.
    """

    name: str
    format: Format
    header: bytes
    given: Mapping[str, str]
    preset: str | None
    defaults: Defaults


def split_table(content: bytes, name: str) -> TableParts:
    """Split an uploaded table into parts. Raises ``SourceUnusable``."""
    is_json = content.removeprefix(_BOM).lstrip()[:1] == b"{"
    if is_json:
        found = TableParts(Format.JSONL, b"", list(_join(_json_lines(content), name)))
    else:
        rows = CsvRows(BytesIO(content), name)
        if not rows.columns:
            raise rows.refuse("its first line must name the columns")
        header = _encode(rows.text)
        if len(header) > _MAX_HEADER or len(rows.columns) > _MAX_COLUMNS:
            raise rows.refuse(f"it has more than {_MAX_COLUMNS:,} columns, or their names are too long")
        found = TableParts(Format.CSV, header, list(_join(_csv_lines(rows), name)))
    if not found.parts:
        raise SourceUnusable(f"{name}: it has no lines with licenses. Nothing was imported.")
    return found


def _csv_lines(rows: CsvRows) -> Iterator[tuple[int, bytes]]:
    for row in rows:
        yield row.line, _encode(rows.text)


def _json_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            # A carriage return would count as another line.
            yield number, line.replace(b"\r", b" ") + b"\n"


def _join(lines: Iterator[tuple[int, bytes]], name: str) -> Iterator[Part]:
    """Join lines to parts. Empty lines inside a part are kept, so that line numbers stay correct."""
    first, follows, size, texts = 0, 0, 0, list[bytes]()
    amount = 0
    for place, (number, text) in enumerate(lines):
        if place == _MAX_LINES:
            raise SourceUnusable(f"{name}: it has more than {_MAX_LINES:,} lines. Nothing was imported.")
        if len(text) > _MAX_LINE:
            raise SourceUnusable(f"{name}, line {number}: the line is too long. Nothing was imported.")
        gap = max(0, number - follows)
        if texts and (amount >= _PART_LINES or size + gap + len(text) > _PART_BYTES):
            yield Part(first, b"".join(texts), amount)
            texts, size, amount = [], 0, 0
        first, gap = (first, gap) if texts else (number, 0)
        texts += [b"\n" * gap, text]
        size += gap + len(text)
        amount += 1
        follows = number + len(text.splitlines())
    if texts:
        yield Part(first, b"".join(texts), amount)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def list_columns(format: Format, header: bytes, first_part: bytes) -> list[str]:
    """Return the names of the columns that can have a field: from the first line, or the first objects."""
    if format is Format.CSV:
        return [name for name in CsvRows(BytesIO(header), "").names if name]
    names = dict.fromkeys(name for line in first_part.split(b"\n") for name in _object_names(line))
    return list(islice((name for name in names if name != ERROR), _MAX_COLUMNS))


def _object_names(line: bytes) -> list[str]:
    try:
        return list(tables.decode_object(line.removeprefix(_BOM)))
    except ValueError:
        return []


def fields_by_name(columns: Sequence[str], fields: Sequence[str]) -> dict[str, str]:
    """Return the field of each column by the column's name; ``fields`` has them in order. ``AS_METADATA``
    means metadata under the column's own name. Columns without a field are not used.
    """
    named: dict[str, str] = {}
    for place, column in enumerate(columns):
        field = fields[place] if place < len(fields) else ""
        name = column.strip()
        own = name if name.lower().startswith(METADATA) else METADATA + name
        named[column] = named.get(column) or (own if field == AS_METADATA else field)
    return named


def preset_of(name: str | None) -> Preset | None:
    """Return the preset with this name, or None."""
    return None if name is None else PRESETS.get(name)


def read_part(
    options: ReadOptions, first_line: int, text: bytes, limit: int | None = None
) -> Iterator[ImportedLicense | tables.Unusable]:
    """Yield the licenses of a part, and its lines that cannot be used. Raises ``SourceUnusable`` if no column
    is the license key.
    """
    about = tables.About(options.name, options.given, preset_of(options.preset), options.defaults, first_line)
    rejects, stream = tables.Rejects(None, Report()), BytesIO(options.header + text)
    is_csv = options.format is Format.CSV
    table: tables.Table = (
        tables.CsvTable(stream, about, rejects) if is_csv else tables.JsonLines(stream, about, rejects)
    )
    lines = text.split(b"\n")
    for one in islice(table.read(), limit):
        if isinstance(one, ImportedLicense) and len(one.activations) > MAX_ACTIVATIONS:
            number = int(one.place.removeprefix("line "))
            line = lines[number - first_line]
            yield tables.refuse_object(
                number, line, tables.decode_object(line.removeprefix(_BOM)), _TOO_MANY_ACTIVATIONS
            )
        else:
            yield one


def write_rejects(rejects: list[tables.Unusable], *, has_header: bool) -> bytes:
    """Write the lines that cannot be used to a file that a person can correct; ``has_header`` means that
    others were written before.
    """
    file = StringIO(newline="")
    for place, one in enumerate(rejects):
        one.write(file, place == 0 and not has_header)
    return _encode(file.getvalue())
