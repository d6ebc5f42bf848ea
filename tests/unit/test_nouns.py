"""The fields of nouns, as forms and the terminal read them."""

import pytest

from keywright.core.command import Context
from keywright.core.nouns import differing, list_members
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.policies.model import NewKeyFormat
from keywright.provisioning.products import PRODUCT, Feature, NewProduct
from tests.makers import LATER, NOW, an_origin
from tests.tables import each_row

MEMBERS = {one.name: one for struct in (NewProduct, NewKeyFormat) for one in list_members(struct)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("name", "  Paint ", "Paint"),
        ("id", "17", 17),
        ("metadata", '{"sku": 1}', {"sku": 1}),
        ("url", "http://a.test", "http://a.test"),
        ("features", "a = A\n\n b", [Feature("a", "A"), Feature("b")]),
        ("features", "\n".join(f"f{one}" for one in range(100)), [Feature(f"f{one}") for one in range(100)]),
        ("channels", "beta\nalpha", ["beta", "alpha"]),
    ],
)
def test_a_member_is_read_from_a_text(name: str, text: str, value: object) -> None:
    assert MEMBERS[name].read(text) == value


@each_row(
    ("name", "text", "reason"),
    [
        ("url", "https://example.com/" + "x" * 2000, "must have at most 2000 characters"),
        ("id", "0", "must be an integer from 1 to 9007199254740991"),
        ("id", "x", "must be an integer from 0 to"),
        ("features", "a\na = A", "must have each code once; a appears twice"),
        ("features", "\n".join(f"f{one}" for one in range(101)), "must have at most 100 features"),
        ("channels", "beta\nstable", "must not be stable, which every product has"),
        ("channels", "beta\nbeta", "must not have duplicates"),
        ("metadata", "[1]", "must be a JSON object"),
        ("charset", "", "must not be empty"),
    ],
)
def test_a_wrong_text_is_refused_with_a_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        MEMBERS[name].read(text)


def test_a_list_is_written_as_it_is_read() -> None:
    features = MEMBERS["features"]
    assert features.write(features.read("a = A\nb")) == "a = A\nb"
    assert features.write(None) == MEMBERS["name"].write(None) == ""
    assert str(Feature("a", "A")) == "a"


def test_a_feature_keeps_its_description() -> None:
    features = [Feature("a", "A", "The first.")]
    assert MEMBERS["features"].finish(features) == features


def test_a_customer_who_is_restored_keeps_what_they_asked_for() -> None:
    create = CreateCustomer(
        context=Context(NOW, an_origin()),
        fields=NewCustomer(),
        erasure_requested_at=NOW,
        unsubscribed_at=LATER,
    )
    assert create.restored() == {"erasure_requested_at": NOW, "unsubscribed_at": LATER}


def test_one_and_true_are_different_values() -> None:
    one = PRODUCT.make(id=1, name="Paint", metadata={"a": 1}, created_at=NOW, updated_at=NOW)
    other = PRODUCT.make(id=1, name="Paint", metadata={"a": True}, created_at=NOW, updated_at=NOW)
    assert differing(one, other) == ["metadata"]
