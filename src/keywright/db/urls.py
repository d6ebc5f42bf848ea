"""Database URLs: how to show them, and whether their connections are encrypted and verified."""

import ipaddress
import re
import socket
import ssl
import struct
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from time import monotonic

#: A parameter whose name ends in "password", and its value. Each letter of the name may be percent-encoded,
#: as libpq also decodes names.
_PASSWORD = re.compile(
    "(" + "".join(f"(?:{letter}|%{ord(letter):x})" for letter in "password") + "=)[^&]*", re.IGNORECASE
)


def without_password(url: str) -> str:
    """Return the URL without its password, to be shown."""
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    if "@" in rest and scheme != "sqlite":
        rest = f"…@{rest.rpartition('@')[2]}"
    shown = _PASSWORD.sub(r"\1…", rest)
    return f"{scheme}{separator}{shown}"


def find_unverified_hosts(url: str) -> list[str]:
    """List the servers of a PostgreSQL URL that are reached over a network without verified TLS.

    The URL is parsed as libpq does, with the environment (``PGSSLMODE``, ``PGHOST``) as defaults. Without
    verified TLS, an attacker on the network path can impersonate the server: ``sslmode=require`` encrypts,
    but accepts any certificate.
    """
    is_verified, hosts = _read_hosts(url)
    return [] if is_verified else [name for name, reached, _ in hosts if not is_local(reached)]


def find_verified_hosts(url: str) -> list[tuple[str, int]]:
    """List the servers of a PostgreSQL URL whose certificates are verified, and their ports."""
    is_verified, hosts = _read_hosts(url)
    return [(one, port) for _, one, port in hosts if is_verified and one and not one.startswith(("/", "@"))]


def _read_hosts(url: str) -> tuple[bool, list[tuple[str, str, int]]]:
    """Whether certificates are verified; and each server's name, the address to reach it at, and port."""
    from psycopg.pq import Conninfo

    values = {one.keyword: one.val for one in Conninfo.get_defaults()}
    values |= {one.keyword: one.val for one in Conninfo.parse(url.encode()) if one.val is not None}
    is_verified = values[b"sslmode"] in (b"verify-ca", b"verify-full")
    names, addresses, ports = (_parse_list(values[keyword]) for keyword in (b"host", b"hostaddr", b"port"))
    shown = names if any(names) else addresses
    reached = addresses if any(addresses) else names
    ports = ports * len(reached) if len(ports) == 1 else ports
    hosts = [(name, at, int(port or 5432)) for name, at, port in zip(shown, reached, ports, strict=False)]
    return is_verified or values.get(b"sslrootcert") == b"system", hosts


def _parse_list(value: bytes | None) -> list[str]:
    return (value or b"").decode(errors="replace").split(",")


def is_local(host: str) -> bool:
    """Whether the host is this machine: a socket, or a loopback address."""
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


#: Requests TLS: https://www.postgresql.org/docs/current/protocol-message-formats.html, "SSLRequest".
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
#: The timeout for an answer of a server, and how long that answer is cached, in seconds.
_TIMEOUT, _KEPT = 2.0, 3600.0


def find_certificate_end(url: str) -> datetime | None:
    """Return when the first of the certificates expires that connections to this database verify, cached for
    up to an hour; None if none is verified, or no server answers.
    """
    return None if url.startswith("sqlite:") else _find_end(url, int(monotonic() / _KEPT))


@lru_cache(maxsize=2)
def _find_end(url: str, _hour: int) -> datetime | None:
    ends = []
    for host, port in find_verified_hosts(url):
        with suppress(OSError, ValueError):
            ends.append(_ask(host, port))
    return min(ends, default=None)


def _ask(host: str, port: int) -> datetime:
    from cryptography import x509

    # libpq verifies the certificate for each of its connections; here, only the expiry is read.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), timeout=_TIMEOUT) as plain:
        plain.sendall(_SSL_REQUEST)
        if plain.recv(1) != b"S":
            raise ValueError("it offers no TLS")
        with context.wrap_socket(plain, server_hostname=host) as secure:
            return x509.load_der_x509_certificate(secure.getpeercert(True) or b"").not_valid_after_utc
