"""Parse the cookies of a request.

Starlette's ``request.cookies`` uses ``http.cookies``, which takes quadratic time for backslashes in some
versions of Python (CVE-2024-7592). The cookies of the pages never need quotes.
"""

from collections.abc import Iterable

#: The longest ``Cookie`` header that is read, in bytes; those of the pages take a few hundred.
MAX_LENGTH = 4096


def parse_cookies(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The cookies by name, with their values as sent. The first of two cookies with one name counts.

    A ``Cookie`` header of more than ``MAX_LENGTH`` bytes is ignored.
    """
    cookies: dict[str, str] = {}
    for name, value in headers:
        if name == b"cookie" and len(value) <= MAX_LENGTH:
            for pair in value.decode("latin-1").split(";"):
                key, _, text = pair.partition("=")
                cookies.setdefault(key.strip(), text.strip())
    return cookies
