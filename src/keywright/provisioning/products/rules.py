"""The codes of products and features, and addresses."""

import re
import unicodedata
from urllib.parse import urlsplit

MAX_FEATURES = 100
_MAX_LENGTH = 64
_CODE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def parse_feature_code(text: str) -> str:
    """The code of a feature. Raises ``ValueError``."""
    if not _CODE.fullmatch(text):
        raise ValueError(
            f"must have 1 to {_MAX_LENGTH} of a-z, 0-9, '_', '.', '-', and begin with a letter or a digit"
        )
    return text


def parse_code(text: str) -> str:
    """The code of a product, which is never a number: programs name a product by either. Raises
    ``ValueError``.
    """
    if text.isdigit():
        raise ValueError("must not be a number: that would be an id")
    return parse_feature_code(text)


def derive_code(name: str) -> str | None:
    """A code made from a product's name; None where nothing is left of it."""
    ascii_letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    code = re.sub(r"[^a-z0-9]+", "-", ascii_letters)[:_MAX_LENGTH].strip("-")
    return None if not code or code.isdigit() else code


def parse_url(text: str) -> str:
    """The address of a page on the web. Raises ``ValueError``."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or not text.isprintable() or " " in text:
        raise ValueError("must be an address such as https://example.com")
    return text
