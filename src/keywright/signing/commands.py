"""Commands about signing keys and license files."""

from datetime import datetime

from keywright.core.command import Command, Query
from keywright.licensing.activations.model import ActivateDevice, ProgramCommand
from keywright.signing.jws import SignatureAlg


class MakeFirstKey(Command, frozen=True, kw_only=True):
    """Make the first signing key, unless there is one."""


class RotateSigningKey(Command, frozen=True, kw_only=True):
    """Make a new signing key, which signs from now on."""


class WithdrawSigningKey(Command, frozen=True, kw_only=True):
    """Delete the private half of an older key: programs that know only this key can no longer discover newer
    ones through it.
    """

    kid: str


class ExtendKey(Command, frozen=True, kw_only=True):
    """Record that a key may sign answers that are valid until then, before it does so."""

    key_id: int
    until: datetime


class MakeLicenseFile(ProgramCommand, frozen=True, kw_only=True):
    """Make a license file for a device, or for every device if none is named.

    ``days`` is the requested lifetime; None is the longest that the terms allow. ``ends_at`` is for the
    vendor only: the file is valid until then, whatever the terms allow, but no longer than the license. With
    ``is_recorded``, an event is recorded.
    """

    alg: SignatureAlg
    days: int | None = None
    ends_at: datetime | None = None
    nonce: str | None = None
    is_recorded: bool = False


class ActivateForFile(ActivateDevice, frozen=True, kw_only=True):
    """Give a device a place, unless it has one, and make its license file: both or neither."""

    alg: SignatureAlg


class LoadKeys(Query, frozen=True, kw_only=True):
    """Every key, and the private half of the one that signs."""


class BuildKeySets(Query, frozen=True, kw_only=True):
    """The key sets through which programs that know an older key discover the newer ones."""

    now: datetime
    alg: SignatureAlg
