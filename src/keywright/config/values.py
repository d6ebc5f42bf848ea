"""Read the value of a setting; raise ``ValueError`` for one that is not allowed."""

import ipaddress
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, SecretStr

from keywright.core.parsing import parse_integer

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_MAX_PORT = 65535
_PATH = r"(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+)*"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_whole(value: object) -> int:
    """An integer, also as text."""
    number = parse_integer(value)
    if number is None:
        raise ValueError
    return number


def trim(value: object) -> object:
    """The text, secret or not, without white space at its ends; other values stay."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return text.strip() if isinstance(text, str) else text


def lower(value: object) -> object:
    """The trimmed text in lower case; other values stay."""
    return value.strip().lower() if isinstance(value, str) else value


def read_path(value: object) -> Path:
    """A path; ``~`` is a home directory."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError
    return Path(os.path.expanduser(value))


def read_url_path(value: object) -> str:
    """A path in URLs, without slashes at its ends."""
    text = value.strip().strip("/") if isinstance(value, str) else ""
    if not re.fullmatch(_PATH, text):
        raise ValueError
    return text


def _items(value: object) -> list[str]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        raise ValueError
    texts = [str(item).strip() for item in items]
    return [text for text in texts if text]


def read_networks(value: object) -> tuple[Network, ...]:
    """Addresses or ranges, comma-separated or a list."""
    return tuple(ipaddress.ip_network(text) for text in _items(value))


def read_origins(value: object) -> tuple[str, ...]:
    """Origins of web sites in lower case, comma-separated or a list."""
    origins = tuple(text.lower() for text in _items(value))
    if not all(_ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError
    return origins


def read_url(value: object) -> str | None:
    """A URL with a scheme, or None."""
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    if not re.fullmatch(r"[a-z][a-z0-9+]*://\S.*", text):
        raise ValueError
    return text


def read_address(value: object) -> str | None:
    """``HOST:PORT``, an IPv6 address in brackets."""
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > _MAX_PORT:
        raise ValueError
    return text


Whole = Annotated[int, BeforeValidator(read_whole)]
UrlPath = Annotated[str, BeforeValidator(read_url_path)]
