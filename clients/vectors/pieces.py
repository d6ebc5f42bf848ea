"""What the cases are made from: keys of fixed seeds, which sign nothing else, and a good answer."""

import base64
import hashlib
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LICENSE_TYP, KEYS_TYP = "keywright-license+jwt", "keywright-keys+jwt"
#: The order of the group; S of a signature is below it (RFC 8032, 5.1.7).
L = 2**252 + 27742317777372353535851937790883648493
NOW = 1_800_000_000
BUILT_AT = "2026-11-22T08:54:00Z"
DAY = 86_400
LICENSE_KEY, FINGERPRINT, NONCE = (
    "EDTR-7QKX-M2VD-9RTA",
    "5f0c3a-the-device-of-the-tests",
    "bm9uY2Utb2YtdGhlLXRlc3Rz",
)
#: The call that the program made, and the body that it sent, byte for byte.
OPERATION = "validate"
BODY = f'{{"license_key":"{LICENSE_KEY}","fingerprint":"{FINGERPRINT}","product":"editor","nonce":"{NONCE}"}}'
ISSUER = "keywright:0c4b3f0a5d1e4f72"
BEGIN, END = "-----BEGIN KEYWRIGHT LICENSE-----", "-----END KEYWRIGHT LICENSE-----"

Case = dict[str, Any]


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of good base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def to_json(value: object) -> bytes:
    """JSON as the server writes it: UTF-8, no spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Key:
    """A signing key of the tests, made from its name."""

    def __init__(self, name: str) -> None:
        seed = hashlib.sha256(b"keywright test vectors: " + name.encode()).digest()
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.x = encode(self._private.public_key().public_bytes_raw())
        self.jwk = {"crv": "Ed25519", "kty": "OKP", "x": self.x}
        self.kid = encode(hashlib.sha256(to_json(self.jwk)).digest())

    def header(self, typ: str = LICENSE_TYP, alg: str = "EdDSA") -> bytes:
        return to_json({"alg": alg, "kid": self.kid, "typ": typ})

    def sign(self, payload: object, header: bytes | None = None) -> str:
        """A JWS; a payload of bytes is taken as it is."""
        body = payload if isinstance(payload, bytes) else to_json(payload)
        signed = f"{encode(self.header() if header is None else header)}.{encode(body)}"
        return f"{signed}.{encode(self.sign_bytes(signed.encode()))}"

    def sign_bytes(self, message: bytes) -> bytes:
        """An Ed25519 signature."""
        return self._private.sign(message)

    def key_set(self, *keys: "Key", iat: int = NOW - DAY, **others: Any) -> str:
        """A key set that this key signs."""
        jwks = [{**key.jwk, "kid": key.kid, "use": "sig"} for key in keys]
        payload = {"iss": ISSUER, "iat": iat, "exp": NOW + DAY, "keys": jwks, **others}
        return self.sign(payload, self.header(KEYS_TYP))


A, B, C, STRANGER = Key("A"), Key("B"), Key("C"), Key("stranger")


def key_hash(license_key: str) -> str:
    """The claim that binds an answer to its license key."""
    return encode(hashlib.sha256(b"keywright-license-key:" + license_key.encode()).digest())


def question(operation: str = OPERATION, body: str = BODY) -> str:
    """The claim ``asked``, which binds an answer to its question."""
    asked = f"keywright-question:{operation}\n{body}"
    return encode(hashlib.sha256(asked.encode()).digest())


def claims(*without: str, **changed: Any) -> dict[str, Any]:
    """Those of an ordinary good answer, but for these."""
    license_ = {
        "id": 17,
        "product": {"id": 4, "code": "editor", "name": "Editor – für alle"},
        "policy": {"id": 2, "name": "Pro"},
        "state": "valid",
        "expires_at": "2027-06-01T00:00:00Z",
        "grace_until": "2027-06-08T00:00:00Z",
        "max_activations": 3,
        "activations": 1,
        "max_leases": None,
        "usage": {},
        "metadata": {},
        "key_hash": key_hash(LICENSE_KEY),
    }
    answer = {
        "iss": ISSUER,
        "aud": "editor",
        "sub": "license:17",
        "jti": "AAECAwQFBgcICQoLDA0ODw",
        "iat": NOW - 60,
        "nbf": NOW - 360,
        "exp": NOW + 14 * DAY,
        "valid": True,
        "code": "valid",
        "codes": ["valid"],
        "license": license_,
        "activation": {"id": 5, "fingerprint": FINGERPRINT},
        "entitlements": ["export", "spell-check"],
        "nonce": NONCE,
        "next_check_at": "2027-01-16T08:00:00Z",
        "asked": question(),
    }
    return {name: value for name, value in {**answer, **changed}.items() if name not in without}


def refusal(code: str, *without: str, **changed: Any) -> dict[str, Any]:
    """The claims of an answer that says no."""
    return claims(*without, valid=False, code=code, codes=[code], exp=NOW + 300, entitlements=[], **changed)


def case(name: str, text: str, result: str = "ok", **changed: Any) -> Case:
    """A case with every member; those that are not named expect what ``claims()`` says."""
    expected: Case = {
        "name": name,
        "text": text,
        "pad_to": None,
        "public_keys": [A.x],
        "key_sets": [],
        "issuer": None,
        "product": "editor",
        "license_key": LICENSE_KEY,
        "fingerprint": FINGERPRINT,
        "built_at": None,
        "nonce": NONCE,
        "operation": OPERATION,
        "body": BODY,
        "now": NOW,
        "result": result,
        "valid": True if result == "ok" else None,
        "state": "valid" if result == "ok" else None,
    }
    assert changed.keys() <= expected.keys()
    return {**expected, **changed}


GOOD = A.sign(claims())
HEADER, PAYLOAD, SIGNATURE = GOOD.split(".")


def armour(token: str, end: str = "\n") -> str:
    """A license file."""
    lines = [token[at : at + 64] for at in range(0, len(token), 64)]
    return "".join(line + end for line in (BEGIN, *lines, END))
