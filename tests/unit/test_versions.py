"""The order of versions in each scheme, and signatures of files."""

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keywright.core.file_signatures import is_signed_by, parse_public_key
from keywright.licensing.updates.versions import VersionScheme, version_key

ASCENDING = {
    VersionScheme.LOOSE: "1.0-dev 1.0-alpha 1.0a2 1.0-beta 1.0-beta1 1.0b2 1.0-rc1 1.0 1.0-p1 1.0.0.5 1.0.1 "
    "1.9 1.10 2 10.0.1.2 2026.11",
    VersionScheme.SEMVER: "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 "
    "1.0.0-rc.1 1.0.0 1.0.1 1.10.0",
    VersionScheme.PEP440: "1.0.dev1 1.0a1.dev1 1.0a1 1.0b1 1.0rc1 1.0 1.0+l 1.0.post1.dev2 "
    "1.0.post1 1.1 1!0.1",
}
EQUAL = {
    VersionScheme.LOOSE: ("v1.0+b4", "1", "1.0.0"),
    VersionScheme.SEMVER: ("1.0.0", "v1.0.0+build"),
    VersionScheme.PEP440: ("1.0", "v1.0.0", "1.0"),
}
UNKNOWN = {
    VersionScheme.LOOSE: ("", "new", "1 0", "1/2", "../1", "1" * 65, "1\n", "٣"),
    VersionScheme.SEMVER: ("1.0", "01.0.0", "1.0.0-", "1.0.0-01", "x"),
    VersionScheme.PEP440: ("1.0-x", "one", "1..0"),
}


def test_versions_are_in_the_order_of_their_scheme() -> None:
    wrong = []
    for scheme, text in ASCENDING.items():
        keys = [(version_key(scheme, one), one) for one in text.split()]
        wrong += [(scheme, a[1], b[1]) for i, a in enumerate(keys) for b in keys[i + 1 :] if not a[0] < b[0]]
    assert wrong == []
    for scheme, equal in EQUAL.items():
        assert len({version_key(scheme, one) for one in equal}) == 1, scheme
    for scheme, unknown in UNKNOWN.items():
        for one in unknown:
            with pytest.raises(ValueError, match="must be a"):
                version_key(scheme, one)


CONTENT = b"the bytes of a build"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
RAW = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
KEY_ID = b"12345678"


def encode(some: bytes) -> str:
    return base64.b64encode(some).decode()


MINISIGN_KEY = encode(b"Ed" + KEY_ID + RAW)


def minisign(content: bytes, *, comment: str = "version:3.2.1", key_id: bytes = KEY_ID) -> str:
    """A signature as minisign writes it by default: of the BLAKE2b of the bytes, with a trusted comment."""
    bare = KEY.sign(hashlib.blake2b(content).digest())
    return "\n".join(
        [
            "untrusted comment: signature from a test",
            encode(b"ED" + key_id + bare),
            f"trusted comment: {comment}",
            encode(KEY.sign(bare + comment.encode())),
            "",
        ]
    )


def test_a_signature_is_of_these_bytes_by_one_of_the_keys() -> None:
    key_file = f"untrusted comment: minisign public key\n{MINISIGN_KEY}\n"
    keys = [parse_public_key(one) for one in (encode(RAW), MINISIGN_KEY, key_file, encode(key_file.encode()))]
    assert keys == [encode(RAW), *[MINISIGN_KEY] * 3]
    good = minisign(CONTENT)
    bare = encode(KEY.sign(CONTENT))
    legacy = encode(b"Ed" + KEY_ID + KEY.sign(CONTENT))
    for signature in (bare, legacy, good, encode(good.encode())):
        assert all(is_signed_by([one], signature, CONTENT) for one in keys), signature
        assert not is_signed_by(keys, signature, CONTENT + b"!")
        assert not is_signed_by([], signature, CONTENT)
    other = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    assert not is_signed_by([encode(other.public_bytes(Encoding.Raw, PublicFormat.Raw))], good, CONTENT)
    forged = [
        good.replace("version:3.2.1", "version:9.9.9"),
        minisign(CONTENT, key_id=b"87654321"),
        good.rsplit("\n", 2)[0],
        "",
        "AAAA",
        "ä",
        encode(b"XX" + KEY_ID + bytes(64)),
    ]
    assert [one for one in forged if is_signed_by([MINISIGN_KEY], one, CONTENT)] == []


@pytest.mark.parametrize("text", ["", "AAAA", "ä", encode(bytes(33)), encode(b"XX" + bytes(40))])
def test_other_texts_are_no_public_keys(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_public_key(text)
