"""The objects that every page of the portal works with."""

import base64
import hashlib
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import NamedTuple

from jinja2 import Environment

from keywright.config import Settings
from keywright.http.middleware.body import BodyReader
from keywright.http.pages.languages import Languages
from keywright.http.pages.render import PORTAL
from keywright.http.pages.runner import Runner
from keywright.http.portal.limits import Limits
from keywright.provisioning.brand import Brand, write_style
from keywright.provisioning.store import find_brand

#: How long the brand is known without being read again, in seconds.
_BRAND_KNOWN_FOR = 2.0


class ShownBrand(NamedTuple):
    """The brand with what pages need of it: the address of its style and, if there is one, of its logo."""

    brand: Brand
    style: bytes
    style_url: str
    logo: bytes = b""
    logo_url: str = ""


class BrandCache:
    """The brand as it was in this moment. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shown: ShownBrand | None = None
        self._until = 0.0

    def find(self, runner: Runner) -> ShownBrand:
        """The brand. Only in a thread."""
        with self._lock:
            if self._shown is None or monotonic() >= self._until:
                brand = runner.ask(find_brand)
                if self._shown is None or brand != self._shown.brand:
                    self._shown = show_brand(brand)
                self._until = monotonic() + _BRAND_KNOWN_FOR
            return self._shown


def show_brand(brand: Brand) -> ShownBrand:
    """The brand with its style and logo; their addresses change with them, so that browsers may keep them."""
    style = write_style(brand).encode()
    logo = b"" if brand.logo is None else base64.b64decode(brand.logo)
    logo_url = f"{PORTAL}/logo?v={_digest(logo)}" if logo else ""
    return ShownBrand(brand, style, f"{PORTAL}/brand.css?v={_digest(style)}", logo, logo_url)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class PortalSite:
    """The objects that every page of the portal works with."""

    settings: Settings
    runner: Runner
    templates: Environment
    languages: Languages
    body_reader: BodyReader
    limits: Limits = field(default_factory=Limits)
    brand: BrandCache = field(default_factory=BrandCache)

    @property
    def has_mail(self) -> bool:
        """Whether a code could be mailed: without that, a license key is the only way in."""
        return self.settings.smtp_server is not None
