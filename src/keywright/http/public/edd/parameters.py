"""Parses the parameters of a call as PHP does, and package links that the old site created."""

import base64
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, unquote

from keywright.core.errors import MalformedForm
from keywright.http.pages.forms import parse_multipart
from keywright.licensing.activations.sites import Item

Parameters = dict[str, Any]

#: The most products and the most parameters in one call.
MAX_PRODUCTS, _MAX_FIELDS = 50, 1_000
_PRODUCT = re.compile(r"products\[([^\[\]]{1,200})\]\[([a-z_]{1,40})\]")
_MULTIPART = b"multipart/form-data"
_FALSE = ("", "0", "false")


def parse_form(kind: bytes, body: bytes) -> Parameters:
    """Parse the parameters of a query or a body; ``products`` maps slugs to the parameters of each product.
    Raises ``MalformedForm``.
    """
    if kind.partition(b";")[0].strip().lower() == _MULTIPART:
        fields, _files = parse_multipart(kind.decode("latin-1"), body)
        return _from_pairs(fields)
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise MalformedForm from None
    return _from_pairs(pairs)


def _from_pairs(pairs: Iterable[tuple[str, str]]) -> Parameters:
    found: Parameters = {}
    for name, value in pairs:
        of_product = _PRODUCT.fullmatch(name)
        if of_product is None:
            found[name] = value
        elif isinstance(products := found.setdefault("products", {}), dict):
            products.setdefault(of_product[1], {})[of_product[2]] = value
    if len(found.get("products", ())) > MAX_PRODUCTS:
        raise MalformedForm
    return found


def read(parameters: Parameters, name: str) -> str:
    """Return a text parameter, percent-decoded once more; "" if it is missing."""
    value = parameters.get(name)
    return unquote(value).strip() if isinstance(value, str) else ""


def read_item(parameters: Parameters) -> Item:
    """Return the product that the parameters name. PHP sends false as 0 or as an empty text."""
    number = read(parameters, "item_id")
    name = read(parameters, "item_name") or read(parameters, "name")
    return Item(number if number not in _FALSE else None, name if name not in _FALSE else None)


def is_true(parameters: Parameters, name: str) -> bool:
    """Whether a boolean parameter is true."""
    return read(parameters, name).lower() not in _FALSE


def parse_package(token: str) -> Parameters:
    """Parse the parameters in a package link that the old site created; empty if the token is malformed.

    The link's hash and expiry are ignored, because the license is checked again.
    """
    try:
        padded = unquote(token) + "=" * (-len(unquote(token)) % 4)
        parts = base64.b64decode(padded, validate=True).decode().split(":")
    except ValueError:
        return {}
    if len(parts) < 5:
        return {}
    _ends_at, license, item_id, _hash, url, *_beta = parts
    return {"license": license, "item_id": item_id, "url": url.replace("@", ":")}
