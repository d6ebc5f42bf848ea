"""Listing everything wrong in a body is cheap, whatever is sent."""

import json

import pytest

from keywright.core.errors import InvalidBody, UnknownParameters
from keywright.core.nouns import ListQuery
from keywright.core.parsing import parse_metadata
from keywright.http.v3.client_schemas import Validate
from keywright.http.v3.decoding import MAX_ERRORS, StructDecoder
from keywright.licensing.terms.rules import MAX_ENTITLEMENTS


@pytest.mark.parametrize(
    ("number", "pointer"),
    [(MAX_ENTITLEMENTS, f"/entitlements/{MAX_ENTITLEMENTS - 1}"), (MAX_ENTITLEMENTS + 1, "/entitlements")],
)
def test_the_items_of_a_list_that_is_too_long_are_not_looked_at(number: int, pointer: str) -> None:
    body = {"license_key": "KEY-1", "entitlements": ["a"] * (number - 1) + [1]}
    with pytest.raises(InvalidBody) as refused:
        StructDecoder(Validate).decode_json(json.dumps(body).encode())
    assert [one.pointer for one in refused.value.errors] == [pointer]


def test_so_many_unknown_or_repeated_parameters_are_named_and_no_more() -> None:
    decoder = StructDecoder(ListQuery)
    names = [f"limit{number}" for number in range(MAX_ERRORS + 1)]
    with pytest.raises(UnknownParameters) as unknown:
        decoder.decode_query("&".join(f"{one}=1" for one in names).encode(), is_closed=True)
    assert [one.pointer for one in unknown.value.errors] == names[:-1]
    with pytest.raises(InvalidBody) as repeated:
        decoder.decode_form("&".join(f"{one}=1&{one}=2" for one in names).encode())
    assert [one.pointer for one in repeated.value.errors] == [f"/{one}" for one in names[:-1]]


@pytest.mark.parametrize(("items", "reason"), [(10, "levels"), (20_000, "KiB")])
def test_the_levels_of_metadata_that_is_too_large_are_not_counted(items: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_metadata({"a": [[[[1]]]] * items})
