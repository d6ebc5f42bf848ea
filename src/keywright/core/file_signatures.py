"""A vendor's signatures of files: Ed25519, either raw or in minisign's format.

The format of minisign: https://jedisct1.github.io/minisign/, "Signature format" and "Public key format".
"""

import base64
import hashlib
import re
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_KEY, _SIGNATURE, _KEY_ID = 32, 64, 8
_PURE, _PREHASHED = b"Ed", b"ED"
_TRUSTED = "trusted comment: "
#: The maximum length of a signature, in characters.
MAX_SIGNATURE = 4_000


def parse_public_key(text: str) -> str:
    """A public key as base64: 32 bytes for Ed25519, or 42 for minisign. Tauri's key, the base64 of minisign's
    whole file, is unwrapped. Raises ``ValueError``.
    """
    decoded = _decode(_unwrap(text))
    is_minisign = len(decoded) == 2 + _KEY_ID + _KEY and decoded[:2] == _PURE
    if len(decoded) != _KEY and not is_minisign:
        raise ValueError("must be a public key of Ed25519 or minisign, as base64")
    return base64.b64encode(decoded).decode()


def is_signed_by(keys: Sequence[str], signature: str, content: bytes | memoryview) -> bool:
    """Whether the signature of these bytes is valid for one of these public keys."""
    try:
        return any(_verify(base64.b64decode(one), signature, content) for one in keys)
    except ValueError:
        return False


def _verify(key: bytes, signature: str, content: bytes | memoryview) -> bool:
    text = _unwrapped_lines(signature)
    decoded = _decode(_unwrap(signature))
    public = Ed25519PublicKey.from_public_bytes(key[-_KEY:])
    if len(decoded) == _SIGNATURE:
        return _is_valid(public, decoded, content)
    algorithm, key_id, bare = decoded[:2], decoded[2 : 2 + _KEY_ID], decoded[2 + _KEY_ID :]
    if len(bare) != _SIGNATURE or algorithm not in (_PURE, _PREHASHED):
        return False
    if len(key) > _KEY and key_id != key[2 : 2 + _KEY_ID]:
        return False
    signed = hashlib.blake2b(content).digest() if algorithm == _PREHASHED else content
    return _is_valid(public, bare, signed) and _is_comment_valid(public, bare, text)


def _is_comment_valid(public: Ed25519PublicKey, bare: bytes, lines: Sequence[str]) -> bool:
    """Whether the signature of the trusted comment is valid, if there is a comment."""
    comments = [index for index, line in enumerate(lines) if line.startswith(_TRUSTED)]
    if not comments:
        return True
    index = comments[0]
    comment = lines[index].removeprefix(_TRUSTED).encode()
    return len(lines) > index + 1 and _is_valid(public, _decode(lines[index + 1]), bare + comment)


def _is_valid(public: Ed25519PublicKey, signature: bytes, content: bytes | memoryview) -> bool:
    try:
        public.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _unwrap(text: str) -> str:
    """The line with the key in minisign's file, or in the base64 of that file."""
    lines = [one for one in _unwrapped_lines(text) if not one.startswith("untrusted comment:")]
    return lines[0] if lines else ""


def _unwrapped_lines(text: str) -> list[str]:
    if re.fullmatch(r"[A-Za-z0-9+/=\s]+", text) and text.startswith("dW50cnVzdGVk"):
        text = _decode(text).decode("utf-8", "replace")
    return [one.strip("\r") for one in text.strip().split("\n") if one.strip()]


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise ValueError("must be base64") from None
