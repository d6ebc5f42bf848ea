"""Check and hash passwords in the threads of the pages; limit failed sign-ins."""

from collections.abc import Mapping, MutableMapping
from threading import Lock
from time import monotonic

from keywright.core.errors import RateLimited
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.pages.formats import _, write_number
from keywright.http.pages.forms import Form
from keywright.http.pages.request import PageRequest
from keywright.http.server.sockets import site_of, source_of
from keywright.identity import passwords
from keywright.identity.model import User
from keywright.identity.passwords import MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH

#: Held while a password is hashed: a hash deliberately takes 64 MiB and a processor, and a flood of sign-ins
#: must not slow down API calls.
_HASHING = Lock()


def check_password(request: PageRequest, user: User | None, password: str) -> bool:
    """Whether the user may sign in with this password. Takes equally long for an unknown user (None)."""
    with request.release_lock(), _HASHING:
        return passwords.check_password(user, password)


def hash_password(request: PageRequest, password: str) -> str:
    """The hash of a password, for storage."""
    with request.release_lock(), _HASHING:
        return passwords.hash_password(password)


def read_new_password(form: Form, name: str, errors: MutableMapping[str, str]) -> str:
    """The field ``new_password``, of the user with this name. Adds messages about it and ``repeated`` to
    ``errors``.
    """
    password = form.raw("new_password")
    if len(password) < MIN_PASSWORD_LENGTH:
        errors["new_password"] = _(
            "A password must have at least %(number)s characters.", number=MIN_PASSWORD_LENGTH
        )
    elif len(password) > MAX_PASSWORD_LENGTH:
        errors["new_password"] = _(
            "A password must have at most %(number)s characters.", number=write_number(MAX_PASSWORD_LENGTH)
        )
    elif passwords.is_easy(password, name):
        errors["new_password"] = _(
            "This password is easy to guess: it is little more than common words, sequences, or the name."
        )
    elif password != form.raw("repeated"):
        errors["repeated"] = _("The two passwords are different.")
    return password


#: The most failed sign-ins per minute: from one address, from the network around it (``site``), for one name.
#: For a browser that is known for the user, ``known`` replaces these. ``code`` limits the wrong codes of one
#: user, ``known_code`` those from such a browser.
SIGN_IN_LIMITS = {"address": 10, "site": 30, "name": 20, "known": 10, "code": 10, "known_code": 10}


def sources_of(address: str, name: str) -> dict[str, str]:
    """The sources against which a sign-in from an unknown browser is counted."""
    return {"address": source_of(address), "site": site_of(address), "name": name.casefold()}


class Attempts:
    """Counts attempts per minute for each kind of source (``address``, ``name``). It is thread-safe."""

    def __init__(self, **limits: int) -> None:
        self._limits = {kind: RateLimit(per_minute) for kind, per_minute in limits.items()}
        self._lock = Lock()

    def begin(self, sources: Mapping[str, str]) -> None:
        """Count an attempt. Raises ``RateLimited`` and counts nothing if one of these sources must wait."""
        taken: dict[str, str] = {}
        try:
            for kind, source in sources.items():
                with self._lock:
                    self._limits[kind].take(monotonic(), source)
                taken[kind] = source
        except RateLimited:
            self.undo(taken)
            raise

    def undo(self, sources: Mapping[str, str]) -> None:
        """Take back a counted attempt, because it succeeded."""
        with self._lock:
            for kind, source in sources.items():
                self._limits[kind].give_back(monotonic(), source)
