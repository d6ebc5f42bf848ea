"""Read the header ``Idempotency-Key``."""

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
    """The command as a call that may be repeated. Raises ``InvalidParameters``.

    An idempotency key belongs to its caller, and to the license with this ``key`` where the call is about
    one. ``write_answer`` makes the answer that is kept from an outcome.
    """
    if not 1 <= len(header) <= _MAX_LENGTH or not all(0x21 <= one <= 0x7E for one in header):
        raise InvalidParameters({"Idempotency-Key": f"must be 1 to {_MAX_LENGTH} visible ASCII characters"})
    api_key_id = None if caller is None else caller.api_key_id
    # The key of a new license is a parameter.
    license_key = key if isinstance(command, LicenseCommand) else ""
    scope = hashlib.sha256(_encode([api_key_id, license_key, header.decode()])).digest()
    # The refusals of other callers would fill the disk.
    keeps_refusals = caller is not None and caller.permissions is Permissions.READ_WRITE
    owner = owner_of(license_key, caller)
    call = IdempotentCall(scope, _digest(command), write_answer, keeps_refusals=keeps_refusals, owner=owner)
    return msgspec.structs.replace(command, idempotency=call)


def owner_of(license_key: str, caller: Caller | None) -> int:
    """The owner of kept answers: a hash of the license key, 0 for callers with more than that."""
    if not license_key or (caller is not None and caller.permissions is not Permissions.CLIENT):
        return 0
    return int.from_bytes(hashlib.sha256(license_key.encode()).digest()[:8], "big", signed=True)


def _digest(command: Command) -> bytes:
    """A hash of what the command asks for, without the caller, the time and the idempotency key."""
    fields = {
        name: value
        for name, value in msgspec.structs.asdict(command).items()
        if name not in Command.__struct_fields__ and value is not msgspec.UNSET
    }
    return hashlib.sha256(_encode_sorted([type(command).__name__, fields])).digest()
