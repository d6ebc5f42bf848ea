"""Database URLs, as they may be shown."""

import re


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    if "@" in rest and scheme != "sqlite":
        rest = f"…@{rest.rpartition('@')[2]}"
    return f"{scheme}{mark}{re.sub('(?<=password=)[^&]*', '…', rest)}"
