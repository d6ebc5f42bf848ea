"""The formats of update frameworks: each module here is one, and has ``FORMAT``. Here is what a format knows
of a request, and what it can ask.
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
    """A request of an update framework. ``token`` is None where the address is the open one; ``words`` are
    the format's own, without percent signs. ``send`` makes the answer with a file.
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
        """What may be had: the newest release, or a file by its name. Raises ``DownloadRefused`` for a
        license, device or product that gets nothing.
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
        """The address of the file that was found. Raises ``PublicUrlMissing``."""
        host = self.call.headers.get(b"host", b"").decode("latin-1")
        return f"{base_of_links(self.public_url, self.call.scope['scheme'], host)}{found.path_of_file}"


class Format(NamedTuple):
    """A format: its frameworks, with what follows the address of a product for each, how many words its
    addresses have, and the first of them; None is any.
    """

    addresses: Mapping[str, str]
    words: int
    first: str | None
    answer: Callable[[UpdateRequest], Awaitable[Answer]]

    def fits(self, words: tuple[str, ...]) -> bool:
        """Whether these words end as its addresses do."""
        return len(words) >= self.words and self.first in (None, words[-self.words])


@cache
def list_formats() -> tuple[Format, ...]:
    """All of them, the one of any name last."""
    names = sorted(one.name for one in pkgutil.iter_modules(__path__, f"{__name__}."))
    found: list[Format] = [import_module(one).FORMAT for one in names]
    return tuple(sorted(found, key=lambda one: one.first is None))


def list_addresses(base: str, product: int | str, token: str) -> Iterator[tuple[str, str]]:
    """The address that each framework is given, for a product by its code or number, and an update token or
    ``open``; ``base`` is this server.
    """
    for one in list_formats():
        for framework, rest in one.addresses.items():
            yield framework, f"{base}/u/{token}/{product}/{rest}"


def begins(call: Call) -> bool:
    """Whether a call gets the first byte of a file: once for each download, however many pieces it has."""
    return call.method == "GET" and call.headers.get(b"range", b"bytes=0-").startswith(b"bytes=0-")


def header_of(decision: Decision) -> Headers:
    """The header that states why nothing, or nothing newer, is offered."""
    codes = [one for one in decision.codes if decision.file is None or one is not decision.code]
    return ((b"keywright-update", ", ".join(codes).encode()),) if codes else ()
