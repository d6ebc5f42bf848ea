"""The tables of docs/reference/v3.md that are written by hand say what the code says."""

import json
import re
from collections.abc import Iterator

import msgspec
import pytest

from keywright.core.errors import InvalidTerms
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import merge_terms
from keywright.licensing.validation import Code, Findings
from tests.docs.test_documents import ROOT

PAGE = (ROOT / "docs" / "reference" / "v3.md").read_text()
RANGE = re.compile(r"([\d,]+)–([\d,]+)")


def rows(name: str) -> Iterator[list[str]]:
    """Yield the cells of the table between these marks."""
    _, _, rest = PAGE.partition(f"<!-- {name} -->\n")
    table, _, _ = rest.partition(f"\n<!-- /{name} -->")
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_finding_is_there_in_its_order_and_says_whether_it_blocks() -> None:
    written = [(code.strip("`"), blocks == "yes") for _, code, blocks, _ in rows("validation codes")]
    assert written == [(str(code), not Findings((code,), "").is_valid) for code in Code]


def test_ranks_only_rise() -> None:
    ranks = [int(rank) for rank, *_ in rows("validation codes")]
    assert ranks == sorted(ranks)
    assert ranks[-1] == 12


def test_every_term_is_there_with_its_default() -> None:
    written = {name.strip("`"): json.loads(default.strip("`")) for name, default, *_ in rows("terms")}
    assert list(written) == list(Terms.__struct_fields__)
    assert written == json.loads(msgspec.json.encode(Terms()))


LIMITS = [(name.strip("`"), *found.groups()) for name, _, values, _ in rows("terms")
          if (found := RANGE.fullmatch(values))]  # fmt: skip


@pytest.mark.parametrize(("name", "least", "most"), LIMITS)
def test_a_number_has_the_bounds_that_are_written(name: str, least: str, most: str) -> None:
    lowest, highest = (int(one.replace(",", "")) for one in (least, most))
    for value in (lowest, highest):
        assert getattr(merge_terms(Terms(), {name: value}), name) == value
    for value in (lowest - 1, highest + 1):
        with pytest.raises(InvalidTerms):
            merge_terms(Terms(), {name: value})
