"""Hash passwords with argon2id, and derive the codes with which customers sign in to the portal.

A code is stored nowhere: it is derived when the mail is sent, and again when the customer types it.
"""

import hmac
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from keywright.core.crypto import KeyRing
from keywright.identity.model import User

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_PASSWORD_LENGTH = 12
#: A longer password would only cost time.
MAX_PASSWORD_LENGTH = 1024
#: What easily guessed passwords consist of: words that are common in lists of leaked passwords or belong to
#: this program, and rows and columns of keyboards, of which three neighbors are enough.
_EASY_WORDS = (
    *("password", "passwort", "passw0rd", "p@ssw0rd", "pass", "letmein", "welcome", "willkommen"),
    *("iloveyou", "changeme", "secret", "geheim", "administrator", "admin", "root", "user", "login"),
    *("default", "test", "demo", "hello", "hallo", "dragon", "monkey", "master", "sunshine", "princess"),
    *("football", "baseball", "superman", "summer", "winter", "spring", "autumn"),
    *("keywright", "license", "licence", "server"),
)
_SEQUENCES = (
    *("01234567890", "abcdefghijklmnopqrstuvwxyz", "qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl"),
    *("zxcvbnm", "yxcvbnm", "1q2w3e4r5t6y7u8i9o0p", "1qaz2wsx3edc4rfv5tgb6yhn7ujm"),
)
_SEQUENCE_LENGTH = 3
#: The fewest characters, and different ones, that a password has besides these.
_MIN_OTHERS, _MIN_DIFFERENT = 6, 5
#: A hash for unknown users: checking against it takes as long as against a real one.
_UNKNOWN_HASH = (
    "$argon2id$v=19$m=65536,t=3,p=1$WqifCy9y32OweCyw0u+jAA$sEWq9esCKryCJFRgO7bOMFH+oZwDFXQkD22o3QjRZ0s"
)


def is_easy(password: str, name: str) -> bool:
    """Whether a password consists of little more than common words, sequences, repetitions, and the user's
    name (NIST SP 800-63B, section 3.1.1.2).
    """
    rest = password.casefold()
    words = (*(one for one in re.split(r"\W+", name.casefold()) if len(one) > 2), *_EASY_WORDS)
    for word in words:
        rest = rest.replace(word, "")
    rest = "".join(_outside_sequences(rest))
    return len(rest) < _MIN_OTHERS or len(set(rest)) < _MIN_DIFFERENT


def _outside_sequences(text: str) -> Iterator[str]:
    """Yield the characters that are not part of a sequence, forwards or backwards."""
    is_part = [False] * len(text)
    for start in range(len(text) - _SEQUENCE_LENGTH + 1):
        part = text[start : start + _SEQUENCE_LENGTH]
        if any(part in one or part[::-1] in one for one in _SEQUENCES):
            is_part[start : start + _SEQUENCE_LENGTH] = [True] * _SEQUENCE_LENGTH
    return (character for character, is_it in zip(text, is_part, strict=True) if not is_it)


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, with a random salt. Slow on purpose: some 100 ms and 64 MiB.

    Raises ``ValueError`` for more than ``MAX_PASSWORD_LENGTH`` characters.
    """
    if len(password) > MAX_PASSWORD_LENGTH:
        raise ValueError(f"must have at most {MAX_PASSWORD_LENGTH:,} characters")
    return _hasher().hash(_password_bytes(password))


def check_password(user: User | None, password: str) -> bool:
    """Whether the user may sign in with this password. It takes as long for no user, or a disabled one."""
    # Imported here, as in _hasher: only signing in needs it.
    from argon2.exceptions import InvalidHashError, VerificationError

    # No password is longer, and normalizing a very long text can take a minute.
    is_possible = len(password) <= MAX_PASSWORD_LENGTH
    expected = user.password_hash if user is not None and is_possible else _UNKNOWN_HASH
    try:
        _hasher().verify(expected, _password_bytes(password[:MAX_PASSWORD_LENGTH]))
    except (VerificationError, InvalidHashError):
        return False
    return is_possible and user is not None and user.disabled_at is None


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher

    # The second recommendation of RFC 9106, section 4, but with one lane: strangers who try passwords keep
    # one processor busy, not all of them.
    return PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)


def _password_bytes(password: str) -> bytes:
    """Encode a password, equally for each way a keyboard composes it (NIST SP 800-63B, section 3.1.1.2)."""
    return unicodedata.normalize("NFKC", password).encode(errors="surrogatepass")


#: The number of digits of a code: with five attempts for each sign-in, one in 20 million can be guessed.
CODE_LENGTH = 8
_PURPOSE, _LINK_PURPOSE = "portal sign-in", "portal sign-in link"


def derive_code(key_ring: KeyRing, sign_in_id: str) -> str:
    """Return the eight digits for this sign-in. Its ID is random, so that no other sign-in, even after a
    restore, has the same code.
    """
    number = int.from_bytes(key_ring.sign(_PURPOSE, sign_in_id)[:8], "big")
    return f"{number % 10**CODE_LENGTH:0{CODE_LENGTH}}"


def derive_link_token(key_ring: KeyRing, sign_in_id: str) -> str:
    """Return the 32 hex characters in the sign-in's link."""
    return key_ring.sign(_LINK_PURPOSE, sign_in_id)[:16].hex()


def is_code(key_ring: KeyRing, sign_in_id: str, typed: str) -> bool:
    """Whether this is the sign-in's code, typed with any spaces and dashes. A code that was mailed before the
    secret was rotated is accepted, too.
    """
    digits = "".join(filter(str.isalnum, typed))
    return _is_any([derive_code(ring, sign_in_id) for ring in key_ring.rings], digits)


def is_link_token(key_ring: KeyRing, sign_in_id: str, token: str) -> bool:
    """Whether this is the token of the sign-in's link."""
    return _is_any([derive_link_token(ring, sign_in_id) for ring in key_ring.rings], token)


def link_path(key_ring: KeyRing, sign_in_id: str) -> str:
    """Return the path of the page that the sign-in's link opens."""
    return f"/portal/sign-in/{sign_in_id}/{derive_link_token(key_ring, sign_in_id)}"


def _is_any(right: list[str], given: str) -> bool:
    # Compare all of them: the time reveals nothing.
    return any([hmac.compare_digest(one.encode(), given.encode(errors="replace")) for one in right])
