"""Parse mysqldump files as a stream of rows: only one row is in memory at a time.

``CREATE TABLE`` has the column names, ``INSERT`` and ``REPLACE`` the rows; all other statements are skipped.
Dumps of MariaDB, MySQL 8, phpMyAdmin and Adminer have this form.
"""

import gzip
import importlib
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, TextIO, cast

from keywright.core.errors import SourceUnusable

_CHUNK = 1 << 18
#: The maximum length of one row, or of one statement without rows, in characters.
_MAX_PENDING = 1 << 25
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
#: Libraries that read zstd: that of Python 3.14, and others with the same function ``open``.
_ZSTD_LIBRARIES = ("compression.zstd", "backports.zstd", "zstandard")

_STRING = r"'(?:[^'\\]++|\\.|'')*+'|\"(?:[^\"\\]++|\\.|\"\")*+\""
_NAME = r"(?:`(?:[^`]|``)++`|[\w$]++)"
_COMMENT = r"--(?=[ \t\r\n])[^\n]*+|\#[^\n]*+|/\*.*?\*/"
_FLAGS = re.S | re.X | re.I
#: White space and comments before the next statement; a character that could begin a comment must begin one.
_BLANK = re.compile(rf"(?:\s++|;|{_COMMENT})*+(?=[^\s;\#/\-])", _FLAGS)
_END = re.compile(rf"(?:\s++|;|{_COMMENT})*+\Z", _FLAGS)
_WORD = re.compile(r"[a-z]++", _FLAGS)
#: The complete tokens of a statement to skip; the meaning of a character may depend on what follows it.
_PIECES = re.compile(
    rf"(?:[^;'\"`/\#\-]++|{_STRING}|`[^`]*+`|--(?=[ \t\r\n])[^\n]*+\n|\#[^\n]*+\n|/\*.*?\*/|/(?=[^*])"
    r"|-(?=[^-])|--(?=[^ \t\r\n]))*+",
    _FLAGS,
)
_STATEMENT = re.compile(
    rf"(?:[^;'\"`/\#\-]++|{_STRING}|`[^`]*+`|{_COMMENT}|/(?!\*)|-(?!-[ \t\r\n]))*+;", _FLAGS
)
_DELIMITED = re.compile(r"DELIMITER[ \t]++(?:;[ \t\r]*+\n|.*?\nDELIMITER[ \t]++;[ \t\r]*+\n)", _FLAGS)
_CREATE_TABLE = re.compile(
    rf"CREATE\s++(?:TEMPORARY\s++)?TABLE\s++(?:IF\s++NOT\s++EXISTS\s++)?(?:{_NAME}\.)?({_NAME})\s*+\(", _FLAGS
)
_COLUMN = re.compile(r"^\s*+`((?:[^`]|``)++)`", re.M)
_INSERT = re.compile(
    rf"""(?:INSERT|REPLACE)\s++(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE)\s++)*+(?:INTO\s++)?+
         (?:{_NAME}\.)?({_NAME})\s*+(?=[(a-z])""",
    _FLAGS,
)
_BEFORE_ROWS = re.compile(r"(?:\(([^)]*+)\)\s*+)?VALUES?(?=\W)\s*+", _FLAGS)
_COLUMN_NAME = re.compile(_NAME)
_VALUE = rf"(?:(?:_[a-z0-9]++\s*+)?(?:{_STRING})|[xX]'[0-9a-fA-F]*+'|[\w.+\-]++)"
_ROW = re.compile(rf"\(\s*+({_VALUE}(?:\s*+,\s*+{_VALUE})*+)\s*+\)", re.S)
_AFTER_ROW = re.compile(r"\s*+([,;])\s*+", re.S)
#: A string in single or double quotes, hexadecimal digits, or a word.
_VALUES = re.compile(
    r"(?:_[a-z0-9]++\s*+)?(?:'((?:[^'\\]++|\\.|'')*+)'|\"((?:[^\"\\]++|\\.|\"\")*+)\")"
    r"|(?:0x([0-9a-fA-F]*+)|[xX]'([0-9a-fA-F]*+)')|([\w.+\-]++)",
    re.S,
)
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.S)
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}
#: The words that begin statements in dumps.
_STATEMENTS = frozenset(
    "ALTER ANALYZE BEGIN CALL CHANGE COMMIT CREATE DEALLOCATE DELETE DELIMITER DROP EXECUTE FLUSH GRANT "
    "INSERT LOCK PREPARE RENAME REPLACE ROLLBACK SELECT SET START TRUNCATE UNLOCK UPDATE USE".split()
)

#: A value: a text, also for numbers and binary columns, or None for NULL.
Value = str | None


class Row(NamedTuple):
    """A row of a table, by column; ``line`` is its first line in the file, 0 without a file."""

    table: str
    line: int
    values: dict[str, Value]


class RowSource(Protocol):
    """The tables of a shop; ``name`` identifies it in messages."""

    name: str

    def rows(self, is_wanted: Callable[[str], bool]) -> Iterator[Row]:
        """Yield the rows of the tables whose names are wanted. Texts that are not UTF-8 have U+FFFD in them.
        Raises ``SourceUnusable``.
        """


class DumpFile:
    """A mysqldump file; the path - is standard input."""

    def __init__(self, path: Path) -> None:
        self._path, self._is_input = path, str(path) == "-"
        self.name = "standard input" if self._is_input else path.name

    def rows(self, is_wanted: Callable[[str], bool]) -> Iterator[Row]:
        """Yield the rows of the tables whose names are wanted. Invalid UTF-8 is replaced by U+FFFD.

        Raises ``SourceUnusable`` for a file that is not a dump, is damaged or truncated, and ``OSError`` for
        a file that cannot be read.
        """
        with sys.stdin.buffer if self._is_input else self._path.open("rb") as file:
            binary = _decompress(cast(io.BufferedReader, file), self.name)
            with io.TextIOWrapper(binary, encoding="utf-8-sig", errors="replace", newline="") as text:
                yield from _Dump(text, self.name).rows(is_wanted)


def _decompress(file: io.BufferedReader, name: str) -> BinaryIO:
    """Decompress the file according to its first bytes."""
    magic = file.peek(4)[:4]
    if magic.startswith(_UTF_16):
        raise SourceUnusable(
            f"{name} is UTF-16 text, as PowerShell's > writes it. Make the dump with "
            "`mysqldump --result-file=FILE`."
        )
    if magic.startswith(_GZIP):
        return cast(BinaryIO, gzip.open(file, "rb"))
    return _open_zstd(file, name) if magic == _ZSTD else file


def _open_zstd(file: BinaryIO, name: str) -> BinaryIO:
    for module in _ZSTD_LIBRARIES:
        try:
            library = importlib.import_module(module)
        except ImportError:
            continue
        return cast(BinaryIO, library.open(file, "rb"))
    raise SourceUnusable(
        f"{name} is compressed with zstd, which this Python cannot read. Decompress it with `zstd -d {name}`."
    )


class _Dump:
    """A parser of a dump's text, which is read in chunks; ``line`` is the current line."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name
        self._text, self._at, self._is_read = "", 0, False
        self._columns: dict[str, list[str]] = {}
        self._has_header = self._has_footer = False
        self.line = 1

    def rows(self, is_wanted: Callable[[str], bool]) -> Iterator[Row]:
        """Yield the rows of the wanted tables."""
        while word := self._next_word():
            if word not in _STATEMENTS:
                raise self._error(f"“{word[:20]}” does not start a statement of a database dump")
            if word in ("INSERT", "REPLACE"):
                yield from self._insert(is_wanted)
            elif word == "DELIMITER":
                self._take(_DELIMITED, "the file ends between two DELIMITER lines")
            elif word == "CREATE":
                self._create()
            else:
                self._skip_statement()
        if self._has_header and not self._has_footer:
            raise self._error("the dump is incomplete: its last line, “Dump completed”, is missing")

    def _next_word(self) -> str:
        """The first word of the next statement; "" at the end."""
        blank = self._find(_BLANK) or self._match(_END, "this is not a database dump")
        self._pass(blank)
        self._has_header |= "-- MySQL dump" in blank[0] or "-- MariaDB dump" in blank[0]
        self._has_footer |= "-- Dump completed" in blank[0]
        if self._at == len(self._text):
            return ""
        return self._match(_WORD, "this is not a database dump")[0].upper()

    def _create(self) -> None:
        body = self._take(_STATEMENT, "the file ends in the middle of a statement")[0]
        table = _CREATE_TABLE.match(body)
        if table is not None:
            self._columns[_unquote(table[1])] = [one.replace("``", "`") for one in _COLUMN.findall(body)]

    def _skip_statement(self) -> None:
        while True:
            self._pass(cast(re.Match[str], _PIECES.match(self._text, self._at)))
            if self._text[self._at : self._at + 1] == ";":
                return
            if not self._fill():
                raise self._error("the file ends in the middle of a statement")

    def _insert(self, is_wanted: Callable[[str], bool]) -> Iterator[Row]:
        problem = "this INSERT does not have the format of mysqldump"
        table = _unquote(self._take(_INSERT, problem)[1])
        if not is_wanted(table):
            self._skip_statement()
            return
        names = self._names(table, self._take(_BEFORE_ROWS, problem)[1])
        after = ","
        while after == ",":
            line = self.line
            row = self._take(_ROW, f"a row of {table} cannot be read, or the file ends within it")
            yield Row(table, line, self._to_values(table, line, names, row[1]))
            after = self._take(_AFTER_ROW, f"after a row of {table}, a comma or a semicolon is missing")[1]

    def _names(self, table: str, columns: str | None) -> Sequence[str]:
        if columns is not None:
            return [_unquote(one) for one in _COLUMN_NAME.findall(columns)]
        if not self._columns.get(table):
            raise self._error(f"the columns of {table} are unknown: the dump needs its CREATE TABLE")
        return self._columns[table]

    def _to_values(self, table: str, line: int, names: Sequence[str], row: str) -> dict[str, Value]:
        values = [_to_value(*found) for found in _VALUES.findall(row)]
        if len(values) != len(names):
            self.line = line
            raise self._error(
                f"a row of {table} has {len(values)} values, but the table has {len(names)} columns"
            )
        return dict(zip(names, values, strict=True))

    # --- the text ---------------------------------------------------------------------------------

    def _take(self, pattern: re.Pattern[str], problem: str) -> re.Match[str]:
        """Match at the current position, and move it to the end of the match."""
        match = self._match(pattern, problem)
        self._pass(match)
        return match

    def _pass(self, match: re.Match[str]) -> None:
        self.line += match[0].count("\n")
        self._at = match.end()

    def _match(self, pattern: re.Pattern[str], problem: str) -> re.Match[str]:
        match = self._find(pattern)
        if match is None:
            raise self._error(problem)
        return match

    def _find(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match at the current position; read more while further text could change the match."""
        while True:
            match = pattern.match(self._text, self._at)
            if match is not None and match.end() < len(self._text):
                return match
            if not self._fill():
                return match

    def _fill(self) -> bool:
        """Read a chunk, at least as much as is pending; return False at the end."""
        pending = len(self._text) - self._at
        if self._is_read or pending > _MAX_PENDING:
            return False
        try:
            more = self._stream.read(max(_CHUNK, pending))
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise self._error("the compressed file is damaged or truncated from here on") from problem
        if not more:
            self._is_read = True
            return False
        self._text, self._at = self._text[self._at :] + more, 0
        return True

    def _error(self, problem: str) -> SourceUnusable:
        return SourceUnusable(f"{self._name}, line {self.line}: {problem}. Nothing was imported.")


def _unquote(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _to_value(single: str, double: str, hexadecimal: str, quoted_hex: str, word: str) -> Value:
    if word:
        return None if word.upper() == "NULL" else word
    if hexadecimal or quoted_hex:
        return bytes.fromhex(hexadecimal or quoted_hex).decode(errors="replace")
    text = single or double
    return _ESCAPE.sub(_unescape, text) if "\\" in text or "''" in text or '""' in text else text


def _unescape(escape: re.Match[str]) -> str:
    character = escape[1]
    return escape[0][0] if character is None else _ESCAPED.get(character, character)
