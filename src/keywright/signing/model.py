"""Signed answers: the claims, and the keys that sign them."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from keywright.licensing.activations.model import Activation, DevicePlace
from keywright.licensing.updates.notices import AnsweredNotice


class TokenType(StrEnum):
    """The ``typ`` of what is signed: no token of one type can be taken for one of the other."""

    LICENSE = "keywright-license+jwt"
    KEYS = "keywright-keys+jwt"
    USAGE = "keywright-usage+jwt"
    UPDATE = "keywright-update+jwt"


class SignedActivation(msgspec.Struct, frozen=True, gc=False):
    """The device that holds a place: a program on another one refuses the answer."""

    id: int
    fingerprint: str | None


class SignedLease(msgspec.Struct, frozen=True, gc=False):
    """The lease that is held: a program refuses that of another holder."""

    id: str
    holder: str
    expires_at: datetime


class Claims(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The payload of a signed answer, in the order of its members.

    ``iat``, ``nbf`` and ``exp`` are seconds since 1970 (RFC 7519). ``license`` is the public view with its
    ``key_hash``, None where an answer may not show it; ``aud``, ``sub``, ``activation`` and ``lease`` are
    absent then, and where there is none. ``removed`` is a ``RemovedDevice``, if the device took the place of
    one that its program may see. ``built_at`` is there where the answer is good for one build alone,
    ``notices`` in that to a validation.
    """

    iss: str
    aud: str | UnsetType = UNSET
    sub: str | UnsetType = UNSET
    jti: str
    iat: int
    nbf: int
    exp: int
    valid: bool
    code: str
    codes: tuple[str, ...]
    license: Any
    activation: SignedActivation | UnsetType = UNSET
    lease: SignedLease | UnsetType = UNSET
    removed: Any = UNSET
    built_at: datetime | UnsetType = UNSET
    update_token: str | UnsetType = UNSET
    notices: tuple[AnsweredNotice, ...] | UnsetType = UNSET
    entitlements: tuple[str, ...]
    nonce: str | None
    next_check_at: datetime | None


class Jwk(msgspec.Struct, frozen=True, gc=False):
    """A public key (RFC 7517, RFC 8037). It has no ``alg``: both names of the algorithm verify."""

    kty: str
    crv: str
    x: str
    kid: str
    use: str


class KeySetClaims(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The payload of a signed key set: the public keys of the installation, the newest first."""

    iss: str
    iat: int
    exp: int
    keys: tuple[Jwk, ...]


class SigningKey(msgspec.Struct, frozen=True, gc=False):
    """A key as it is stored. ``public_key`` is base64url of 32 bytes (``x`` of its JWK), ``kid`` its
    thumbprint (RFC 7638). Nothing that it signed is good at or after ``signed_until``. A key that was
    withdrawn has no private half any more.
    """

    id: int
    kid: str
    public_key: str
    created_at: datetime
    signed_until: datetime
    withdrawn_at: datetime | None = None


class LoadedKeys(msgspec.Struct, frozen=True, gc=False):
    """Every key of the installation, the newest first, and the private half of that one: it signs."""

    keys: tuple[SigningKey, ...]
    private_key: bytes

    def __repr__(self) -> str:
        """Without the private half."""
        return f"LoadedKeys({self.keys!r})"

    @property
    def newest(self) -> SigningKey:
        """The key that signs."""
        return self.keys[0]

    @property
    def oldest(self) -> SigningKey:
        """The first key, which names the installation."""
        return self.keys[-1]


class LicenseFile(msgspec.Struct, frozen=True, gc=False):
    """A license file, the moment from which it is good no more, and the device that it is for."""

    content: bytes
    license_id: int
    ends_at: datetime
    activation: Activation | None


class FileWithPlace(msgspec.Struct, frozen=True, gc=False):
    """A license file, and the place that its device was given, and how."""

    file: LicenseFile
    place: DevicePlace
