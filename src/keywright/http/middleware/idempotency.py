"""Idempotency keys over v2, and the owners of stored answers."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from keywright.core.command import Command, IdempotentCall
from keywright.core.errors import InvalidParameters
from keywright.identity.model import Caller, Permissions
from keywright.licensing.licenses.model import LicenseCommand

_MAX_LENGTH = 255
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def add_idempotency_key(
    command: Command,
    header: bytes,
    caller: Caller | None,
    key: str,
    write_answer: Callable[[Any], tuple[int, bytes] | None],
) -> Command:
    """Make the command safe to repeat. Raises ``InvalidParameters``.

    An idempotency key is scoped to its caller and, if the call is about a license, to the license with this
    ``key``. ``write_answer`` builds the answer to store from an outcome.
    """
    if not 1 <= len(header) <= _MAX_LENGTH or not all(0x21 <= one <= 0x7E for one in header):
        raise InvalidParameters({"Idempotency-Key": f"must be 1 to {_MAX_LENGTH} visible ASCII characters"})
    api_key_id = None if caller is None else caller.api_key_id
    # A new license's key is a parameter.
    license_key = key if isinstance(command, LicenseCommand) else ""
    scope = hashlib.sha256(_encode([api_key_id, license_key, header.decode()])).digest()
    # Stored refusals of other callers could fill the disk.
    keeps_refusals = caller is not None and caller.permissions is Permissions.READ_WRITE
    owner = owner_of(license_key, caller)
    call = IdempotentCall(scope, _digest(command), write_answer, keeps_refusals=keeps_refusals, owner=owner)
    return msgspec.structs.replace(command, idempotency=call)


def owner_of(license_key: str, caller: Caller | None) -> int:
    """The owner of stored answers: a hash of the license key, or 0 for callers with higher rights."""
    if not license_key or (caller is not None and caller.permissions is not Permissions.CLIENT):
        return 0
    return int.from_bytes(hashlib.sha256(license_key.encode()).digest()[:8], "big", signed=True)


def _digest(command: Command) -> bytes:
    """A hash of what the command asks for, without its caller, time and idempotency key."""
    fields = {
        name: value
        for name, value in msgspec.structs.asdict(command).items()
        if name not in Command.__struct_fields__ and value is not msgspec.UNSET
    }
    return hashlib.sha256(_encode_sorted([type(command).__name__, fields])).digest()
