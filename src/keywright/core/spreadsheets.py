"""Cells of CSV files that spreadsheets open."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

#: A place where a spreadsheet may begin a cell: at the beginning of a text, and where a program with another
#: separator (semicolons, in many countries) or without quotes would split it
#: (https://owasp.org/www-community/attacks/CSV_Injection).
_BEGIN = r'(^|[;,\t\r\n]"*)'
#: The beginning of a formula, also after apostrophes: so no two texts make the same cell.
_FORMULA = r"(?='*[=+\-@\t\r])"
_ESCAPE, _UNESCAPE = re.compile(_BEGIN + _FORMULA), re.compile(_BEGIN + "'" + _FORMULA)


def escape_formulas(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula, whatever its separator: with an apostrophe
    at each place where a formula could begin. All other texts stay as they are.
    """
    return _ESCAPE.sub(r"\1'", text)


def unescape_formulas(cell: str) -> str:
    """The text that ``escape_formulas`` made this cell from."""
    return _UNESCAPE.sub(r"\1", cell) if "'" in cell else cell


def csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    """Lines of CSV (RFC 4180) in UTF-8."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def time_cell(moment: datetime | None) -> str | None:
    """ISO 8601, in UTC."""
    return None if moment is None else f"{moment.isoformat()[:19]}Z"
