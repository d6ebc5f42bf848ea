"""Make and read license keys, and references to licenses for a shop's checkout."""

import base64
import hmac
import re
import secrets

from keywright.core.crypto import KeyRing
from keywright.core.errors import InvalidLicenseKey

MAX_KEY_LENGTH = 255
#: Letters and digits that cannot be mistaken for one another: 32 of them, 5 bits each.
UNAMBIGUOUS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
#: The runs in a new key, and the characters in a run: 150 random bits.
_CHUNKS, _CHUNK_LENGTH = 6, 5
#: A license ref is this prefix, then the license's ID and half of its signature in base64.
REF_PREFIX = "kwr_"
_ID_BYTES, _SIGNATURE_BYTES, _PURPOSE = 8, 16, "license_ref"
#: Python's white space without the control characters in it.
_WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001)))).translate(
    dict.fromkeys([*range(0x1C, 0x20), 0x85])
)
#: Control characters (C0, DEL, C1) and lone surrogates.
UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def normalize_key(text: str) -> str:
    """Trim white space around the key; everything else stays as it is.

    Raises ``InvalidLicenseKey`` for a key that is empty, over 255 characters, or contains control characters
    or lone surrogates.
    """
    key = text.strip(_WHITE_SPACE)
    if not 1 <= len(key) <= MAX_KEY_LENGTH or UNUSABLE.search(key):
        raise InvalidLicenseKey
    return key


def new_license_key() -> str:
    """Return a new license key that cannot be guessed: 6 runs of 5 letters and digits, 150 random bits."""
    runs = ("".join(secrets.choice(UNAMBIGUOUS) for _ in range(_CHUNK_LENGTH)) for _ in range(_CHUNKS))
    return "-".join(runs)


def make_license_ref(keys: KeyRing, license_id: int) -> str:
    """A reference to a license for a shop's checkout: 36 of ``[A-Za-z0-9_-]``, signed, and not its key."""
    signature = keys.sign(_PURPOSE, str(license_id))[:_SIGNATURE_BYTES]
    return REF_PREFIX + base64.urlsafe_b64encode(license_id.to_bytes(_ID_BYTES, "big") + signature).decode()


def read_license_ref(keys: KeyRing, text: str) -> int | None:
    """Return the ID in a reference from ``make_license_ref``; None for any other text."""
    try:
        found = base64.urlsafe_b64decode(text.removeprefix(REF_PREFIX))
    except ValueError:
        return None
    license_id = int.from_bytes(found[:_ID_BYTES], "big")
    made = [make_license_ref(one, license_id).encode() for one in keys.rings]
    is_signed = [hmac.compare_digest(one, text.encode(errors="replace")) for one in made]
    return license_id if any(is_signed) else None
