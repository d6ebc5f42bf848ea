"""Notes about customers."""

from typing import Any

from keywright.provisioning.customers.model import Customer

_NOTE = "note"


def read_note(customer: Customer) -> str:
    """The note about a customer: the text ``note`` of the metadata, which v3 shows and erasing empties."""
    note = customer.metadata.get(_NOTE)
    return note if isinstance(note, str) else ""


def change_note(note: str | None) -> dict[str, Any]:
    """The change of metadata that leaves this note, or none."""
    return {_NOTE: note or None}
