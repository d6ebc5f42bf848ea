"""Say what a license file or a signed answer says, and whether it holds. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from keywright.signing.armor import read_license_file
from keywright.signing.jws import decode_base64url, read_signed

_ARMORED = b"-----BEGIN"


class Explained(msgspec.Struct, frozen=True):
    """The claims of a token, and why they are not to be believed; None where they are. ``kid`` names the key
    that the token says it was signed with.
    """

    claims: dict[str, Any]
    kid: str | None
    problem: str | None


def explain(content: bytes, public_keys: Sequence[str]) -> Explained:
    """Read a license file or a token, and verify it with one of these keys.

    Raises ``ValueError`` with a reason for what is neither.
    """
    token = read_license_file(content) if _ARMORED in content else content.strip()
    parts = token.split(b".")
    if len(parts) != 3:
        raise ValueError("is neither a license file nor a signed answer")
    header, claims = (_decode_object(part) for part in parts[:2])
    kid = header.get("kid")
    problem: str | None = "was signed with another key, or is no token of this type"
    for key in public_keys:
        try:
            read_signed(token, key)
        except ValueError as reason:
            if str(reason) != problem:
                problem = str(reason)
                break
        else:
            problem = None
            break
    return Explained(claims, kid if isinstance(kid, str) else None, problem)


def _decode_object(part: bytes) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(decode_base64url(part))
    except (msgspec.DecodeError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise ValueError("is neither a license file nor a signed answer")
    return decoded
