"""What makes a signed answer good: the rules that clients/vectors holds cases for, in their order."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

MAX_BYTES = 65_536
#: In seconds: how far a server's clock may be ahead of ours.
TOLERANCE = 300
LICENSE_TYP, KEYS_TYP = "keywright-license+jwt", "keywright-keys+jwt"
_BEGIN, _END = "-----BEGIN KEYWRIGHT LICENSE-----", "-----END KEYWRIGHT LICENSE-----"


class VerificationError(ValueError):
    """This answer or file must not be believed. ``code`` says why; it is one of ``REASONS``."""

    def __init__(self, code: str) -> None:
        super().__init__(REASONS[code])
        self.code = code


REASONS = {
    "too_large": "It is larger than 64 KiB.",
    "armour": "The last line of the license file is missing.",
    "not_three_parts": "It is no signed answer: it does not have three parts.",
    "header": "No key that this program trusts has signed it, or it is no license.",
    "base64url": "It is not written as a signed answer is: it was altered or damaged.",
    "signature": "The signature does not hold: it was altered, or made by somebody else.",
    "payload": "It is signed, and is no license.",
    "issuer": "It comes from another Keywright server.",
    "audience": "It is for another product.",
    "not_yet_valid": "It begins in the future: this computer's clock may be behind.",
    "expired": "It has ended.",
    "device": "It is for another device.",
    "license_key": "It is for another license key.",
    "nonce": "It answers another question.",
}


def verify(
    text: str,
    *,
    public_keys: Sequence[str],
    now: float,
    product: str | None = None,
    license_key: str | None = None,
    fingerprint: str | None = None,
    nonce: str | None = None,
    issuer: str | None = None,
) -> dict[str, Any]:
    """The claims of a signed answer or of a license file.

    ``public_keys`` are base64url of 32 bytes each. What is None is not compared. An answer that says no
    (``valid`` is false) may lack license and device. Raises VerificationError.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise VerificationError("too_large")
    claims = _open(_unarmour(text), LICENSE_TYP, public_keys)
    if not all(_is_integer(claims.get(name)) for name in ("iat", "nbf", "exp")):
        raise VerificationError("payload")
    if not isinstance(claims.get("valid"), bool):
        raise VerificationError("payload")
    _require(issuer is None or claims.get("iss") == issuer, "issuer")
    _require(product is None or claims.get("aud") == product, "audience")
    _require(claims["nbf"] <= now + TOLERANCE, "not_yet_valid")
    _require(now < claims["exp"], "expired")
    _require(fingerprint is None or _fits(claims, "activation", "fingerprint", fingerprint), "device")
    _require(
        license_key is None or _fits(claims, "license", "key_hash", key_hash(license_key)), "license_key"
    )
    _require(nonce is None or claims.get("nonce") == nonce, "nonce")
    return claims


def follow_key_sets(
    public_keys: Sequence[str], key_sets: Iterable[str], now: float, since: float = float("-inf")
) -> tuple[list[str], float]:
    """The keys to trust, and the ``iat`` of the set that names them.

    The newest set that a trusted key has signed takes their place, again and again. ``since`` is the ``iat``
    of the set that named ``public_keys``. A set that does not verify changes nothing.
    """
    trusted, left = list(public_keys), [text for text in key_sets if len(text) <= MAX_BYTES]
    while True:
        good = [found for text in left for found in _open_key_set(text, trusted, now) if found[0] >= since]
        if not good:
            return trusted, since
        since, trusted, used = max(good, key=lambda found: found[0])
        left.remove(used)


def key_hash(license_key: str) -> str:
    """What a signed answer says in place of the license key."""
    return _encode(hashlib.sha256(b"keywright-license-key:" + license_key.encode(errors="replace")).digest())


def key_id(public_key: str) -> str:
    """The ``kid`` of a public key: its RFC 7638 thumbprint. Raises ValueError for what is no public key."""
    try:
        is_key = len(_decode(public_key)) == 32
    except VerificationError:
        is_key = False
    if not is_key:
        raise ValueError("A public key is base64url of 32 bytes, without padding.")
    return _encode(hashlib.sha256(b'{"crv":"Ed25519","kty":"OKP","x":"%s"}' % public_key.encode()).digest())


def _open(token: str, typ: str, public_keys: Sequence[str]) -> dict[str, Any]:
    """The payload of a JWS, once its signature holds. The token brings no key; it only chooses one."""
    parts = token.split(".")
    _require(len(parts) == 3, "not_three_parts")
    key = _expected_headers(typ, public_keys).get(parts[0])
    if key is None:
        raise VerificationError("header")
    payload, signature = _decode(parts[1]), _decode(parts[2])
    _require(_is_signed(key, f"{parts[0]}.{parts[1]}".encode(), signature), "signature")
    try:
        claims = json.loads(payload.decode())
    except (ValueError, RecursionError):
        raise VerificationError("payload") from None
    if not isinstance(claims, dict):
        raise VerificationError("payload")
    return claims


def _open_key_set(text: str, trusted: Sequence[str], now: float) -> list[tuple[float, list[str], str]]:
    """A good set as its moment, its keys and its text; nothing for any other."""
    try:
        claims = _open(text, KEYS_TYP, trusted)
    except VerificationError:
        return []
    iat, exp, jwks = claims.get("iat"), claims.get("exp"), claims.get("keys")
    if iat is None or exp is None or not (_is_integer(iat) and _is_integer(exp) and now < exp):
        return []
    if not isinstance(jwks, list):
        return []
    keys = [jwk["x"] for jwk in jwks if _is_ed25519(jwk)]
    return [(iat, keys, text)] if keys else []


def _is_ed25519(jwk: Any) -> bool:
    if not (isinstance(jwk, dict) and jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519"):
        return False
    try:
        return bool(key_id(jwk.get("x", "")))
    except (ValueError, TypeError, AttributeError):
        return False


def _expected_headers(typ: str, public_keys: Sequence[str]) -> dict[str, bytes]:
    """Each header that is accepted, as it stands in the token, with its key."""
    return {
        _encode(f'{{"alg":"{alg}","kid":"{key_id(x)}","typ":"{typ}"}}'.encode()): _decode(x)
        for x in public_keys
        for alg in ("EdDSA", "Ed25519")
    }


def _is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        from . import _ed25519

        return _ed25519.is_valid(public_key, message, signature)
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _unarmour(text: str) -> str:
    """The token within a license file; without armour, the text without white space around it."""
    lines = [line.rstrip(" \t\r") for line in text.lstrip("\ufeff").split("\n")]
    if _BEGIN not in lines:
        return text.strip(" \t\r\n")
    body = lines[lines.index(_BEGIN) + 1 :]
    _require(_END in body, "armour")
    return "".join(body[: body.index(_END)])


def _fits(claims: dict[str, Any], claim: str, member: str, expected: str) -> bool:
    """Whether it is for this device or key. Only an answer that says no may leave open for which it is."""
    found = claims.get(claim)
    if found is None:
        return claims["valid"] is False
    return isinstance(found, dict) and found.get(member) == expected


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(condition: bool, code: str) -> None:
    if not condition:
        raise VerificationError(code)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """The bytes of base64url in its one form: no padding, unused bits 0, no other character."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise VerificationError("base64url") from None
    _require(_encode(data) == text, "base64url")
    return data
