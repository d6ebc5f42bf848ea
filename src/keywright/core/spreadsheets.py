"""CSV files that spreadsheets open safely."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

#: The places where a spreadsheet may start a cell: the beginning of a text, and where a program with another
#: separator (semicolons, in many countries) or without quotes would split it
#: (https://owasp.org/www-community/attacks/CSV_Injection).
_BEGIN = r'(^|[;,\t\r\n]"*)'
#: The beginning of a formula, optionally after apostrophes, so that no two texts produce the same cell.
_FORMULA = r"(?='*[=+\-@\t\r])"
_ESCAPE, _UNESCAPE = re.compile(_BEGIN + _FORMULA), re.compile(_BEGIN + "'" + _FORMULA)


def escape_formulas(text: str) -> str:
    """Escape a text so that no spreadsheet treats a part of it as a formula, whatever its separator: adds an
    apostrophe wherever a formula could begin. All other texts are returned unchanged.
    """
    return _ESCAPE.sub(r"\1'", text)


def unescape_formulas(cell: str) -> str:
    """The text from which ``escape_formulas`` made this cell."""
    return _UNESCAPE.sub(r"\1", cell) if "'" in cell else cell


def csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    """Encode rows as CSV (RFC 4180) in UTF-8."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def time_cell(moment: datetime | None) -> str | None:
    """Format a time as ISO 8601 in UTC."""
    return None if moment is None else f"{moment.isoformat()[:19]}Z"
