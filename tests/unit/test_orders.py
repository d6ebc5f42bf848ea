"""Orders of licenses: their details, their number over v2, and the lines that are sold once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keywright.core.parsing import MAX_ID
from keywright.licensing.licenses.model import Order, order_fields, order_line_hash, order_of
from tests.makers import a_license
from tests.tables import each_row

TEXTS = st.none() | st.text(max_size=5) | st.integers(0, 2 * MAX_ID).map(str)
POLICIES = st.none() | st.integers(1, 3)
ORDERS = st.builds(Order, st.text(max_size=5), TEXTS, TEXTS, st.integers(0, 9), POLICIES)


@given(ORDERS)
def test_the_order_of_a_license_is_the_one_that_it_was_made_with(order: Order) -> None:
    fields: dict[str, Any] = order_fields(order)
    assert order_of(a_license(**fields)) == order


@each_row(
    ("order", "number", "has_details"),
    [
        (Order(), None, False),
        (Order(id="17"), 17, False),
        (Order(id=str(MAX_ID)), MAX_ID, False),
        (Order(id=str(MAX_ID + 1)), None, True),
        (Order(id="A-17"), None, True),
        (Order("shop", "17"), 17, True),
        (Order(id="17", line="1"), 17, True),
        (Order(id="17", index=1), 17, True),
    ],
)
def test_an_order_that_is_a_number_alone_needs_no_details(
    order: Order, number: int | None, has_details: bool
) -> None:
    fields = order_fields(order)
    assert (fields["order_id"], fields["order_details"] is not None) == (number, has_details)


def test_an_order_of_v2_is_its_number() -> None:
    assert order_of(a_license(order_id=17)) == Order(id="17")
    assert order_of(a_license()) == Order()
    assert order_of(a_license()) == Order("", None, None, 0, None)


@given(ORDERS, ORDERS)
def test_two_lines_have_two_hashes(one: Order, other: Order) -> None:
    if one.line is not None:
        assert (order_line_hash(one) == order_line_hash(other)) is (one == other)


def test_the_hash_of_a_line_is_the_one_that_databases_hold_already() -> None:
    lines = [Order("shop", "17", "1"), Order("shop", "17", "1", policy_id=3)]
    assert [(order_line_hash(one) or b"").hex()[:16] for one in lines] == [
        "068d6a7ec2a8e4c5",
        "eb793873f39bd4be",
    ]


def test_an_order_without_a_line_has_no_hash() -> None:
    assert order_line_hash(Order("shop", "17")) is None
    assert len(order_line_hash(Order("shop", "17", "1")) or b"") == 32


def test_of_a_bundle_the_licenses_of_one_line_have_hashes_of_their_own() -> None:
    lines = [Order("shop", "17", "1", 0, policy) for policy in (None, 1, 2)]
    assert len({order_line_hash(one) for one in lines}) == 3
