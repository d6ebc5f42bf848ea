"""Secrets and signatures of incoming and outgoing webhooks. Pure, except that new secrets are random.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence

_PREFIX = "whsec_"
#: The minimum and maximum size of a secret, and the size of a new one, in bytes.
_MIN_BYTES, _MAX_BYTES, _NEW_BYTES = 24, 64, 32


def new_secret() -> str:
    """Generate a secret with 256 random bits."""
    return _PREFIX + b64encode(secrets.token_bytes(_NEW_BYTES)).decode()


def parse_secret(text: str) -> str:
    """Check a secret that was generated elsewhere. Raises ``ValueError``."""
    try:
        raw = decode_secret(text)
    except ValueError:
        raw = b""
    if not text.startswith(_PREFIX) or not _MIN_BYTES <= len(raw) <= _MAX_BYTES:
        raise ValueError(f"must be whsec_ and base64 of {_MIN_BYTES} to {_MAX_BYTES} bytes")
    return text


def decode_secret(text: str) -> bytes:
    """The bytes of a secret. Raises ``ValueError``."""
    return b64decode(text.removeprefix(_PREFIX), validate=True)


def sign(
    message_id: str,
    timestamp: int,
    body: bytes,
    known_secrets: Sequence[str],
    sign_ed25519: Callable[[bytes], bytes] | None = None,
) -> str:
    """The header ``webhook-signature``: a signature with each secret, and one with the private key, if given.
    Raises ``ValueError`` for an invalid secret.
    """
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    found = [
        "v1," + b64encode(hmac.digest(decode_secret(one), signed, hashlib.sha256)).decode()
        for one in known_secrets
    ]
    if sign_ed25519 is not None:
        found.append("v1a," + b64encode(sign_ed25519(signed)).decode())
    return " ".join(found)
