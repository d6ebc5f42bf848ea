"""Read the consumer key and secret of a request."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from keywright.core.errors import CredentialsInvalid, CredentialsMissing, InvalidParameters
from keywright.identity.api_keys import split_token

NAMES = ("consumer_key", "consumer_secret")


def read_credentials(query: Mapping[str, Any], authorization: Sequence[bytes]) -> tuple[str, str] | None:
    """The consumer key and secret; None where the request has none. Those in the query win over HTTP Basic.

    Raises ``CredentialsMissing`` for half of a pair, ``CredentialsInvalid`` for a Basic header that cannot be
    read, ``InvalidParameters`` when the query has one twice or as a list, or the header came twice.
    """
    reasons = {
        name: "must be one value, sent once" for name in NAMES if not isinstance(query.get(name, ""), str)
    }
    if reasons:
        raise InvalidParameters(reasons)
    if len(authorization) > 1:
        raise InvalidParameters({"Authorization": "was sent more than once"})
    key, secret = (query.get(name, "") for name in NAMES)
    if key and secret:
        return key, secret
    from_header = _parse_basic(authorization[0]) if authorization else None
    if from_header is None and (key or secret):
        raise CredentialsMissing
    return from_header


def read_header(authorization: Sequence[bytes]) -> tuple[str, str] | None:
    """The consumer key and secret of the header alone, HTTP Basic or a bearer token (RFC 6750); None for
    another scheme. Raises ``CredentialsMissing`` or ``CredentialsInvalid``.
    """
    if len(authorization) != 1:
        raise CredentialsInvalid
    scheme, _, token = authorization[0].partition(b" ")
    if scheme.lower() != b"bearer":
        return _parse_basic(authorization[0])
    secrets = split_token(token.strip().decode("latin-1"))
    if secrets is None:
        raise CredentialsInvalid
    return secrets


def _parse_basic(authorization: bytes) -> tuple[str, str] | None:
    """The user and password of HTTP Basic (RFC 7617); None for another scheme."""
    scheme, _, encoded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise CredentialsInvalid from None
    key, colon, secret = decoded.partition(":")
    if not colon:
        raise CredentialsInvalid
    if not key or not secret:
        raise CredentialsMissing
    return key, secret
