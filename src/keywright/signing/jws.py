"""JWS compact serialization (RFC 7515) with Ed25519 (RFC 8037, RFC 9864), deterministic byte for byte.

The header is constant for a key, an algorithm name and a type. So a verifier compares it as bytes, and parses
nothing that an attacker may have written before it has checked the signature.
"""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from keywright.signing.model import Jwk, TokenType

#: The names of the algorithm: RFC 8037's, which most libraries know, and RFC 9864's.
SignatureAlg = Literal["EdDSA", "Ed25519"]
SIGNATURE_ALGS: tuple[SignatureAlg, ...] = ("EdDSA", "Ed25519")
#: The largest token, in bytes.
MAX_TOKEN = 64 * 1024


def encode_base64url(raw: bytes) -> bytes:
    """Encode as base64url without padding."""
    return urlsafe_b64encode(raw).rstrip(b"=")


def decode_base64url(text: bytes) -> bytes:
    """Decode canonical base64url without padding. Raises ``ValueError`` for anything else."""
    try:
        raw = urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:
        raw = b""
    if encode_base64url(raw) != text:
        raise ValueError("is not base64url")
    return raw


def thumbprint(public_key: str) -> str:
    """Return the ``kid`` of a public key, given as ``x``: its JWK thumbprint (RFC 7638, RFC 8037 §2)."""
    canonical = b'{"crv":"Ed25519","kty":"OKP","x":"%b"}' % public_key.encode()
    return encode_base64url(hashlib.sha256(canonical).digest()).decode()


def write_jwk(public_key: str) -> Jwk:
    """Return a public key, given as ``x``, as a JWK."""
    return Jwk("OKP", "Ed25519", public_key, thumbprint(public_key), "sig")


def write_header(alg: SignatureAlg, kid: str, typ: TokenType) -> bytes:
    """Return the header: without spaces, its members in this order."""
    return b'{"alg":"%b","kid":"%b","typ":"%b"}' % (alg.encode(), kid.encode(), typ.encode())


class Signer:
    """Signs with one key, under one name of the algorithm."""

    def __init__(self, private_key: bytes, alg: SignatureAlg) -> None:
        """``private_key`` is the 32 bytes of RFC 8032."""
        key = Ed25519PrivateKey.from_private_bytes(private_key)
        #: Signs bytes that are not a token; returns 64 bytes.
        self.sign_bytes: Callable[[bytes], bytes] = key.sign
        #: ``x`` of the JWK, and its thumbprint.
        self.public_key = encode_base64url(key.public_key().public_bytes_raw()).decode()
        self.kid = thumbprint(self.public_key)
        self._starts = {typ: encode_base64url(write_header(alg, self.kid, typ)) + b"." for typ in TokenType}

    def sign(self, payload: bytes, typ: TokenType = TokenType.LICENSE) -> bytes:
        """Return the payload as a signed token."""
        signed = self._starts[typ] + encode_base64url(payload)
        return signed + b"." + encode_base64url(self.sign_bytes(signed))


def new_private_key() -> bytes:
    """Generate a key: 32 random bytes."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def read_signed(token: bytes, public_key: str, typ: TokenType = TokenType.LICENSE) -> bytes:
    """Return the payload of a token, if it has the header for this key and its signature is valid.

    Raises ``ValueError`` with a reason.
    """
    if len(token) > MAX_TOKEN:
        raise ValueError("is longer than 64 KiB")
    parts = token.split(b".")
    if len(parts) != 3:
        raise ValueError("does not have three parts")
    header, payload, signature = (decode_base64url(part) for part in parts)
    kid = thumbprint(public_key)
    if header not in [write_header(alg, kid, typ) for alg in SIGNATURE_ALGS]:
        raise ValueError("was signed with another key, or is not a token of this type")
    try:
        key = Ed25519PublicKey.from_public_bytes(decode_base64url(public_key.encode()))
        key.verify(signature, parts[0] + b"." + parts[1])
    except InvalidSignature:
        raise ValueError("was altered: its signature is invalid") from None
    return payload
