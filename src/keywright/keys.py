"""License keys and tokens: make, normalize, fingerprint, mask, seal.

Three secrets derive from one (HKDF-SHA-256, RFC 5869): one finds a license by its key (HMAC-SHA-256),
one keeps the key unreadable at rest (AES-256-GCM, NIST SP 800-38D, random 96-bit nonce), one signs what
strangers bring back (HMAC-SHA-256). None of them is ever in the database.
"""

import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keywright.errors import InvalidLicenseKey
from keywright.model import Generator

MAX_KEY_LENGTH = 255
#: Letters and digits that cannot be taken for one another: 32 of them, 5 bits each.
UNAMBIGUOUS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
#: Generators below this are refused unless forced.
MIN_ENTROPY_BITS = 64.0
#: A new key has so many runs of so many characters: 150 random bits.
_CHUNKS, _CHUNK_LENGTH = 6, 5
_NONCE_BYTES = 12
_MIN_SECRET_BYTES = 16
#: White space as Python knows it, without the control characters that are none for people.
_WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001)))).translate(
    dict.fromkeys([*range(0x1C, 0x20), 0x85])
)
#: Control characters (C0, DEL, C1) and lone surrogates.
_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class KeyRing:
    """Fingerprints, seals and signs with one installation's secret. Safe to share between threads.

    While the secret is rotated, the previous one is known, too: both find and unseal.
    """

    def __init__(self, secret: bytes, previous: bytes | None = None) -> None:
        """Take the installation's secret, at least 16 bytes; raises ``ValueError`` below that."""
        if len(secret) < _MIN_SECRET_BYTES:
            raise ValueError(f"the secret must have at least {_MIN_SECRET_BYTES} bytes")
        self._finding = _derive(secret, b"keywright v1 find a license by its key")
        self._sealing = AESGCM(_derive(secret, b"keywright v1 seal"))
        self._signing = _derive(secret, b"keywright v1 sign")
        #: Tells, without giving the secret away, whether a database was written with this secret.
        self.secret_mark = _derive(secret, b"keywright v1 which secret is this")[:8].hex()
        self._previous = None if previous is None or previous == secret else KeyRing(previous)
        #: Each secret by itself, the current one first.
        self.rings: tuple[KeyRing, ...] = (self,)
        if self._previous is not None:
            self.rings = (KeyRing(secret), self._previous)

    def find_ring(self, secret_mark: str | None) -> "KeyRing | None":
        """The secret with this mark by itself."""
        return next((one for one in self.rings if one.secret_mark == secret_mark), None)

    def fingerprint(self, text: str) -> bytes:
        """The 32 bytes under which this exact text is found; equal only for equal texts."""
        return hmac.digest(self._finding, text.encode(), "sha256")

    def fingerprints(self, texts: Iterable[str]) -> dict[bytes, str]:
        """Each text by every fingerprint under which it may be found."""
        if self._previous is None:
            return {self.fingerprint(text): text for text in texts}
        return {ring.fingerprint(text): text for text in texts for ring in self.rings}

    def sign(self, purpose: str, text: str) -> bytes:
        """32 bytes that only this installation can make for this text, with a key of this purpose's own:
        what is signed for one purpose is no signature for another. Compare with ``hmac.compare_digest``.
        """
        key = _derive(self._signing, purpose.encode())
        return hmac.digest(key, text.encode(errors="surrogatepass"), "sha256")

    def seal(self, plain: bytes, bound_to: bytes) -> bytes:
        """Encrypt; only ``unseal`` with the same ``bound_to`` reads it again. Adds 28 bytes."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._sealing.encrypt(nonce, plain, bound_to)

    def unseal(self, sealed: bytes, bound_to: bytes) -> bytes:
        """Decrypt what ``seal`` made; raises ``ValueError`` for anything else or another place."""
        try:
            return self._sealing.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
        except InvalidTag:
            if self._previous is not None:
                return self._previous.unseal(sealed, bound_to)
            raise ValueError("sealed with another secret, for another place, or damaged") from None

    def seal_key(self, key: str, license_id: int) -> bytes:
        """Seal a license key so that it can be read in this license only."""
        return self.seal(key.encode(), license_place(license_id))

    def unseal_key(self, sealed: bytes, license_id: int) -> str:
        """Read a license key that was sealed for this license; raises ``ValueError``."""
        return self.unseal(sealed, license_place(license_id)).decode()


def normalize_key(text: str) -> str:
    """Trim white space around the key; everything else stays exactly as it is.

    Raises ``InvalidLicenseKey`` for a key that is empty, over 255 characters, or has control
    characters or lone surrogates in it.
    """
    key = text.strip(_WHITE_SPACE)
    if not 1 <= len(key) <= MAX_KEY_LENGTH or _UNUSABLE.search(key):
        raise InvalidLicenseKey
    return key


def is_drawable(recipe: Generator) -> bool:
    """Whether everything that can come out of the recipe is a license key as ``normalize_key`` leaves it."""
    parts = (recipe.charset, recipe.separator, recipe.prefix, recipe.suffix)
    if any(part and _UNUSABLE.search(part) for part in parts):
        return False
    firsts = recipe.prefix[0] if recipe.prefix else recipe.charset
    lasts = recipe.suffix[-1] if recipe.suffix else recipe.charset
    return not any(one.isspace() for one in firsts + lasts)


def mask(key: str) -> str:
    """What may be shown of a key in a log: at most the last four characters, never over a quarter."""
    shown = min(4, len(key) // 4)
    end = key[len(key) - shown :]
    return f"…{end if end.isprintable() else '?' * shown}"


def new_token() -> str:
    """A new activation token: 40 lower-case hex characters, 160 random bits."""
    return secrets.token_hex(20)


def new_consumer_key() -> str:
    """A new consumer key: ``ck_`` and 160 random bits in hex."""
    return f"ck_{secrets.token_hex(20)}"


def new_consumer_secret() -> str:
    """A new consumer secret: ``cs_`` and 160 random bits in hex."""
    return f"cs_{secrets.token_hex(20)}"


def hash_consumer_key(consumer_key: str) -> str:
    """Hex HMAC-SHA-256 under the text ``wc-api``: how WooCommerce and its plugins store consumer keys,
    so that keys which are already inside shipped programs can be taken over.
    """
    return hmac.digest(b"wc-api", consumer_key.encode(), "sha256").hex()


def hash_consumer_secret(consumer_secret: str) -> bytes:
    """SHA-256; a slow hash has nothing to add to 160 random bits."""
    return hashlib.sha256(consumer_secret.encode()).digest()


def new_license_key() -> str:
    """A new license key that nobody can guess: 6 runs of 5 letters and digits, 150 random bits."""
    runs = ("".join(secrets.choice(UNAMBIGUOUS) for _ in range(_CHUNK_LENGTH)) for _ in range(_CHUNKS))
    return "-".join(runs)


def generate_key(recipe: Generator) -> str:
    """One license key after the recipe, from the operating system's randomness."""
    chunks = (
        "".join(secrets.choice(recipe.charset) for _ in range(recipe.chunk_length))
        for _ in range(recipe.chunks)
    )
    return f"{recipe.prefix or ''}{(recipe.separator or '').join(chunks)}{recipe.suffix or ''}"


def entropy_bits(charset: str, chunks: int, chunk_length: int) -> float:
    """How many bits a guesser has to guess: drawn characters × log2 of the distinct ones."""
    return chunks * chunk_length * math.log2(max(1, len(set(charset))))


def key_length(recipe: Generator) -> int:
    """How many characters the recipe's keys have."""
    drawn = recipe.chunks * recipe.chunk_length
    between = max(0, recipe.chunks - 1) * len(recipe.separator or "")
    return drawn + between + len(recipe.prefix or "") + len(recipe.suffix or "")


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def license_place(license_id: int) -> bytes:
    """The place that a license's sealed key is bound to."""
    return b"license:%d" % license_id
