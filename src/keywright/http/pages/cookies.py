"""The cookies of a request, read by our own few lines.

``http.cookies``, which Starlette's ``request.cookies`` stands on, takes quadratic time for backslashes in
some versions of Python (CVE-2024-7592); and our own cookies never need quotes.
"""

from collections.abc import Iterable

#: The longest ``Cookie`` header that is read, in bytes; ours take a few hundred.
MAX_LENGTH = 4096


def parse_cookies(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The cookies by name, each value exactly as it came; of a doubled one the first counts.

    A ``Cookie`` header of more than ``MAX_LENGTH`` bytes is ignored.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        if name == b"cookie" and len(value) <= MAX_LENGTH:
            for pair in value.decode("latin-1").split(";"):
                key, _, text = pair.partition("=")
                found.setdefault(key.strip(), text.strip())
    return found
