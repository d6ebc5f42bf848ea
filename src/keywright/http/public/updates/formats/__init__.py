"""The formats of update frameworks: each module here is one, and has ``FORMAT``."""

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from keywright.http.public.updates.asking import Format


@cache
def list_formats() -> tuple[Format, ...]:
    """All of them."""
    names = sorted(one.name for one in pkgutil.iter_modules(__path__, f"{__name__}."))
    return tuple(import_module(one).FORMAT for one in names)


def list_addresses(base: str, product: str, token: str) -> Iterator[tuple[str, str]]:
    """The address that each framework is given, for a product by its code or number, and an update token or
    ``open``; ``base`` is this server.
    """
    for one in list_formats():
        for framework, rest in one.addresses.items():
            yield framework, f"{base}/u/{token}/{product}/{rest}"
