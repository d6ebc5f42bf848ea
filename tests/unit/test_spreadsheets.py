"""No cell is interpreted as a formula by a spreadsheet, and all texts can be read back."""

from hypothesis import given
from hypothesis import strategies as st

from keywright.core.spreadsheets import escape_formulas, unescape_formulas
from tests.tables import each_row


@each_row("first", ["=", "+", "-", "@", "\t", "\r"])
def test_a_text_that_begins_like_a_formula_is_defused(first: str) -> None:
    assert escape_formulas(f"{first}x") == f"'{first}x"
    assert escape_formulas(f"x{first}") == f"x{first}"


@each_row(
    ("text", "shown"),
    [
        ("x;=1+1", "x;'=1+1"),
        ("x;+1;-1", "x;'+1;'-1"),
        ("x,@SUM(A1)", "x,'@SUM(A1)"),
        ("x\t=1", "x\t'=1"),
        ("x;\t=1", "x;'\t'=1"),
        ("x;\r1", "x;'\r1"),
        ("x\n=1", "x\n'=1"),
        ('x;"=1', "x;\"'=1"),
        ("=1;=1", "'=1;'=1"),
        (";;=1", ";;'=1"),
        # Other texts are not changed.
        *(
            (text, text)
            for text in ("AB-CD-EF", "a;b", "a, b", "Smith, -5 %", "a; =b", "1+1=2", "a@b.example")
        ),
        *((text, text) for text in ("a;'1", "x;", "x\ty", "é;🔑", "")),
    ],
)
def test_a_text_is_defused_wherever_a_spreadsheet_may_split_it(text: str, shown: str) -> None:
    assert escape_formulas(text) == shown


@given(st.text(alphabet="=+-@;,\t\r\n\"'x", max_size=12))
def test_every_text_is_read_back_from_its_cell(text: str) -> None:
    assert unescape_formulas(escape_formulas(text)) == text
    assert unescape_formulas("'a;'b 'c'") == "'a;'b 'c'", "a cell of another program"
