"""The shared test vectors are up to date, and the Python client agrees with all of them."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clients.vectors.make import FOLDER, build_files
from keywright_client.errors import REASONS, VerificationError
from keywright_client.status import STATES, is_verdict, state_of
from keywright_client.verify import Trust, follow_key_sets, verify
from tests.vectors import CASES

EXPECTED = ("product", "license_key", "fingerprint", "nonce", "operation", "issuer", "built_at")

#: Errors about downloaded files, which ``tests/clients`` covers.
OF_FILES = {"name", "url", "size", "sha256", "file_signature"}


def judge(case: dict[str, Any]) -> tuple[str, bool | None, str | None]:
    """Return the library's result for a case, its claim ``valid``, and the state."""
    text = case["text"]
    if case["pad_to"] is not None:
        text += " " * (case["pad_to"] - len(text.encode()))
    trust = follow_key_sets(Trust(tuple(case["public_keys"])), case["key_sets"], case["now"])
    try:
        expected = {name: case[name] for name in EXPECTED}
        expected["body"] = None if case["body"] is None else case["body"].encode()
        claims = verify(text, public_keys=trust.keys, now=case["now"], **expected)
    except VerificationError as error:
        return error.code, None, None
    assert is_verdict(claims) == (case["state"] != "no_lease")
    return "ok", claims["valid"], state_of(claims)


def test_the_files_are_what_the_script_makes() -> None:
    assert {
        path.name: path.read_text(encoding="utf-8") for path in Path(FOLDER).glob("*.json")
    } == build_files()


def test_every_rule_has_cases() -> None:
    results = Counter(case["result"] for case in CASES)
    assert results.keys() == {"ok", *REASONS} - OF_FILES
    assert len(CASES) > 180
    # The other states do not come from a server's answer.
    of_answers = "valid grace expired disabled not_activated limit_reached no_lease".split()
    assert {case["state"] for case in CASES} == {None, *of_answers}
    assert set(of_answers) <= set(STATES)
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("library", ["cryptography", "Python alone"])
def test_the_verifier_agrees_with_every_case(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if library == "Python alone":
        monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    judged = {case["name"]: (judge(case), (case["result"], case["valid"], case["state"])) for case in CASES}
    assert {name: found for name, (found, wanted) in judged.items() if found != wanted} == {}
