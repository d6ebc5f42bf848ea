"""License keys and tokens: create, normalize, mask, encrypt; blind indexes.

Three keys are derived from one secret (HKDF-SHA-256, RFC 5869): one to find a license by its key
(HMAC-SHA-256), one to encrypt license keys at rest (AES-256-GCM, NIST SP 800-38D, random 96-bit nonce), and
one to sign what clients send back (HMAC-SHA-256). None of them is ever stored in the database.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE_BYTES = 12
_MIN_SECRET_BYTES = 16
#: The number of characters at the end of a license key by which it can be found.
KEY_END_LENGTH = 4
#: The number of characters at the beginning of a license key, its first groups, by which it can be found.
KEY_START_LENGTH = 8


class KeyRing:
    """Computes blind indexes, encrypts and signs with the secret of an installation. Thread-safe.

    While the secret is being rotated, the previous one is used, too, to find and to decrypt.
    """

    def __init__(self, secret: bytes, previous: bytes | None = None) -> None:
        """``secret`` must have at least 16 bytes, or ``ValueError`` is raised."""
        if len(secret) < _MIN_SECRET_BYTES:
            raise ValueError(f"the secret must have at least {_MIN_SECRET_BYTES} bytes")
        self._finding = _derive(secret, b"keywright v1 find a license by its key")
        self._sealing = AESGCM(_derive(secret, b"keywright v1 seal"))
        self._signing = _derive(secret, b"keywright v1 sign")
        #: Identifies the secret that a database was written with, without revealing it.
        self.secret_id = _derive(secret, b"keywright v1 which secret is this")[:8].hex()
        self._previous = None if previous is None or previous == secret else KeyRing(previous)
        #: A key ring for each secret alone, the current one first.
        self.rings: tuple[KeyRing, ...] = (self,)
        if self._previous is not None:
            self.rings = (KeyRing(secret), self._previous)

    def find_ring(self, secret_id: str | None) -> "KeyRing | None":
        """The key ring of the secret with this ID alone; None if unknown."""
        return next((one for one in self.rings if one.secret_id == secret_id), None)

    def blind_index(self, text: str) -> bytes:
        """The blind index of a text, 32 bytes; equal only for equal texts."""
        return hmac.digest(self._finding, text.encode(), "sha256")

    def blind_indexes(self, texts: Iterable[str]) -> dict[bytes, str]:
        """The texts by every blind index under which they may be stored."""
        if self._previous is None:
            return {self.blind_index(text): text for text in texts}
        return {ring.blind_index(text): text for text in texts for ring in self.rings}

    def key_end(self, key: str) -> int | None:
        """The 64-bit blind index of the last four letters and digits of a license key, ignoring case; None if
        it has fewer. Different texts may collide.
        """
        folded = fold_key(key)
        return (
            self._short_index(f"\0end\0{folded[-KEY_END_LENGTH:]}") if len(folded) >= KEY_END_LENGTH else None
        )

    def key_start(self, key: str) -> int | None:
        """The same kind of index for the first eight letters and digits; None if there are fewer."""
        start = fold_key(key)[:KEY_START_LENGTH]
        return self._short_index(f"\0start\0{start}") if len(start) == KEY_START_LENGTH else None

    def key_folded(self, key: str) -> int | None:
        """The 64-bit blind index of a license key, ignoring case and dashes; None for a key without letters
        and digits. Different texts may collide.
        """
        folded = fold_key(key)
        return self._short_index(f"\0folded\0{folded}") if folded else None

    def _short_index(self, text: str) -> int:
        # No license key contains a NUL, so these never equal the blind index of a key.
        return int.from_bytes(self.blind_index(text)[:8], "big", signed=True)

    def sign(self, purpose: str, text: str) -> bytes:
        """Sign a text, 32 bytes, with a key that is derived for this purpose: a signature for one purpose is
        not valid for another. Compare with ``hmac.compare_digest``.
        """
        key = _derive(self._signing, purpose.encode())
        return hmac.digest(key, text.encode(errors="surrogatepass"), "sha256")

    def seal(self, plain: bytes, associated_data: bytes) -> bytes:
        """Encrypt. Only ``unseal`` with the same ``associated_data`` can decrypt it. Adds 28 bytes."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._sealing.encrypt(nonce, plain, associated_data)

    def unseal(self, sealed: bytes, associated_data: bytes) -> bytes:
        """Decrypt what ``seal`` returned. Raises ``ValueError`` for other input or associated data."""
        try:
            return self._sealing.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated_data)
        except InvalidTag:
            if self._previous is not None:
                return self._previous.unseal(sealed, associated_data)
            raise ValueError("sealed with another secret, for another place, or damaged") from None

    def seal_key(self, key: str, license_id: int) -> bytes:
        """Encrypt a license key, bound to this license."""
        return self.seal(key.encode(), license_associated_data(license_id))

    def unseal_key(self, sealed: bytes, license_id: int) -> str:
        """Decrypt a license key that is bound to this license. Raises ``ValueError``."""
        return self.unseal(sealed, license_associated_data(license_id)).decode()


def fold_key(key: str) -> str:
    """Normalize a license key for searches: upper case, letters and digits only."""
    return "".join(filter(str.isalnum, key)).upper()


def mask(key: str) -> str:
    """Mask a key for logs and pages: shows no more than its last four characters, nor more than a quarter."""
    shown = min(4, len(key) // 4)
    end = key[len(key) - shown :]
    return f"…{end if end.isprintable() else '?' * shown}"


def new_token() -> str:
    """Generate an activation token: 40 lowercase hex characters, 160 random bits."""
    return secrets.token_hex(20)


def hash_consumer_key(consumer_key: str) -> str:
    """Hash a consumer key like WooCommerce and its plugins (hex HMAC-SHA-256 under ``wc-api``), so that keys
    in programs that have already shipped can be imported.
    """
    return hmac.digest(b"wc-api", consumer_key.encode(), "sha256").hex()


def hash_consumer_secret(consumer_secret: str) -> bytes:
    """Hash a consumer secret with SHA-256; a slow hash would add nothing to 160 random bits."""
    return hashlib.sha256(consumer_secret.encode()).digest()


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def license_associated_data(license_id: int) -> bytes:
    """The associated data that binds an encrypted license key to its license."""
    return b"license:%d" % license_id
