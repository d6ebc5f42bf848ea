"""Database URLs, as they may be shown."""

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
