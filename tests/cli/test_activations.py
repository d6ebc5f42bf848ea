"""``keywright activation …``"""

import pytest

from tests.cli.conftest import Keywright

DATABASES = ("sqlite",)


@pytest.fixture
def two(used: Keywright) -> Keywright:
    """A license with two of three places taken."""
    used("license", "activate", "A", "--label", "Laptop")
    return used


def test_activations_are_listed_the_newest_first(two: Keywright) -> None:
    listed = two.json("activation", "list", "A")
    assert [(one["id"], one["name"], one["is_active"]) for one in listed] == [
        (2, "Laptop", True),
        (1, None, True),
    ]
    table = two("activation", "list", "A")
    assert "Laptop" in table
    assert "127.0.0.1" in table


@pytest.mark.smoke
def test_an_activation_is_released_and_its_record_stays(two: Keywright) -> None:
    assert "Activation 2 has given up its place." in two("activation", "release", "A", "2")
    assert [one["id"] for one in two.json("activation", "list", "A", "--active")] == [1]
    assert [one["is_active"] for one in two.json("activation", "list", "A")] == [False, True]
    assert "no activation 7" in two.refused("activation", "release", "A", "7")


def test_every_place_is_released(two: Keywright) -> None:
    assert "either" in two.refused("activation", "release", "A", status=2)
    assert "either" in two.refused("activation", "release", "A", "1", "--all", status=2)
    assert "Given up: 2 places." in two("activation", "release", "A", "--all")
    assert two.json("activation", "list", "A", "--active") == []
    assert "Given up: 0 places." in two("activation", "release", "A", "--all")
