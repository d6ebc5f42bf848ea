"""Signed answers: the claims, and the keys that sign them."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from keywright.licensing.activations.model import Activation, DevicePlace
from keywright.licensing.updates.notices import AnsweredNotice


class TokenType(StrEnum):
    """The ``typ`` of a signed token: a token of one type is never accepted as another."""

    LICENSE = "keywright-license+jwt"
    KEYS = "keywright-keys+jwt"
    USAGE = "keywright-usage+jwt"
    UPDATE = "keywright-update+jwt"


class SignedActivation(msgspec.Struct, frozen=True, gc=False):
    """The device that holds a place: a program on another device rejects the answer."""

    id: int
    fingerprint: str | None


class SignedLease(msgspec.Struct, frozen=True, gc=False):
    """The lease that the program holds: a program rejects the lease of another holder."""

    id: str
    holder: str
    expires_at: datetime


class Claims(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The payload of a signed answer, in the order of its members.

    ``iat``, ``nbf`` and ``exp`` are seconds since 1970 (RFC 7519). ``license`` is the public view with its
    ``key_hash``. If an answer may not show the license, ``license`` is None, and ``sub``, ``activation`` and
    ``lease`` are absent; so is each of these that does not exist. ``aud`` is the code of the product.
    ``removed`` is a ``RemovedDevice``, if the device took the place of one that its program may see.
    ``built_at`` is present if the answer is valid for one build only, ``notices`` in the answer to a
    validation.
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
    """A public key (RFC 7517, RFC 8037). It has no ``alg``: signatures under either name are accepted."""

    kty: str
    crv: str
    x: str
    kid: str
    use: str


class KeySetClaims(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The payload of a signed key set: the public keys of the installation, newest first."""

    iss: str
    iat: int
    exp: int
    keys: tuple[Jwk, ...]


class SigningKey(msgspec.Struct, frozen=True, gc=False):
    """A stored signing key. ``public_key`` is base64url of 32 bytes (``x`` of its JWK), ``kid`` its
    thumbprint (RFC 7638). Its signatures have expired at ``signed_until``. A withdrawn key has no private
    half.
    """

    id: int
    kid: str
    public_key: str
    created_at: datetime
    signed_until: datetime
    withdrawn_at: datetime | None = None


class LoadedKeys(msgspec.Struct, frozen=True, gc=False):
    """Every key of the installation, newest first, and the private half of the newest, which signs."""

    keys: tuple[SigningKey, ...]
    private_key: bytes

    def __repr__(self) -> str:
        """Omit the private half."""
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
    """A license file, the moment at which it expires, and the device that it is for."""

    content: bytes
    license_id: int
    ends_at: datetime
    activation: Activation | None


class FileWithPlace(msgspec.Struct, frozen=True, gc=False):
    """A license file, and the place that its device has, and how it got it."""

    file: LicenseFile
    place: DevicePlace
