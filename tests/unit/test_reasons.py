"""Reasons for invalid values, in the reader's language."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import keywright
from keywright.http.pages.error_messages import explain, find_sentence
from keywright.http.pages.formats import speaking
from keywright.languages import Language

SOURCES = Path(keywright.__file__).parent
#: The modules with the parsers of forms.
PARSERS = (
    "core/parsing.py",
    "http/admin/name_suggestions.py",
    "http/pages/forms.py",
    "provisioning/customers.py",
    "provisioning/products.py",
)


def reasons_in(path: Path) -> Iterator[str]:
    """List the texts of all ``ValueError``, with a number instead of each value."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ValueError":
            (text,) = node.args
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "1,234" for one in parts)


@pytest.mark.parametrize("path", PARSERS)
def test_what_a_parser_says_has_a_sentence_that_is_translated(path: str) -> None:
    reasons = list(reasons_in(SOURCES / path))
    assert reasons
    assert [one for one in reasons if find_sentence(f"It {one}.") is None] == []


def test_a_reason_has_numbers_as_the_language_writes_them_and_without_a_sentence_is_said_as_it_is() -> None:
    with speaking(Language("de")):
        assert "1.000" in explain("must be an integer from 0 to 1,000")
    assert explain("was never heard of") == "It was never heard of."
    assert explain("keys would have 300 characters; the maximum is 255", "The").startswith(
        "The keys would have 300"
    )
