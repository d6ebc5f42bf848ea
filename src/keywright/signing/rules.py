"""License files as text, requests for them, the content of a signed answer, and its expiry. Pure."""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from keywright.core import errors as e
from keywright.core.parsing import MAX_ID, is_storable
from keywright.licensing.activations.model import Activation, LicenseView
from keywright.licensing.leases.model import Lease
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.keys import normalize_key
from keywright.licensing.licenses.model import License
from keywright.licensing.updates.notices import AnsweredNotice
from keywright.licensing.validation import Code, Findings
from keywright.signing.jws import decode_base64url, encode_base64url
from keywright.signing.model import Claims, SignedActivation, SignedLease, SigningKey

_BEGIN, _END = "-----BEGIN KEYWRIGHT LICENSE-----", "-----END KEYWRIGHT LICENSE-----"
_WIDTH = 64
#: The largest file, in bytes.
MAX_FILE = 64 * 1024


def write_license_file(token: bytes) -> bytes:
    """Return the token between the two marker lines, in lines of 64 characters that end with LF."""
    text = token.decode()
    lines = (text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH))
    return "\n".join([_BEGIN, *lines, _END, ""]).encode()


def read_license_file(content: bytes) -> bytes:
    """Return the token in a license file; text outside the marker lines is ignored.

    Raises ``ValueError`` with a reason.
    """
    if len(content) > MAX_FILE:
        raise ValueError("is larger than 64 KiB")
    _, begin, rest = content.partition(_BEGIN.encode())
    inside, end, _ = rest.partition(_END.encode())
    if not begin or not end:
        raise ValueError(f"has no text between “{_BEGIN}” and “{_END}”")
    return b"".join(inside.split())


_PREFIX = "keywright-request:"
_SPACES = re.compile(r"\s+")
#: The longest text of a request, in characters.
MAX_REQUEST = 8 * 1024


class OfflineRequest(msgspec.Struct, frozen=True):
    """The license, the device that needs a file, and the program that asks for it."""

    license_key: Annotated[str, Meta(min_length=1)]
    fingerprint: Annotated[str, Meta(min_length=8, max_length=256)]
    name: Annotated[str, Meta(max_length=255)] | None = None
    product: Annotated[int, Meta(ge=0, le=MAX_ID)] | Annotated[str, Meta(max_length=64)] | None = None
    built_at: Annotated[datetime, Meta(tz=True)] | None = None


_decode = msgspec.json.Decoder(OfflineRequest).decode


def parse_request(text: str) -> OfflineRequest:
    """Parse the request in a text; spaces and line ends in it, and any text before it, are ignored.

    Raises ``OfflineRequestUnreadable``.
    """
    _, prefix, encoded = text.partition(_PREFIX)
    if not prefix or len(text) > MAX_REQUEST:
        raise e.OfflineRequestUnreadable
    try:
        asked = _decode(decode_base64url(_SPACES.sub("", encoded).encode()))
        if not all(is_storable(str(one)) for one in (asked.fingerprint, asked.name, asked.product)):
            raise e.OfflineRequestUnreadable
        built_at = None if asked.built_at is None else asked.built_at.astimezone(UTC).replace(microsecond=0)
        return msgspec.structs.replace(asked, license_key=normalize_key(asked.license_key), built_at=built_at)
    except (ValueError, OverflowError, msgspec.MsgspecError, RecursionError, e.InvalidLicenseKey):
        raise e.OfflineRequestUnreadable from None


#: How long a signed key set is valid.
KEY_SET_LIFE = timedelta(days=30)
#: A key's ``signed_until`` is set this far ahead of need, so that it is written only once in that time.
_AHEAD_DAYS = 7
#: An answer is valid from this long before it was made: the program's clock may be slow.
_EARLY_SECONDS = 300


def issuer_of(first_kid: str) -> str:
    """Return the name of the installation, derived from its first key: it survives new keys and addresses."""
    digest = hashlib.sha256(b"keywright installation:" + first_kid.encode()).digest()
    return f"keywright:{digest[:16].hex()}"


def published(keys: Sequence[SigningKey], now: datetime) -> list[SigningKey]:
    """Return the keys to publish: the newest, and each older one until all that it signed has expired.
    ``keys`` has the newest first.
    """
    return [one for one in keys if one is keys[0] or (one.withdrawn_at is None and now < one.signed_until)]


def signing_sets(keys: Sequence[SigningKey]) -> list[SigningKey]:
    """Return the keys that each sign a key set; ``keys`` has the newest first."""
    older = [one for one in keys[1:] if one.withdrawn_at is None]
    return older if len(older) == len(keys) - 1 else [keys[0], *older]


def extended(ends_at: datetime) -> datetime:
    """Return the moment to record before a key signs an answer that is valid until ``ends_at``."""
    return license_rules.expiry_after(ends_at, _AHEAD_DAYS)


def hash_key(key: str) -> str:
    """Return the hash of a license key in an answer: the answer fits only this key."""
    digest = hashlib.sha256(b"keywright-license-key:" + key.encode()).digest()
    return encode_base64url(digest).decode()


class SignedContent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The content of a signed answer. ``view`` is None where the answer may not show the license, and
    ``shown`` is its public view; ``activation`` is the record of the named device, ``lease`` the lease that
    it holds. ``days`` is the requested lifetime; None is the longest that the terms allow. ``ends_at`` is an
    end that the vendor chose instead. ``asked_product`` is the product that the program named, by ID or code.
    ``removed`` is a ``RemovedDevice``. ``is_file`` is true for a license file, whose device holds no lease.
    Only the answer to a validation has ``notices``.
    """

    findings: Findings
    now: datetime
    view: LicenseView | None = None
    shown: Any = None
    activation: Activation | None = None
    lease: Lease | None = None
    entitlements: tuple[str, ...] = ()
    next_check_at: datetime | None = None
    nonce: str | None = None
    built_at: datetime | None = None
    days: int | None = None
    ends_at: datetime | None = None
    asked_product: int | str | None = None
    is_file: bool = False
    removed: Any = None
    update_token: str | None = None
    notices: tuple[AnsweredNotice, ...] | None = None


def build_claims(content: SignedContent, issuer: str, token_id: str, ends: datetime | None = None) -> Claims:
    """Build the claims of an answer; ``token_id`` is 128 random bits as text. ``ends`` is the answer's
    expiry, if the caller has calculated it.
    """
    now, view, activation, lease = (
        int(content.now.timestamp()),
        content.view,
        content.activation,
        content.lease,
    )
    optional: dict[str, Any] = {}
    if view is None and isinstance(content.asked_product, str):
        # The answer is for the program that asked; it reveals nothing about the license.
        optional["aud"] = content.asked_product
    if view is not None:
        optional["sub"] = f"license:{view.license.id}"
        if view.product is not None and view.product.code is not None:
            optional["aud"] = view.product.code
        if activation is not None and activation.deactivated_at is None:
            optional["activation"] = SignedActivation(activation.id, activation.fingerprint)
        if lease is not None:
            optional["lease"] = SignedLease(lease.lease_id, lease.holder, lease.expires_at)
    given = {name: getattr(content, name) for name in ("removed", "update_token", "notices")}
    optional |= {name: value for name, value in given.items() if value is not None}
    ends = ends or ends_at(content)
    if content.built_at is not None and ends > ends_at(msgspec.structs.replace(content, built_at=None)):
        # The answer to a newer build would expire earlier, or be negative.
        optional["built_at"] = content.built_at
    return Claims(
        iss=issuer,
        jti=token_id,
        iat=now,
        nbf=now - _EARLY_SECONDS,
        exp=int(ends.timestamp()),
        valid=content.findings.is_valid,
        code=content.findings.code,
        codes=content.findings.codes,
        license=content.shown,
        entitlements=content.entitlements,
        nonce=content.nonce,
        next_check_at=content.next_check_at,
        **optional,
    )


def ends_at(content: SignedContent) -> datetime:
    """Return the moment at which the answer expires."""
    view, now = content.view, content.now
    if view is None or not content.findings.is_valid:
        return now + timedelta(seconds=license_rules.CHECK_SECONDS)
    return license_rules.signed_until(
        view.license,
        now,
        days=content.days,
        built_at=content.built_at,
        lease_ends_at=None if content.lease is None else content.lease.expires_at,
        is_file=content.is_file,
        ends_at=content.ends_at,
    )


def require_valid(findings: Findings, license: License) -> None:
    """Raise the refusal for the first finding that blocks, if any."""
    if findings.is_valid:
        return
    code, expires_at = findings.code, license.expires_at
    if code is Code.EXPIRED and expires_at is not None:
        raise (e.VersionNotCovered if Code.VERSION_NOT_COVERED in findings.codes else e.LicenseExpired)(
            expires_at
        )
    if code in (Code.DISABLED, Code.INACTIVE):
        raise (e.LicenseDisabled if code is Code.DISABLED else e.LicenseInactive)(license.key)
    raise e.NotActivated if code is Code.NOT_ACTIVATED else e.FingerprintRequired
