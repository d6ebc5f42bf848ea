"""E-mail addresses, and notes about customers."""

import re
from typing import Any

from keywright.core.metadata import read_metadata
from keywright.provisioning.customers.model import Customer

_MAX_LENGTH = 320
_NOTE = "note"
_LANGUAGE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,8}){0,3}", re.ASCII | re.IGNORECASE)
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


def parse_language(text: str) -> str:
    """A tag of a language (BCP 47) as catalogs write it: ``de``, ``pt-BR``. Raises ``ValueError``."""
    if not _LANGUAGE.fullmatch(text):
        raise ValueError("must be a language such as de or pt-BR")
    language, *others = text.replace("_", "-").split("-")
    return "-".join((language.lower(), *(one.upper() if len(one) == 2 else one.title() for one in others)))


def read_note(customer: Customer) -> str:
    """The note about a customer: the text ``note`` of the metadata, which v3 shows and erasing empties."""
    note = read_metadata(customer.metadata).get(_NOTE)
    return note if isinstance(note, str) else ""


def change_note(note: str | None) -> dict[str, Any]:
    """The change of metadata that leaves this note, or none."""
    return {_NOTE: note or None}
