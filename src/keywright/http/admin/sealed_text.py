"""Sealed texts for addresses: what was searched for must not appear in the history of a browser, or in the
log of a proxy.
"""

import base64
from typing import Any, TypeVar

import msgspec

from keywright.db import ReadTransaction

Value = TypeVar("Value")


def seal_text(tx: ReadTransaction, value: Any, purpose: bytes) -> str:
    """A value as a text for an address, which only ``unseal_text`` with the same purpose reads."""
    sealed = tx.key_ring.seal(msgspec.msgpack.encode(value), purpose)
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def unseal_text(tx: ReadTransaction, text: str, type: type[Value], purpose: bytes) -> Value:
    """The value of a sealed text. Raises ``ValueError`` for any other text."""
    sealed = base64.urlsafe_b64decode(f"{text}===")
    return msgspec.msgpack.decode(tx.key_ring.unseal(sealed, purpose), type=type)
