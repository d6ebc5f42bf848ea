"""Database URLs: how they are shown, and whether their connections are encrypted and verified."""

import ipaddress
import re

#: A parameter whose name ends in "password", and its value. Each letter of the name may be percent-encoded:
#: libpq decodes names, too.
_PASSWORD = re.compile(
    "(" + "".join(f"(?:{letter}|%{ord(letter):x})" for letter in "password") + "=)[^&]*", re.IGNORECASE
)


def without_password(url: str) -> str:
    """Return the URL as it may be shown."""
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    if "@" in rest and scheme != "sqlite":
        rest = f"…@{rest.rpartition('@')[2]}"
    shown = _PASSWORD.sub(r"\1…", rest)
    return f"{scheme}{separator}{shown}"


def find_unverified_hosts(url: str) -> list[str]:
    """List the servers of a PostgreSQL URL that are reached over a network without verified TLS.

    The URL is read as libpq reads it, with the environment (``PGSSLMODE``, ``PGHOST``) as defaults. Without
    verified TLS an attacker on the network path can pose as the server: ``sslmode=require`` encrypts, but
    accepts every certificate.
    """
    from psycopg.pq import Conninfo

    values = {one.keyword: one.val for one in Conninfo.get_defaults()}
    values |= {one.keyword: one.val for one in Conninfo.parse(url.encode()) if one.val is not None}
    if values[b"sslmode"] in (b"verify-ca", b"verify-full") or values.get(b"sslrootcert") == b"system":
        return []
    names, addresses = (_parse_list(values[keyword]) for keyword in (b"host", b"hostaddr"))
    shown = names if any(names) else addresses
    reached = addresses if any(addresses) else names
    return [name for name, host in zip(shown, reached, strict=False) if not is_local(host)]


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
