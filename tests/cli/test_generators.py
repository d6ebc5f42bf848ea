"""``keywright generator …``: what each command does, prints and refuses."""

import json
import re

import pytest

from keywright.cli import output
from keywright.http.v2 import wire
from tests.cli.conftest import Keywright
from tests.makers import NOW


def test_a_generator_left_alone_makes_strong_keys(keywright: Keywright) -> None:
    made = keywright.json("generator", "create", "--name", "Standard")
    assert (made["chunks"], made["chunkLength"], made["separator"]) == (6, 5, "-")
    assert len(set(made["charset"])) == 32
    keys = keywright("generator", "generate", "1", "--amount", "20").splitlines()
    assert len(set(keys)) == 20
    assert all(re.fullmatch(r"([A-HJ-NP-Z2-9]{5}-){5}[A-HJ-NP-Z2-9]{5}", key) for key in keys)


def test_a_generator_has_what_was_said(keywright: Keywright) -> None:
    made = keywright.json(
        *("generator", "create", "--name", "Trial", "--charset", "ABCDEF0123456789"),
        *("--chunks", "4", "--chunk-length", "8", "--separator", "", "--prefix", "T-", "--suffix", "-X"),
        *("--max", "2", "--expires-in", "30"),
    )
    (key,) = keywright("generator", "generate", "1", "--amount", "1").splitlines()
    assert re.fullmatch(r"T-[0-9A-F]{32}-X", key)
    license = keywright.json("license", "show", key)
    assert (license["timesActivatedMax"], license["validFor"], license["source"]) == (2, 30, 1)
    assert made["separator"] is None


def test_a_generator_is_written_like_on_the_interface(keywright: Keywright) -> None:
    from keywright.provisioning.generators.model import Generator

    generator = Generator(1, "G", "AB", 3, 4, 5, "-", "p", "s", 6, NOW, 7, NOW, 8)
    expected = json.loads(wire.generator(generator))["data"]
    assert list(output.generator_json(generator).items()) == list(expected.items())
    made = keywright.json("generator", "create", "--name", "Standard")
    assert list(made) == list(expected)
    assert keywright.json("generator", "list") == [made]


def test_generators_are_listed_with_what_they_make(keywright: Keywright) -> None:
    assert keywright.json("generator", "list") == []
    said = keywright("generator", "create", "--name", "Standard", "--prefix", "STD-", "--chunks", "5")
    assert "keywright generator generate 1 --amount 10" in said
    assert "STD-XXXXX-XXXXX-XXXXX-XXXXX-XXXXX" in keywright("generator", "list")


def test_keys_that_could_be_guessed_are_refused_unless_forced(keywright: Keywright) -> None:
    weak = ("generator", "create", "--name", "Weak", "--chunks", "2", "--chunk-length", "5")
    said = keywright.refused(*weak)
    assert said.startswith("its keys could be guessed: they have 50 bits")
    assert "--force" in said
    assert keywright.json("generator", "list") == []
    keywright(*weak, "--force")


@pytest.mark.parametrize(
    "options",
    [
        ("--chunks", "0"),
        ("--chunk-length", "x"),
        ("--charset", ""),
        ("--charset", "A B"),
        ("--charset", "A\nB"),
        ("--prefix", " X"),
        ("--suffix", "X "),
        ("--separator", "x" * 256),
        ("--max", "x"),
        ("--expires-in", "-1"),
        ("--name", ""),
        ("--name", "x" * 201),
    ],
)
def test_what_a_generator_cannot_be_is_wrong_usage(options: tuple[str, str], keywright: Keywright) -> None:
    said = keywright.refused("generator", "create", "--name", "G", *options, status=2)
    assert f"'{options[0]}'" in said


def test_keys_that_would_be_too_long_are_refused(keywright: Keywright) -> None:
    said = keywright.refused("generator", "create", "--name", "Long", "--chunks", "100")
    assert "255 is the most" in said


def test_generated_licenses_get_what_the_options_say(keywright: Keywright) -> None:
    keywright("generator", "create", "--name", "Standard")
    made = keywright.json(
        *("generator", "generate", "1", "--amount", "2", "--status", "sold"),
        *("--product-id", "7", "--order-id", "8", "--customer-id", "9"),
    )
    assert [one["id"] for one in made] == [1, 2]
    for one in made:
        assert (one["status"], one["productId"], one["orderId"], one["userId"]) == (1, 7, 8, 9)
        assert "activationData" not in one
    keywright("generator", "generate", "1", "--amount", "1")
    assert keywright.json("license", "list")[-1]["status"] == 3


def test_a_generator_that_runs_out_makes_nothing(keywright: Keywright) -> None:
    few = ("--charset", "AB", "--chunks", "1", "--chunk-length", "2", "--force")
    keywright("generator", "create", "--name", "Few", *few)
    assert "cannot make that many" in keywright.refused("generator", "generate", "1", "--amount", "5")
    assert keywright.json("license", "list") == []


@pytest.mark.parametrize("amount", ["0", "10001", "x"])
def test_an_amount_is_from_one_to_ten_thousand(amount: str, keywright: Keywright) -> None:
    assert "'--amount'" in keywright.refused("generator", "generate", "1", "--amount", amount, status=2)


def test_deleting_a_generator_leaves_its_licenses(keywright: Keywright) -> None:
    keywright("generator", "create", "--name", "Standard")
    keywright("generator", "generate", "1", "--amount", "1")
    assert "Generator 1 is deleted." in keywright("generator", "delete", "1")
    assert keywright.json("generator", "list") == []
    assert len(keywright.json("license", "list")) == 1


def test_an_unknown_generator_is_refused(keywright: Keywright) -> None:
    for command in (("delete", "7"), ("generate", "7", "--amount", "1")):
        said = keywright.refused("generator", *command)
        assert said == "there is no generator 7. `keywright generator list` shows those there are."
