"""License keys and tokens: make, normalize, mask, seal; blind indexes.

Three secrets derive from one (HKDF-SHA-256, RFC 5869): one finds a license by its key (HMAC-SHA-256),
one keeps the key unreadable at rest (AES-256-GCM, NIST SP 800-38D, random 96-bit nonce), one signs what
strangers send back (HMAC-SHA-256). None of them is ever in the database.
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
#: The number of characters at a key's end by which it can be found.
KEY_END_LENGTH = 4
#: The number of characters at a key's beginning by which it can be found: of its first groups.
KEY_START_LENGTH = 8


class KeyRing:
    """Makes blind indexes, seals and signs with one installation's secret. Safe to share between threads.

    While the secret is rotated, the previous one is known, too: both find and unseal.
    """

    def __init__(self, secret: bytes, previous: bytes | None = None) -> None:
        """Take the installation's secret, at least 16 bytes; raises ``ValueError`` below that."""
        if len(secret) < _MIN_SECRET_BYTES:
            raise ValueError(f"the secret must have at least {_MIN_SECRET_BYTES} bytes")
        self._finding = _derive(secret, b"keywright v1 find a license by its key")
        self._sealing = AESGCM(_derive(secret, b"keywright v1 seal"))
        self._signing = _derive(secret, b"keywright v1 sign")
        #: Shows, without giving the secret away, whether a database was written with this secret.
        self.secret_id = _derive(secret, b"keywright v1 which secret is this")[:8].hex()
        self._previous = None if previous is None or previous == secret else KeyRing(previous)
        #: Each secret by itself, the current one first.
        self.rings: tuple[KeyRing, ...] = (self,)
        if self._previous is not None:
            self.rings = (KeyRing(secret), self._previous)

    def find_ring(self, secret_id: str | None) -> "KeyRing | None":
        """The secret with this ID by itself."""
        return next((one for one in self.rings if one.secret_id == secret_id), None)

    def blind_index(self, text: str) -> bytes:
        """The 32 bytes under which this exact text is found; equal only for equal texts."""
        return hmac.digest(self._finding, text.encode(), "sha256")

    def blind_indexes(self, texts: Iterable[str]) -> dict[bytes, str]:
        """Each text by every blind index under which it may be found."""
        if self._previous is None:
            return {self.blind_index(text): text for text in texts}
        return {ring.blind_index(text): text for text in texts for ring in self.rings}

    def key_end(self, key: str) -> int | None:
        """The 64-bit blind index of a license key's last four letters and digits, in any case; None for a key
        that has fewer. It may be equal for different texts.
        """
        folded = fold_key(key)
        return (
            self._short_index(f"\0end\0{folded[-KEY_END_LENGTH:]}") if len(folded) >= KEY_END_LENGTH else None
        )

    def key_start(self, key: str) -> int | None:
        """The same of its first eight; None for a key that has fewer."""
        start = fold_key(key)[:KEY_START_LENGTH]
        return self._short_index(f"\0start\0{start}") if len(start) == KEY_START_LENGTH else None

    def key_folded(self, key: str) -> int | None:
        """The 64-bit blind index of a license key in any case and with or without dashes; None for a key
        without letters and digits. It may be equal for different texts.
        """
        folded = fold_key(key)
        return self._short_index(f"\0folded\0{folded}") if folded else None

    def _short_index(self, text: str) -> int:
        # No license key has a NUL, so that these are no blind indexes of keys.
        return int.from_bytes(self.blind_index(text)[:8], "big", signed=True)

    def sign(self, purpose: str, text: str) -> bytes:
        """32 bytes that only this installation can make for this text, with a key of this purpose's own:
        what is signed for one purpose is no signature for another. Compare with ``hmac.compare_digest``.
        """
        key = _derive(self._signing, purpose.encode())
        return hmac.digest(key, text.encode(errors="surrogatepass"), "sha256")

    def seal(self, plain: bytes, associated_data: bytes) -> bytes:
        """Encrypt; only ``unseal`` with the same ``associated_data`` reads it again. Adds 28 bytes."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._sealing.encrypt(nonce, plain, associated_data)

    def unseal(self, sealed: bytes, associated_data: bytes) -> bytes:
        """Decrypt what ``seal`` made; raises ``ValueError`` for anything else or another place."""
        try:
            return self._sealing.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated_data)
        except InvalidTag:
            if self._previous is not None:
                return self._previous.unseal(sealed, associated_data)
            raise ValueError("sealed with another secret, for another place, or damaged") from None

    def seal_key(self, key: str, license_id: int) -> bytes:
        """Seal a license key so that it can be read in this license only."""
        return self.seal(key.encode(), license_associated_data(license_id))

    def unseal_key(self, sealed: bytes, license_id: int) -> str:
        """Read a license key that was sealed for this license; raises ``ValueError``."""
        return self.unseal(sealed, license_associated_data(license_id)).decode()


def fold_key(key: str) -> str:
    """A license key as people may type it: upper case, letters and digits only."""
    return "".join(filter(str.isalnum, key)).upper()


def mask(key: str) -> str:
    """Mask a key for logs and pages: at most its last four characters stay, never over a quarter."""
    shown = min(4, len(key) // 4)
    end = key[len(key) - shown :]
    return f"…{end if end.isprintable() else '?' * shown}"


def new_token() -> str:
    """A new activation token: 40 lower-case hex characters, 160 random bits."""
    return secrets.token_hex(20)


def hash_consumer_key(consumer_key: str) -> str:
    """Hex HMAC-SHA-256 under the text ``wc-api``: how WooCommerce and its plugins store consumer keys,
    so that keys which are already inside shipped programs can be taken over.
    """
    return hmac.digest(b"wc-api", consumer_key.encode(), "sha256").hex()


def hash_consumer_secret(consumer_secret: str) -> bytes:
    """SHA-256; a slow hash has nothing to add to 160 random bits."""
    return hashlib.sha256(consumer_secret.encode()).digest()


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def license_associated_data(license_id: int) -> bytes:
    """The place that a license's sealed key is bound to."""
    return b"license:%d" % license_id
