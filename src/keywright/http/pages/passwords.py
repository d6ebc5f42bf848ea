"""Passwords, as forms bring them."""

from collections.abc import MutableMapping
from threading import Lock

from keywright.http.pages.forms import Form
from keywright.http.pages.request import PageRequest
from keywright.identity import passwords
from keywright.identity.model import User
from keywright.identity.passwords import MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH

#: Hashing takes 64 MiB and a processor, on purpose: a crowd at the door must not slow the calls down.
_ONE_AT_A_TIME = Lock()


def is_right(request: PageRequest, user: User | None, password: str) -> bool:
    """Whether the user may sign in with this password; as much work for nobody."""
    with request.unlocked(), _ONE_AT_A_TIME:
        return passwords.check_password(user, password)


def hashed(request: PageRequest, password: str) -> str:
    """What is kept of a password."""
    with request.unlocked(), _ONE_AT_A_TIME:
        return passwords.hash_password(password)


def new_password(form: Form, errors: MutableMapping[str, str]) -> str:
    """The form's ``new_password``; what is wrong with it or with ``repeated`` goes into ``errors``."""
    password = form.raw("new_password")
    if len(password) < MIN_PASSWORD_LENGTH:
        errors["new_password"] = f"A password has at least {MIN_PASSWORD_LENGTH} characters."
    elif len(password) > MAX_PASSWORD_LENGTH:
        errors["new_password"] = f"A password has at most {MAX_PASSWORD_LENGTH:,} characters."
    elif password != form.raw("repeated"):
        errors["repeated"] = "The two passwords are not the same."
    return password
