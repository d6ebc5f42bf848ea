"""The certificates of PostgreSQL servers."""

import socket
import ssl
import struct
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from time import monotonic

from cryptography import x509

from keywright.db.urls import find_verified_hosts

#: Asks for TLS: https://www.postgresql.org/docs/current/protocol-message-formats.html, "SSLRequest".
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
#: How long a server may take for an answer, and how long that answer is remembered, in seconds.
_TIMEOUT, _KEPT = 2.0, 3600.0


def find_certificate_end(url: str) -> datetime | None:
    """When the first of the certificates ends that connections to this database verify, as it was within the
    last hour; None where none is verified, or no server answers.
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
    # Verified by libpq, for each connection that it makes: nothing but this is believed here.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), timeout=_TIMEOUT) as plain:
        plain.sendall(_SSL_REQUEST)
        if plain.recv(1) != b"S":
            raise ValueError("it offers no TLS")
        with context.wrap_socket(plain, server_hostname=host) as secure:
            return x509.load_der_x509_certificate(secure.getpeercert(True) or b"").not_valid_after_utc
