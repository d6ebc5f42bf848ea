"""The formats of update frameworks. Each module of this package implements one and defines ``FORMAT``; this
module defines the request that a format gets, and its update check.
"""

import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from keywright.core.errors import DownloadRefused
from keywright.http.answer import Answer, Headers
from keywright.http.middleware.call import Call
from keywright.http.server.sockets import base_of_links
from keywright.licensing.updates.model import ReleaseFile
from keywright.licensing.updates.queries import CheckedUpdate, CheckForUpdate
from keywright.licensing.updates.rules import Asked, Decision


class UpdateRequest(NamedTuple):
    """A request of an update framework. ``token`` is None at the open URL; ``words`` are the format's path
    segments, percent-decoded; ``send`` builds the answer with a file.
    """

    call: Call
    send: Callable[[Call, ReleaseFile], Answer]
    public_url: str | None
    token: str | None
    product: str
    channel: str
    by_hand: bool
    words: tuple[str, ...]

    async def check(
        self, file_name: str | None = None, *, is_shown: bool = False, **asked: Any
    ) -> CheckedUpdate:
        """Find the newest release that may be offered, or a file by its name. Raises ``DownloadRefused`` if
        the license, device or product gets none.
        """
        query = CheckForUpdate(
            now=self.call.now,
            update_token=self.token,
            product=self.product,
            asked=Asked(channel=self.channel, by_hand=self.by_hand, **asked),
            file_name=file_name,
            is_shown=is_shown,
        )
        found: CheckedUpdate = await self.call.desk.query(query, self.call)
        if found.decision.is_refused:
            raise DownloadRefused(found.decision.code)
        return found

    def link(self, found: CheckedUpdate) -> str:
        """Return the URL of the file that was found. Raises ``PublicUrlMissing``."""
        host = self.call.headers.get(b"host", b"").decode("latin-1")
        return f"{base_of_links(self.public_url, self.call.scope['scheme'], host)}{found.path_of_file}"


class Format(NamedTuple):
    """A format: its frameworks, each with the rest of the URL after the product, the number of path segments
    there, and the first of them (None: any).
    """

    addresses: Mapping[str, str]
    words: int
    first: str | None
    answer: Callable[[UpdateRequest], Awaitable[Answer]]

    def fits(self, words: tuple[str, ...]) -> bool:
        """Whether the path ends with segments of this format."""
        return len(words) >= self.words and self.first in (None, words[-self.words])


@cache
def list_formats() -> tuple[Format, ...]:
    """Return all formats; the format that fits any name comes last."""
    names = sorted(one.name for one in pkgutil.iter_modules(__path__, f"{__name__}."))
    found: list[Format] = [import_module(one).FORMAT for one in names]
    return tuple(sorted(found, key=lambda one: one.first is None))


def list_addresses(base: str, product: int | str, token: str) -> Iterator[tuple[str, str]]:
    """Yield each framework with its URL for a product (code or ID) and an update token or ``open``. ``base``
    is the server's URL.
    """
    for one in list_formats():
        for framework, rest in one.addresses.items():
            yield framework, f"{base}/u/{token}/{product}/{rest}"


def begins(call: Call) -> bool:
    """Whether a call requests the first byte of a file: true once per download, even one in ranges."""
    return call.method == "GET" and call.headers.get(b"range", b"bytes=0-").startswith(b"bytes=0-")


def header_of(decision: Decision) -> Headers:
    """Return the header that states why nothing, or nothing newer, is offered; none without a reason."""
    codes = [one for one in decision.codes if decision.file is None or one is not decision.code]
    return ((b"keywright-update", ", ".join(codes).encode()),) if codes else ()
