"""Database URLs: how they may be shown, and whether they protect what goes over the network."""

import ipaddress
import re

#: The name of a parameter that ends so, each letter as it is or as a percent sign and two digits (libpq
#: decodes names, too), and its value.
_PASSWORD = re.compile(
    "(" + "".join(f"(?:{letter}|%{ord(letter):x})" for letter in "password") + "=)[^&]*", re.IGNORECASE
)


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    if "@" in rest and scheme != "sqlite":
        rest = f"…@{rest.rpartition('@')[2]}"
    shown = _PASSWORD.sub(r"\1…", rest)
    return f"{scheme}{mark}{shown}"


def unverified_hosts(url: str) -> list[str]:
    """The servers of a PostgreSQL URL that are reached over a network without verified TLS.

    Read as libpq reads it: where the URL says nothing, its environment (``PGSSLMODE``, ``PGHOST``) counts.
    Without verified TLS an attacker on the network path can be the server: ``sslmode=require`` encrypts, and
    accepts every certificate.
    """
    from psycopg.pq import Conninfo

    said = {one.keyword: one.val for one in Conninfo.get_defaults()}
    said |= {one.keyword: one.val for one in Conninfo.parse(url.encode()) if one.val is not None}
    if said[b"sslmode"] in (b"verify-ca", b"verify-full") or said.get(b"sslrootcert") == b"system":
        return []
    names, addresses = (_items(said[keyword]) for keyword in (b"host", b"hostaddr"))
    shown = names if any(names) else addresses
    reached = addresses if any(addresses) else names
    return [name for name, where in zip(shown, reached, strict=False) if not _is_here(where)]


def _items(value: bytes | None) -> list[str]:
    return (value or b"").decode(errors="replace").split(",")


def _is_here(host: str) -> bool:
    """Whether the host is this machine: a socket, or a loopback address."""
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
