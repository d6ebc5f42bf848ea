"""Licenses as programs see them."""

from collections.abc import Mapping

import msgspec

from keywright.licensing.licenses.model import License


class NamedProduct(msgspec.Struct, frozen=True, gc=False):
    """A product; a number that no product has is shown without code and name."""

    id: int
    code: str | None = None
    name: str | None = None


class NamedPolicy(msgspec.Struct, frozen=True, gc=False):
    """A policy; None is the name of one that was deleted."""

    id: int
    name: str | None = None


class LicenseView(msgspec.Struct, frozen=True, gc=False):
    """A license, the names of what it refers to, and the use of its meters now, by meter."""

    license: License
    product: NamedProduct | None = None
    policy: NamedPolicy | None = None
    usage: Mapping[str, int] = {}
