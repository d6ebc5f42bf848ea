"""What makes a signed answer good: the rules that clients/vectors holds cases for, in their order."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .errors import VerificationError

MAX_BYTES = 65_536
#: In seconds: how far a server's clock may be ahead of ours.
TOLERANCE = 300
LICENSE_TYP, KEYS_TYP = "keywright-license+jwt", "keywright-keys+jwt"
_BEGIN, _END = "-----BEGIN KEYWRIGHT LICENSE-----", "-----END KEYWRIGHT LICENSE-----"


def verify(
    text: str,
    *,
    public_keys: Sequence[str],
    now: float | None,
    product: str | None = None,
    license_key: str | None = None,
    fingerprint: str | None = None,
    nonce: str | None = None,
    issuer: str | None = None,
) -> dict[str, Any]:
    """The claims of a signed answer or of a license file.

    ``public_keys`` are base64url of 32 bytes each; ``now`` is in seconds since 1970. What is None is not
    compared. An answer that says no (``valid`` is false) may lack license and device.

    Raises VerificationError.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise VerificationError("too_large")
    claims = _open(unarmour(text), LICENSE_TYP, public_keys)
    if not all(_is_integer(claims.get(name)) for name in ("iat", "nbf", "exp")):
        raise VerificationError("payload")
    if not isinstance(claims.get("valid"), bool):
        raise VerificationError("payload")
    _require(issuer is None or claims.get("iss") == issuer, "issuer")
    _require(product is None or claims.get("aud") == product, "audience")
    if now is not None:
        require_in_time(claims, now)
    _require(fingerprint is None or _fits(claims, "activation", "fingerprint", fingerprint), "device")
    _require(
        license_key is None or _fits(claims, "license", "key_hash", key_hash(license_key)), "license_key"
    )
    _require(nonce is None or claims.get("nonce") == nonce, "nonce")
    return claims


def require_in_time(claims: dict[str, Any], now: float) -> None:
    """Raises VerificationError before ``nbf``, less the tolerance, and from ``exp`` on."""
    _require(claims["nbf"] <= now + TOLERANCE, "not_yet_valid")
    _require(now < claims["exp"], "expired")


class Trust(NamedTuple):
    """The keys to believe; ``sets`` led to them from those pinned, and ``since`` is the last set's iat."""

    keys: tuple[str, ...]
    sets: tuple[str, ...] = ()
    since: float = float("-inf")


def follow_key_sets(trust: Trust, key_sets: Iterable[str], now: float) -> Trust:
    """The newest set that a trusted key has signed takes the place of the trusted keys, again and again.

    A set that does not verify changes nothing.
    """
    left = [text for text in key_sets if len(text) <= MAX_BYTES]
    while True:
        good = [found for text in left for found in _open_key_set(text, trust, now)]
        if not good:
            return trust
        trust = max(good, key=lambda found: found.since)
        left.remove(trust.sets[-1])


def key_hash(license_key: str) -> str:
    """What a signed answer says in place of the license key."""
    return encode(hashlib.sha256(b"keywright-license-key:" + license_key.encode(errors="replace")).digest())


def key_id(public_key: str) -> str:
    """The ``kid`` of a public key: its RFC 7638 thumbprint. Raises ValueError for what is no public key."""
    try:
        is_key = len(decode(public_key)) == 32
    except VerificationError:
        is_key = False
    if not is_key:
        raise ValueError("A public key is base64url of 32 bytes, without padding.")
    return encode(hashlib.sha256(b'{"crv":"Ed25519","kty":"OKP","x":"%s"}' % public_key.encode()).digest())


def _open(token: str, typ: str, public_keys: Sequence[str]) -> dict[str, Any]:
    """The payload of a JWS, once its signature holds. The token brings no key; it only chooses one."""
    parts = token.split(".")
    _require(len(parts) == 3, "not_three_parts")
    key = _expected_headers(typ, public_keys).get(parts[0])
    if key is None:
        raise VerificationError("header")
    payload, signature = decode(parts[1]), decode(parts[2])
    _require(_is_signed(key, f"{parts[0]}.{parts[1]}".encode(), signature), "signature")
    try:
        claims = json.loads(payload.decode())
    except (ValueError, RecursionError):
        raise VerificationError("payload") from None
    if not isinstance(claims, dict):
        raise VerificationError("payload")
    return claims


def _open_key_set(text: str, trust: Trust, now: float) -> list[Trust]:
    """What a good set leads to; nothing for any other."""
    try:
        claims = _open(text, KEYS_TYP, trust.keys)
    except VerificationError:
        return []
    iat, exp, jwks = claims.get("iat"), claims.get("exp"), claims.get("keys")
    if iat is None or exp is None or not (_is_integer(iat) and _is_integer(exp) and isinstance(jwks, list)):
        return []
    keys = tuple(jwk["x"] for jwk in jwks if _is_ed25519(jwk))
    return [Trust(keys, (*trust.sets, text), iat)] if keys and now < exp and iat >= trust.since else []


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
        encode(f'{{"alg":"{alg}","kid":"{key_id(x)}","typ":"{typ}"}}'.encode()): decode(x)
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


def unarmour(text: str) -> str:
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


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of base64url in its one form: no padding, unused bits 0, no other character."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise VerificationError("base64url") from None
    _require(encode(data) == text, "base64url")
    return data
