"""Commands about signing keys and license files."""

from datetime import datetime

from keywright.core.command import Command, Query
from keywright.licensing.activations.model import ActivateDevice, ProgramCommand
from keywright.signing.jws import SignatureAlg


class MakeFirstKey(Command, frozen=True, kw_only=True):
    """Make the first signing key, if there is none."""


class RotateSigningKey(Command, frozen=True, kw_only=True):
    """Make a new signing key, which signs from now on."""


class WithdrawSigningKey(Command, frozen=True, kw_only=True):
    """Delete the private half of an older key: programs that know only this one find no newer one by it."""

    kid: str


class ExtendKey(Command, frozen=True, kw_only=True):
    """Record that a key may sign what is good until then, before it does."""

    key_id: int
    until: datetime


class MakeLicenseFile(ProgramCommand, frozen=True, kw_only=True):
    """Make a license file for a device, or for every device where none is named.

    ``days`` is the life asked for; None is all that the terms give. ``ends_at`` is for the vendor alone: the
    file is good until then, whatever the terms give, but no longer than the license. With ``is_recorded``, it
    is an event.
    """

    alg: SignatureAlg
    days: int | None = None
    ends_at: datetime | None = None
    nonce: str | None = None
    is_recorded: bool = False


class ActivateForFile(ActivateDevice, frozen=True, kw_only=True):
    """Give a device its place, which it may have already, and make its license file: both, or neither."""

    alg: SignatureAlg


class LoadKeys(Query, frozen=True, kw_only=True):
    """Every key, and the private half of the one that signs."""


class BuildKeySets(Query, frozen=True, kw_only=True):
    """The key sets by which programs that know an older key find the newer ones."""

    now: datetime
    alg: SignatureAlg
