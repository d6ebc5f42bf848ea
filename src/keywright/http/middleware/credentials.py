"""From a request to its caller: credentials, and the client's address."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from keywright.core.errors import CredentialsInvalid, CredentialsMissing, InvalidParameters
from keywright.http.v2.parameters import require_single_values

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NAMES = ("consumer_key", "consumer_secret")
#: How many hops of ``X-Forwarded-For`` are read: no chain of proxies is longer.
_MOST_HOPS = 32
#: An address as some proxies write it: with a port, in brackets, in quotes.
_WITH_PORT = re.compile(
    r'(?P<quote>"?)(?:(?P<v4>[0-9.]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\])(?::[0-9]{1,5})?(?P=quote)'
)


def credentials(query: Mapping[str, Any], authorization: Sequence[bytes]) -> tuple[str, str] | None:
    """The consumer key and secret of a request, or None when it brings none.

    Those in the query win over HTTP Basic. Raises ``CredentialsMissing`` for half of a pair,
    ``CredentialsInvalid`` for a Basic header that is none, ``InvalidParameters`` when the query names
    one twice, or as a list, or the header came twice.
    """
    require_single_values(query, NAMES)
    if len(authorization) > 1:
        raise InvalidParameters({"Authorization": "was sent more than once"})
    key, secret = (query.get(name, "") for name in NAMES)
    if key and secret:
        return key, secret
    from_header = _basic(authorization[0]) if authorization else None
    if from_header is None and (key or secret):
        raise CredentialsMissing
    return from_header


def _basic(authorization: bytes) -> tuple[str, str] | None:
    """RFC 7617; other schemes are not ours to judge."""
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


def client_address(peer: str, forwarded_for: Sequence[bytes], trusted: Sequence[Network]) -> str:
    """The address of who is really calling; an IPv4 address as such, also where it came over IPv6.

    ``X-Forwarded-For``, in as many lines as it came, counts only from trusted proxies, and is read from
    the right: the first address that is not a trusted proxy's is the client's; of more than 32 that are, the
    32nd.
    """
    address = _as_such(peer)
    if not is_trusted(peer, trusted):
        return address
    hops = b",".join(forwarded_for).decode("latin-1").rsplit(",", _MOST_HOPS)
    for hop in reversed(hops[-_MOST_HOPS:]):
        try:
            parsed = ipaddress.ip_address(_without_port(hop.strip()))
        except ValueError:
            break
        if "%" in hop:
            # A zone can be any text, and means nothing here.
            break
        address = str(getattr(parsed, "ipv4_mapped", None) or parsed)
        if not _is_within(address, trusted):
            break
    return address


def _without_port(hop: str) -> str:
    """The address in ``203.0.113.9:443`` or ``[2001:db8::9]:443``, quoted or not; anything else as it is."""
    found = _WITH_PORT.fullmatch(hop)
    return (found["v4"] or found["v6"]) if found else hop


def is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    """Whether what this peer says of its own client is believed."""
    return bool(trusted) and _is_within(_as_such(peer), trusted)


def _as_such(peer: str) -> str:
    return peer.removeprefix("::ffff:") if "." in peer else peer


def _is_within(address: str, networks: Sequence[Network]) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)
