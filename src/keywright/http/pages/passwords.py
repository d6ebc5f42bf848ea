"""Passwords in forms."""

from collections.abc import MutableMapping
from threading import Lock

from keywright.http.pages.formats import write_number
from keywright.http.pages.forms import Form
from keywright.http.pages.languages import _
from keywright.http.pages.request import PageRequest
from keywright.identity import passwords
from keywright.identity.model import User
from keywright.identity.passwords import MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH

#: Hashing takes 64 MiB and a processor on purpose: a flood of sign-ins must not slow down API calls.
_HASHING = Lock()


def check_password(request: PageRequest, user: User | None, password: str) -> bool:
    """Whether the user may sign in with this password. Takes as long for an unknown user."""
    with request.release_lock(), _HASHING:
        return passwords.check_password(user, password)


def hash_password(request: PageRequest, password: str) -> str:
    """The hash of a password, to be stored."""
    with request.release_lock(), _HASHING:
        return passwords.hash_password(password)


def read_new_password(form: Form, errors: MutableMapping[str, str]) -> str:
    """The field ``new_password``; messages about it or about ``repeated`` are added to ``errors``."""
    password = form.raw("new_password")
    if len(password) < MIN_PASSWORD_LENGTH:
        errors["new_password"] = _(
            "A password has at least %(number)s characters.", number=MIN_PASSWORD_LENGTH
        )
    elif len(password) > MAX_PASSWORD_LENGTH:
        errors["new_password"] = _(
            "A password has at most %(number)s characters.", number=write_number(MAX_PASSWORD_LENGTH)
        )
    elif password != form.raw("repeated"):
        errors["repeated"] = _("The two passwords are not the same.")
    return password
