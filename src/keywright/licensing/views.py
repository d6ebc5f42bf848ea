"""Licenses as programs see them."""

from collections.abc import Mapping

import msgspec

from keywright.licensing.licenses.model import License


class NamedProduct(msgspec.Struct, frozen=True, gc=False):
    """A product; a number that no product has is shown without code and name."""

    id: int
    code: str | None = None
    name: str | None = None
    renew_url: str | None = None

    def link_to_renew(self, license_ref: str) -> str | None:
        """Where the license with this ref is renewed."""
        return None if self.renew_url is None else self.renew_url.replace("{license_ref}", license_ref)


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
