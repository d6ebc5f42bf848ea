"""What makes a signed answer good: the rules that clients/vectors holds cases for, in their order."""

from __future__ import annotations

import base64
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
    operation: str | None = None,
    body: bytes | None = None,
    issuer: str | None = None,
    built_at: str | None = None,
    is_place_needed: bool = True,
) -> dict[str, Any]:
    """The claims of a signed answer or of a license file. Raises VerificationError.

    ``public_keys`` are base64url of 32 bytes each; ``now`` is in seconds since 1970. What is None is not
    compared, but for ``built_at``: what is for one build fits no other. A no may lack license and device;
    without ``is_place_needed``, every answer may lack the device. Where a ``nonce`` was sent, ``operation``
    (the path below /v3/) and ``body`` are the question: a no need not name a license, and would fit another.
    """
    require(len(text.encode(errors="replace")) <= MAX_BYTES, "too_large")
    claims = open_token(unarmour(text), LICENSE_TYP, public_keys)
    # Not isinstance: true is no number.
    require(all(type(claims.get(name)) is int for name in ("iat", "nbf", "exp")), "payload")
    require(type(claims.get("valid")) is bool, "payload")
    require(issuer is None or claims.get("iss") == issuer, "issuer")
    require(product is None or claims.get("aud") == product, "audience")
    if now is not None:
        require_in_time(claims, now)
    is_no = not claims["valid"]
    may_lack = is_no or not is_place_needed
    require(
        fingerprint is None or _fits(claims, "activation", "fingerprint", fingerprint, may_lack), "device"
    )
    hashed = hashlib.sha256(f"keywright-license-key:{license_key}".encode(errors="replace")).digest()
    require(license_key is None or _fits(claims, "license", "key_hash", encode(hashed), is_no), "license_key")
    require(claims.get("built_at") in (None, built_at), "build")
    require(nonce is None or claims.get("nonce") == nonce, "nonce")
    asked = b"keywright-question:%b\n%b" % ((operation or "").encode(), body or b"")
    is_known = operation is not None and claims.get("asked") == encode(hashlib.sha256(asked).digest())
    require(nonce is None or is_known, "question")
    return claims


def require_in_time(claims: dict[str, Any], now: float) -> None:
    """Raises VerificationError before ``nbf``, less the tolerance, and from ``exp`` on."""
    require(claims["nbf"] <= now + TOLERANCE, "not_yet_valid")
    require(now < claims["exp"], "expired")


class Trust(NamedTuple):
    """The keys to believe; ``sets`` led to them from those pinned, and ``since`` is the last one's iat."""

    keys: tuple[str, ...]
    sets: tuple[str, ...] = ()
    since: float = float("-inf")


def follow_key_sets(trust: Trust, key_sets: Iterable[str], now: float) -> Trust:
    """The newest set that a trusted key has signed takes the place of the trusted keys, again and again.

    A set that does not verify changes nothing.
    """
    left = [text for text in key_sets if len(text) <= MAX_BYTES]
    while good := [found for text in left for found in _open_key_set(text, trust, now)]:
        trust = max(good, key=lambda found: found.since)
        left.remove(trust.sets[-1])
    return trust


def key_id(public_key: str) -> str:
    """The ``kid`` of a public key: its RFC 7638 thumbprint. Raises ValueError for what is no public key."""
    try:
        raw = decode(public_key)
    except VerificationError:
        raw = b""
    if len(raw) != 32:
        raise ValueError("A public key is base64url of 32 bytes, without padding.")
    return encode(hashlib.sha256(b'{"crv":"Ed25519","kty":"OKP","x":"%s"}' % public_key.encode()).digest())


def unarmour(text: str) -> str:
    """The token within a license file; without armour, the text without white space around it."""
    lines = [line.rstrip(" \t\r") for line in text.lstrip("\ufeff").split("\n")]
    if _BEGIN not in lines:
        return text.strip(" \t\r\n")
    body = lines[lines.index(_BEGIN) + 1 :]
    require(_END in body, "armour")
    return "".join(body[: body.index(_END)])


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of base64url in its one form: no padding, unused bits 0. Raises VerificationError."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:
        raise VerificationError("base64url") from None
    require(encode(data) == text, "base64url")
    return data


def open_token(token: str, typ: str, public_keys: Sequence[str]) -> dict[str, Any]:
    """The payload of a JWS, once its signature holds. The token brings no key; it only chooses one."""
    parts = token.split(".")
    require(len(parts) == 3, "not_three_parts")
    # A header is compared as it stands in the token, and never read.
    header = '{{"alg":"{}","kid":"{}","typ":"{}"}}'
    known = {x: [header.format(alg, key_id(x), typ) for alg in ("EdDSA", "Ed25519")] for x in public_keys}
    key = next((x for x in known if parts[0] in [encode(text.encode()) for text in known[x]]), "")
    require(bool(key), "header")
    payload, signature = decode(parts[1]), decode(parts[2])
    require(is_signed(decode(key), f"{parts[0]}.{parts[1]}".encode(), signature), "signature")
    try:
        claims = json.loads(payload.decode())
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise VerificationError("payload")
    return claims


def _open_key_set(text: str, trust: Trust, now: float) -> list[Trust]:
    """What a good set leads to; nothing for any other."""
    try:
        claims = open_token(text, KEYS_TYP, trust.keys)
        is_newer = now < claims["exp"] and claims["iat"] >= trust.since
        keys = tuple(jwk["x"] for jwk in claims["keys"] if _is_public_key(jwk))
    except (VerificationError, TypeError, KeyError):
        return []
    return [Trust(keys, (*trust.sets, text), claims["iat"])] if keys and is_newer else []


def _is_public_key(jwk: Any) -> bool:
    try:
        return jwk["kty"] == "OKP" and jwk["crv"] == "Ed25519" and bool(key_id(jwk["x"]))
    except (KeyError, ValueError, TypeError, AttributeError):
        return False


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether this key has made this Ed25519 signature."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        from ._ed25519 import is_valid

        return is_valid(public_key, message, signature)
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _fits(claims: dict[str, Any], claim: str, member: str, expected: str, may_lack: bool) -> bool:
    """Whether it is for this device or key, or may leave open for which it is."""
    found = claims.get(claim)
    return may_lack if found is None else isinstance(found, dict) and found.get(member) == expected


def require(condition: bool, code: str) -> None:
    """Raise VerificationError unless this holds."""
    if not condition:
        raise VerificationError(code)
