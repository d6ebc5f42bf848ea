"""Download tickets: each names a file, a license, a device and an end. Tickets are signed, not stored.

A ticket is base32 in lower case, so that it survives clients that change the case of URLs.
"""

import base64
import hmac
import struct
from datetime import datetime, timedelta
from functools import lru_cache

from msgspec import Struct

from keywright.core.crypto import KeyRing
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License

_PURPOSE = "keywright v1 download"
#: The file, the license and the activation (0: none), the end in seconds, and the mark of the license's key.
_FIELDS = struct.Struct(">QQQI4s")
#: A flag in the activation's field: the device must hold its place whatever the terms are.
_HELD = 1 << 63
_MAC_BYTES = 16
_NO_MARK = b"\0" * 4
LENGTH = -(-(_FIELDS.size + _MAC_BYTES) * 8 // 5)


class Ticket(Struct, frozen=True, gc=False):
    """The contents of a ticket."""

    file_id: int
    license_id: int | None
    activation_id: int | None
    ends_at: int
    key_mark: bytes
    needs_place: bool = False


def write_ticket(
    ring: KeyRing,
    file_id: int,
    license: License | None,
    activation: Activation | None,
    now: datetime,
    *,
    needs_place: bool = False,
) -> str:
    """Return a ticket for a file; it is valid for at least seven days."""
    license_id, activation_id = (0 if one is None else one.id for one in (license, activation))
    activation_id |= _HELD if needs_place else 0
    mark = _NO_MARK if license is None else _mark(ring, license)
    plain = _FIELDS.pack(file_id, license_id, activation_id, ticket_end(now), mark)
    return base64.b32encode(plain + _mac(ring, plain)).decode().rstrip("=").lower()


def read_ticket(ring: KeyRing, text: str, now: datetime) -> Ticket | None:
    """Return the contents of a ticket; None if it has ended or was not made here."""
    if len(text) != LENGTH or not text.isascii():
        return None
    try:
        raw = base64.b32decode(text.upper() + "=" * (-LENGTH % 8))
    except ValueError:
        return None
    plain, mac = raw[: _FIELDS.size], raw[_FIELDS.size :]
    if not any([hmac.compare_digest(_mac(one, plain), mac) for one in ring.rings]):
        return None
    file_id, license_id, activation_id, ends_at, mark = _FIELDS.unpack(plain)
    if now.timestamp() >= ends_at:
        return None
    number, needs_place = activation_id & ~_HELD, bool(activation_id & _HELD)
    return Ticket(file_id, license_id or None, number or None, ends_at, mark, needs_place)


def is_of_key(ring: KeyRing, ticket: Ticket, license: License) -> bool:
    """Whether the license still has the key of the time of the ticket: a new key ends tickets."""
    return any([hmac.compare_digest(_mark(one, license), ticket.key_mark) for one in ring.rings])


def _mark(ring: KeyRing, license: License) -> bytes:
    return hmac.digest(_key_of(ring), b"key:" + license.key.encode(), "sha256")[: len(_NO_MARK)]


def _mac(ring: KeyRing, plain: bytes) -> bytes:
    return hmac.digest(_key_of(ring), plain, "sha256")[:_MAC_BYTES]


@lru_cache(maxsize=8)
def _key_of(ring: KeyRing) -> bytes:
    """Return the key of tickets; cached, as deriving it takes longer than everything else about a ticket."""
    return ring.sign(_PURPOSE, "")


#: A ticket is valid for at least one and at most two of these, so that its URL stays the same for a while.
TICKET_LIFE = timedelta(days=7)


def ticket_end(now: datetime) -> int:
    """Return the moment at which a new ticket ends, in seconds: at least 7 and at most 14 days from now."""
    life = int(TICKET_LIFE.total_seconds())
    return (int(now.timestamp()) // life + 2) * life
