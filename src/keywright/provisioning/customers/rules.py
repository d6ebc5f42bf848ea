"""E-mail addresses."""

import re

_MAX_LENGTH = 320
_EMAIL = re.compile(r"[^\s@<>,;:\"]+@[^\s@<>,;:\"]+")


def parse_email(text: str) -> str:
    """An e-mail address; white space around it is cut off. Raises ``ValueError``."""
    email = text.strip()
    if not _EMAIL.fullmatch(email) or not email.isprintable() or len(fold_email(email)) > _MAX_LENGTH:
        raise ValueError("must be an e-mail address")
    return email


def fold_email(email: str) -> str:
    """The address by which a customer is found, whatever its case."""
    return email.lower()
