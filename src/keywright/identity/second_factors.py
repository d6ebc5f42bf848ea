"""Second factors: codes that change every 30 seconds (TOTP, RFC 6238), and recovery codes for users without
their app.

A code is accepted once, in its own time step or in the one before or after it. So each guess of a person who
knows the password has a chance of three in a million. After ``MAX_FAILURES`` wrong codes in a row, or
``MAX_KNOWN_FAILURES`` in a known browser, only recovery codes, which cannot be guessed, are accepted, until
one is right, the password changes, or an administrator turns the second factor off.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import UnknownUser
from keywright.db import ReadTransaction, WriteTransaction
from keywright.events.unit_of_work import UnitOfWork
from keywright.identity import model, store
from keywright.identity.store import find_user_by_id, lock_user, renew_session

#: How many recovery codes are generated at once.
RECOVERY_CODES = 10
#: NIST SP 800-63B, section 5.2.2, allows a hundred. The difference is reserved for browsers in which the user
#: has signed in before: another person who knows the password cannot lock the user out of these.
MAX_FAILURES, MAX_KNOWN_FAILURES = 30, 100
_STEP = 30
_SECRET = re.compile("[A-Z2-7]{32}", re.ASCII)
_CODE = re.compile("[0-9]{6}", re.ASCII)
#: The time between the password and the code, at most.
TICKET_TIME = timedelta(minutes=5)
#: How far the clocks of two servers may be apart.
_CLOCKS_APART = timedelta(minutes=1)
_TICKET = re.compile(r"(([0-9]{1,18})\.([0-9a-f]{1,12}))\.([0-9a-f]{64})", re.ASCII)
#: The letters and digits of recovery codes, without those that look alike.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_GROUPS, _GROUP = 4, 4


# --- secrets and codes ----------------------------------------------------------------------------


def new_secret() -> str:
    """Generate a secret for an app: 160 random bits in base32."""
    import pyotp

    return pyotp.random_base32(32)


def is_secret(text: str) -> bool:
    """Whether this has the form of a secret from ``new_secret``."""
    return _SECRET.fullmatch(text) is not None


def provisioning_uri(secret: str, user_name: str, issuer: str) -> str:
    """Return the ``otpauth:`` URI that apps read from a QR code
    (https://github.com/google/google-authenticator/wiki/Key-Uri-Format).
    """
    import pyotp

    return pyotp.TOTP(secret).provisioning_uri(name=user_name, issuer_name=issuer)


def new_recovery_codes() -> list[str]:
    """Generate recovery codes of 79 random bits each, in groups of characters."""
    return [
        "-".join("".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS))
        for _ in range(RECOVERY_CODES)
    ]


def hash_recovery_code(code: str) -> bytes:
    """Return the SHA-256 of a code, typed in any way; a slow hash adds nothing to 79 random bits."""
    typed = "".join(one for one in code.lower() if one.isalnum())
    return hashlib.sha256(typed.encode(errors="surrogatepass")).digest()


# --- between the password and the code ------------------------------------------------------------


def new_ticket(tx: ReadTransaction, user: model.User, browser: str, now: datetime) -> str:
    """Return a ticket that proves, for ``TICKET_TIME`` and in this browser, that the password was right."""
    issued = f"{user.id}.{int(now.timestamp()):x}"
    return f"{issued}.{_ticket_signature(tx, user, browser, issued)}"


def find_ticket_user(tx: ReadTransaction, ticket: str, browser: str, now: datetime) -> model.User | None:
    """Return the user of this ticket, if it is valid, and the user enabled and with the same password."""
    found = _TICKET.fullmatch(ticket)
    user = None if found is None else find_user_by_id(tx, int(found[2]))
    if found is None or user is None or user.disabled_at is not None:
        return None
    if not hmac.compare_digest(found[4], _ticket_signature(tx, user, browser, found[1])):
        return None
    age = now - datetime.fromtimestamp(int(found[3], 16), UTC)
    return user if -_CLOCKS_APART < age < TICKET_TIME else None


def _ticket_signature(tx: ReadTransaction, user: model.User, browser: str, issued: str) -> str:
    return tx.key_ring.sign("the password was right", f"{issued} {browser} {user.password_hash}").hex()


# --- handlers -------------------------------------------------------------------------------------


def enable(work: UnitOfWork, command: model.EnableSecondFactor) -> bool:
    """Turn on a user's second factor; False for a wrong code. Raises ``UnknownUser``."""
    user = _lock_user(work.tx, command.user_id)
    step = _find_step(command.secret, command.code, command.context.now, after=0)
    if step is None:
        return False
    store.delete_factor(work.tx, user.id)
    store.save_new_factor(work.tx, model.SecondFactor(user.id, command.secret, command.context.now, step))
    store.save_codes(work.tx, user.id, command.code_hashes)
    renew_session(work.tx, user.id, command.session, command.new_session)
    work.record_event("user.second_factor_enabled", command, _of(user))
    return True


def disable(work: UnitOfWork, command: model.DisableSecondFactor) -> bool:
    """Turn off a user's second factor; False for a wrong code. Raises ``UnknownUser``."""
    user = _lock_user(work.tx, command.user_id)
    if store.lock_factor(work.tx, user.id) is None:
        return True
    if command.code is not None and take(work, command, user, command.code) is None:
        return False
    store.delete_factor(work.tx, user.id)
    renew_session(work.tx, user.id, command.session, command.new_session)
    work.record_event("user.second_factor_disabled", command, _of(user))
    return True


def renew_codes(work: UnitOfWork, command: model.RenewRecoveryCodes) -> bool:
    """Replace a user's recovery codes; False for a wrong code. Raises ``UnknownUser``."""
    user = _lock_user(work.tx, command.user_id)
    if take(work, command, user, command.code) is None:
        return False
    store.save_codes(work.tx, user.id, command.code_hashes)
    work.record_event("user.recovery_codes_renewed", command, _of(user))
    return True


def take(
    work: UnitOfWork, command: Command, user: model.User, code: str, *, is_known: bool = True
) -> str | None:
    """Redeem a code of the user's app (``app``) or a recovery code (``recovery``), each accepted once. None
    for a wrong code, which is counted, up to the limit of the browser.
    """
    factor = store.lock_factor(work.tx, user.id)
    if factor is None:
        return None
    step, failed = None, factor.failed_attempts
    is_open = failed < (MAX_KNOWN_FAILURES if is_known else MAX_FAILURES)
    if is_open:
        step = _find_step(factor.secret, code, command.context.now, after=factor.last_step)
    if step is not None:
        store.save_attempt(work.tx, replace(factor, last_step=step, failed_attempts=0))
        return "app"
    if store.take_code(work.tx, user.id, hash_recovery_code(code)):
        store.save_attempt(work.tx, replace(factor, failed_attempts=0))
        left = store.count_codes(work.tx, user.id)
        work.record_event("user.recovery_code_used", command, _of(user) | {"left": left})
        return "recovery"
    store.save_attempt(work.tx, replace(factor, failed_attempts=failed + is_open))
    work.record_event("user.code_refused", command, _of(user))
    return None


def _find_step(secret: str, code: str, now: datetime, *, after: int) -> int | None:
    """Return the time step of this code, if it is valid now and later than the step ``after``."""
    import pyotp

    typed = "".join(code.split())
    if _CODE.fullmatch(typed) is None:
        return None
    here, totp = int(now.timestamp()) // _STEP, pyotp.TOTP(secret)
    # A last step in the future was stored by a server whose clock was wrong.
    first = after + 1 if after <= here + 1 else here - 1
    for step in range(max(first, here - 1), here + 2):
        if step != after and hmac.compare_digest(totp.generate_otp(step), typed):
            return step
    return None


def _lock_user(tx: WriteTransaction, user_id: int) -> model.User:
    user = lock_user(tx, user_id)
    if user is None:
        raise UnknownUser
    return user


def _of(user: model.User) -> dict[str, Any]:
    return {"user_id": user.id, "user": user.name}


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    model.EnableSecondFactor: enable,
    model.DisableSecondFactor: disable,
    model.RenewRecoveryCodes: renew_codes,
}
