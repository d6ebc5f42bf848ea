"""Codes of second factors, as users type them."""

from keywright.http.pages.languages import N_, _
from keywright.http.pages.request import PageRequest
from keywright.identity import second_factor_store
from keywright.identity.model import User
from keywright.identity.second_factors import MAX_FAILURES

WRONG_CODE = N_("This code is wrong, or was used before. Wait for the next one.")
_ONLY_RECOVERY = N_(
    "Too many codes were wrong. Use a recovery code, or ask an administrator to turn your second factor off."
)


def is_recovery_code(code: str) -> bool:
    """Whether the text is longer than the code that an app shows."""
    return len(code) > len("123 456")


def wrong_code_message(request: PageRequest, user: User) -> str:
    """The message about a wrong code."""
    factor = request.ask(lambda tx: second_factor_store.find_factor(tx, user.id))
    is_locked = factor is not None and factor.failed_attempts >= MAX_FAILURES
    return _(_ONLY_RECOVERY if is_locked else WRONG_CODE)
