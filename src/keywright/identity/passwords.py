"""Passwords: hashed with argon2id, checked in the same time whether or not the user exists."""

import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from keywright.identity.model import User

if TYPE_CHECKING:
    from argon2 import PasswordHasher


MIN_PASSWORD_LENGTH = 12
#: Longer ones only cost time.
MAX_PASSWORD_LENGTH = 1024
#: The hash of an unknown password: checking against it takes as long as against any other.
_UNKNOWN_HASH = (
    "$argon2id$v=19$m=65536,t=3,p=1$WqifCy9y32OweCyw0u+jAA$sEWq9esCKryCJFRgO7bOMFH+oZwDFXQkD22o3QjRZ0s"
)


def hash_password(password: str) -> str:
    """The argon2id hash of a password, with a salt of its own. Slow on purpose: some 100 ms and 64 MiB.

    Raises ``ValueError`` for more than ``MAX_PASSWORD_LENGTH`` characters.
    """
    if len(password) > MAX_PASSWORD_LENGTH:
        raise ValueError(f"has at most {MAX_PASSWORD_LENGTH:,} characters")
    return _hasher().hash(_password_bytes(password))


def check_password(user: User | None, password: str) -> bool:
    """Whether the user may sign in with this password; as much work for no user, or a disabled one."""
    # Imported here, as in _hasher: only signing in needs it.
    from argon2.exceptions import InvalidHashError, VerificationError

    # No password is longer, and to normalize a very long text can take a minute.
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
    # one processor busy, not all.
    return PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)


def _password_bytes(password: str) -> bytes:
    """The same for a text however the keyboard composes it (NIST SP 800-63B, section 3.1.1.2)."""
    return unicodedata.normalize("NFKC", password).encode(errors="surrogatepass")
