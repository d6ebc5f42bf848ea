"""Every parser keeps its promise for the seeds of its harness, and for what hypothesis makes of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Receive

from keywright.core import parsing as fields
from keywright.http.middleware import body, client_address
from tests.fuzzing.harnesses import ALL, BY_NAME, Harness
from tests.fuzzing.pieces import BREAK
from tests.proving import record

SHORT = 100


@pytest.mark.parametrize("name", BY_NAME)
def test_the_seeds_are_taken(name: str) -> None:
    for seed in BY_NAME[name].seeds:
        BY_NAME[name].check(seed)


@st.composite
def inputs(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """A seed, of which a part was replaced by other bytes, or by a part of another seed."""
    seed, other = draw(st.sampled_from(seeds)), draw(st.sampled_from(seeds))
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(seed))] * 2)))
    first, last = sorted(draw(st.tuples(*[st.integers(0, len(other))] * 2)))
    put_in = draw(
        st.binary(max_size=20) | st.text(max_size=9).map(lambda text: text.encode()) | st.just(BREAK)
    )
    return seed[:start] + draw(st.sampled_from([put_in, other[first:last]])) + seed[end:]


def tried(harness: Harness) -> None:
    """Raises what the harness raises."""

    @settings(max_examples=SHORT, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(inputs(harness.seeds) | st.binary(max_size=100))
    def check(data: bytes) -> None:
        harness.check(data)

    check()


def tried_with_seeds(harness: Harness) -> None:
    """The same, beginning with what is known to be difficult."""
    for seed in harness.seeds:
        harness.check(seed)
    tried(harness)


@pytest.mark.parametrize("name", BY_NAME)
def test_bytes_of_any_kind_are_taken(name: str) -> None:
    tried(BY_NAME[name])


def keeps_the_offset(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def believes_whoever_is_first(peer: str, forwarded_for: Sequence[bytes], _: object) -> str:
    return b",".join(forwarded_for).decode("latin-1").partition(",")[0] or peer


async def reads_the_first_part(_headers: Mapping[bytes, bytes], receive: Receive, *_: Any) -> bytes:
    return bytes((await receive())["body"])


@pytest.mark.parametrize(
    ("name", "module", "function", "wrong"),
    [
        ("moments", fields, "parse_time", keeps_the_offset),
        ("client_addresses", client_address, "client_address", believes_whoever_is_first),
        ("bodies", body, "read_body", reads_the_first_part),
    ],
)
def test_a_parser_that_breaks_its_promise_is_found_out(
    name: str, module: Any, function: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, function, wrong)
    with pytest.raises(AssertionError):
        tried_with_seeds(BY_NAME[name])
    record("R14", f"control: a parser that {wrong.__name__.replace('_', ' ')}", {"found": 1})


def test_the_long_form_tries_a_million_inputs() -> None:
    assert sum(one.runs for one in ALL) >= 1_000_000
    assert len(BY_NAME) == len(ALL)
