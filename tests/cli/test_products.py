"""``keywright product …``"""

import pytest

from tests.cli.conftest import Keywright

DATABASES = ("sqlite",)


@pytest.mark.smoke
def test_a_product_is_made_changed_and_deleted(keywright: Keywright) -> None:
    made = keywright.json(
        *("product", "create", "--name", "Paint Pro", "--id", "17", "--url", "https://example.com/paint"),
        *("--feature", "layers=Layers", "--feature", "export", "--metadata", '{"sku": "P-1"}'),
    )
    assert (made["id"], made["code"], made["name"]) == (17, "paint-pro", "Paint Pro")
    assert [(one["code"], one["name"]) for one in made["features"]] == [
        ("layers", "Layers"),
        ("export", None),
    ]
    assert (made["url"], made["metadata"]) == ("https://example.com/paint", {"sku": "P-1"})
    assert keywright.json("product", "show", "17") == made
    assert "Nothing to change" in keywright.refused("product", "update", "17", status=2)
    named = ("--name", "Paint", "--code", "paint", "--url", "none", "--feature", "none", "--metadata", "none")
    changed = keywright.json("product", "update", "17", *named)
    assert (changed["name"], changed["code"], changed["url"]) == ("Paint", "paint", None)
    assert (changed["features"], changed["metadata"]) == ([], {})
    assert "paint" in keywright("product", "show", "17")
    for option, value in (("--code", "17"), ("--url", "paint"), ("--feature", "Not A Code"), ("--name", "")):
        assert f"'{option}'" in keywright.refused("product", "update", "17", option, value, status=2)
    for option, value in (("--feature", "layers"), ("--channel", "beta")):
        for command in (("update", "17"), ("create", "--name", "Twice")):
            twice = (option, value, option, value)
            assert f"'{option}': must" in keywright.refused("product", *command, *twice, status=2)
    mixed = ("product", "update", "17", "--channel", "beta", "--channel", "none")
    assert "'--channel': give none alone" in keywright.refused(*mixed, status=2)
    assert "Product 17 deleted." in keywright("product", "delete", "17")
    assert keywright.refused("product", "show", "17").startswith("there is no product 17.")


def test_products_are_listed_by_their_numbers(keywright: Keywright) -> None:
    for number in ("9", "3", "5"):
        keywright("product", "create", "--name", f"P{number}", "--id", number)
    assert [one["id"] for one in keywright.json("product", "list")] == [3, 5, 9]
    assert [one["id"] for one in keywright.json("product", "list", "--limit", "2")] == [3, 5]
    said = keywright("product", "list", "--limit", "2")
    assert "P5" in said
    assert "P9" not in said
    assert "The first 2; --limit shows more." in said
    assert "--limit" not in keywright("product", "list")
