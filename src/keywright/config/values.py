"""Parse the values of settings; raise ``ValueError`` for invalid ones."""

import ipaddress
import os
import re
from collections.abc import Iterable
from email.utils import parseaddr
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, SecretStr

from keywright.core.parsing import parse_integer, parse_shop_address


def split_address(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT``, where an IPv6 address is in brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def reachable_host(host: str) -> str:
    """Return the host to reach a server at that listens on ``host``, which may stand for all addresses."""
    # Nothing is bound here.
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def web_address(host: str, port: int | str) -> str:
    """Return the URL of a server for links."""
    host = reachable_host(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_this_machine(host: str) -> bool:
    """Return whether the host is a loopback address, or a name of one."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_MAIL_ADDRESS = re.compile(r"[^\s@<>,;:\"]+@[A-Za-z0-9.-]+")
_MAX_PORT = 65535
_MAX_NAME = 255
_MAX_NOTICES, _MAX_NOTICE_DAYS = 5, 365
_PATH = r"(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+)*"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_whole(value: object) -> int:
    """Parse an integer or its text."""
    number = parse_integer(value)
    if number is None:
        raise ValueError
    return number


def trim(value: object) -> object:
    """Trim white space from a text or secret; return other values unchanged."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return text.strip() if isinstance(text, str) else text


def lower(value: object) -> object:
    """Trim a text and convert it to lower case; return other values unchanged."""
    return value.strip().lower() if isinstance(value, str) else value


def to_words(value: object) -> object:
    """Like ``lower``, for a value of several words, which may be joined by ``-`` or ``_``."""
    return re.sub("[-_ ]+", " ", value.strip().lower()) if isinstance(value, str) else value


def parse_path(value: object) -> Path:
    """Parse a path; ``~`` is a home directory."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError
    return Path(os.path.expanduser(value))


def parse_optional_path(value: object) -> Path | None:
    """Parse a path, or None."""
    return None if value is None else parse_path(value)


def parse_url_path(value: object) -> str:
    """Parse a path in URLs; slashes at its ends are removed."""
    text = value.strip().strip("/") if isinstance(value, str) else ""
    if not re.fullmatch(_PATH, text):
        raise ValueError
    return text


def _parse_list(value: object) -> list[str]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        raise ValueError
    texts = [str(item).strip() for item in items]
    return [text for text in texts if text]


def parse_networks(value: object) -> tuple[Network, ...]:
    """Parse addresses or ranges, from a list or comma-separated."""
    return tuple(ipaddress.ip_network(text) for text in _parse_list(value))


def parse_days(value: object) -> tuple[int, ...]:
    """Parse at most five numbers of days from 1 to 365, from a list or comma-separated; the largest first."""
    days = {parse_whole(text) for text in _parse_list(value)}
    if len(days) > _MAX_NOTICES or not all(1 <= one <= _MAX_NOTICE_DAYS for one in days):
        raise ValueError
    return tuple(sorted(days, reverse=True))


def parse_origins(value: object) -> tuple[str, ...]:
    """Parse origins of web sites, from a list or comma-separated, into lower case."""
    origins = tuple(text.lower() for text in _parse_list(value))
    if not all(_ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError
    return origins


def parse_url(value: object) -> str | None:
    """Parse a URL with a scheme, or None."""
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    if not re.fullmatch(r"[a-z][a-z0-9+]*://\S.*", text):
        raise ValueError
    return text


def parse_web_address(value: object) -> str | None:
    """Parse ``http://HOST`` or ``https://HOST:PORT``, without a path, or None."""
    if value is None:
        return None
    text = value.strip().rstrip("/").lower() if isinstance(value, str) else ""
    if not _ORIGIN.fullmatch(text) or not text.startswith(("http://", "https://")):
        raise ValueError
    return text


def parse_issuer(value: object) -> str | None:
    """Parse the address of a provider, ``https://HOST/PATH``, or None; http only for this machine."""
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    url = urlsplit(text)
    is_safe = url.scheme == "https" or (url.scheme == "http" and is_this_machine(url.hostname or ""))
    if not is_safe or not url.hostname or "@" in url.netloc or re.search(r"[\s?#\\]", text):
        raise ValueError
    return text


def parse_names(value: object) -> tuple[str, ...]:
    """Parse names of at most 255 characters, from a list or comma-separated."""
    names = tuple(_parse_list(value))
    if not all(len(one) <= _MAX_NAME and one.isprintable() for one in names):
        raise ValueError
    return names


def parse_relay_url(value: object) -> str | None:
    """Parse the address of a shop, or None."""
    return None if value is None else parse_shop_address(value)


def parse_address(value: object) -> str | None:
    """Parse ``HOST:PORT``, with an IPv6 address in brackets, or None."""
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[2]) > _MAX_PORT:
        raise ValueError
    return text


def parse_smtp_url(value: object) -> SecretStr | None:
    """Parse ``smtp://HOST`` or ``smtps://USER:PASSWORD@HOST:PORT``, or None."""
    if value is None:
        return None
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    url = urlsplit(text.strip() if isinstance(text, str) else "")
    is_complete = url.scheme in ("smtp", "smtps") and url.hostname and url.port != 0
    is_complete = is_complete and not re.search(r"\s", url.hostname or "")
    if not is_complete or url.path.strip("/") or url.query or url.fragment:
        raise ValueError
    if (url.username is None) != (url.password is None):
        raise ValueError
    return SecretStr(url.geturl())


def parse_mail_address(value: object) -> str | None:
    """Parse ``a@example.com`` or ``Name <a@example.com>``, or None."""
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    name, address = parseaddr(text)
    if not text.isprintable() or not _MAIL_ADDRESS.fullmatch(address):
        raise ValueError
    return f"{name} <{address}>" if name else address


def parse_time_of_day(value: object) -> str | None:
    """Parse ``HH:MM``, or None."""
    if value is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value.strip(), re.ASCII):
        raise ValueError
    return value.strip()


def parse_time_zone(value: object) -> str:
    """Parse the name of a time zone of the IANA database."""
    name = value.strip() if isinstance(value, str) else ""
    try:
        return ZoneInfo(name).key
    except (KeyError, OSError):
        raise ValueError from None


def parse_link_template(value: object) -> str | None:
    """Parse the address of a web page in which ``{id}`` stands for a number, or None."""
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    if not re.fullmatch(r"https?://[^\s{}]+\{id\}[^\s{}]*", text, re.ASCII):
        raise ValueError
    return text


Whole = Annotated[int, BeforeValidator(parse_whole)]
UrlPath = Annotated[str, BeforeValidator(parse_url_path)]
