"""Sessions of the administration pages, the setup link, and the mark of a known browser."""

import hashlib
import hmac
import re
import secrets
from datetime import UTC, datetime, timedelta

import msgspec

from keywright.core.errors import SetupOver
from keywright.db import ReadTransaction
from keywright.identity import store as identity_store
from keywright.identity.model import Session, User
from keywright.identity.store import find_session_with_user, has_users

#: The clock of the server that started a session may be ahead by less than this.
MAX_AHEAD = timedelta(minutes=30)
#: How long the link for the first administrator is valid.
SETUP_TIME = timedelta(minutes=30)
#: A session's last-seen time is updated at most this often.
_SEEN_EVERY = timedelta(minutes=1)
#: How far the clocks of two servers may be apart.
_CLOCKS_APART = timedelta(minutes=1)
_SETUP_TOKEN = re.compile(r"([0-9a-f]{1,12})\.([0-9a-f]{64})", re.ASCII)


def setup_token(tx: ReadTransaction, now: datetime) -> str:
    """A token to create the first administrator, for ``SETUP_TIME``. Raises ``SetupOver`` if users exist."""
    if has_users(tx):
        raise SetupOver
    issued = f"{int(now.timestamp()):x}"
    return f"{issued}.{_setup_signature(tx, issued)}"


def is_setup_token(tx: ReadTransaction, token: str, now: datetime) -> bool:
    """Whether this is a valid token from ``setup_token`` of this installation, and there are no users."""
    found = _SETUP_TOKEN.fullmatch(token)
    if found is None or not hmac.compare_digest(found[2], _setup_signature(tx, found[1])):
        return False
    age = now - datetime.fromtimestamp(int(found[1], 16), UTC)
    return -_CLOCKS_APART < age < SETUP_TIME and not has_users(tx)


def _setup_signature(tx: ReadTransaction, issued: str) -> str:
    return tx.key_ring.sign("the first administrator", issued).hex()


def device_mark(tx: ReadTransaction, user: User) -> str:
    """Return the mark of a browser in which this user has signed in, valid until the password changes.
    Strangers who try passwords under the user's name do not lock out a known browser.
    """
    return tx.key_ring.sign("a known browser", f"{user.id} {user.password_hash}").hex()


class SignedIn(msgspec.Struct, frozen=True):
    """The session, its user, and whether the user has a second factor."""

    user: User
    session: Session
    has_factor: bool


def new_session_token() -> str:
    """Return a new session token: 256 random bits in URL-safe characters."""
    return secrets.token_urlsafe(32)


def hash_session_token(token: str) -> bytes:
    """Return the SHA-256; a slow hash adds nothing to 256 random bits."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def find_signed_in(
    tx: ReadTransaction, token: str, now: datetime, idle: timedelta | None = None
) -> SignedIn | None:
    """Return the session with this token, and its user; None if the token is unknown, the session over or
    unused for ``idle``, or the user disabled.
    """
    found = find_session_with_user(tx, hash_session_token(token))
    if found is None or is_over(found.session, now, idle) or found.user.disabled_at is not None:
        return None
    return SignedIn(found.user, found.session, found.has_factor)


def list_sessions(
    tx: ReadTransaction, user_id: int, now: datetime, idle: timedelta | None = None
) -> list[Session]:
    """Return the user's sessions that are neither over nor unused for ``idle``, newest first."""
    return [one for one in identity_store.list_sessions(tx, user_id) if not is_over(one, now, idle)]


def is_to_be_seen(session: Session, now: datetime) -> bool:
    """Whether a ``SeeSession`` is due: not on every page, since each one writes to the database."""
    return abs(now - session.last_seen_at) >= _SEEN_EVERY


def is_over(session: Session, now: datetime, idle: timedelta | None = None) -> bool:
    """Whether the session has expired, or was not used for ``idle``."""
    is_idle = idle is not None and now - session.last_seen_at >= idle
    # A session that begins far in the future was started by a server whose clock was wrong.
    return is_idle or now >= session.ends_at or session.created_at - now >= MAX_AHEAD
