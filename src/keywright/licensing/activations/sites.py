"""WordPress sites as devices: a site is its host and path, however its address is written. Pure."""

import hashlib
import html
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from urllib.parse import unquote

import idna
from msgspec import Struct

from keywright.licensing.activations.model import Activation, NamedProduct
from keywright.licensing.terms.model import Terms

#: The prefix of a site's fingerprint.
SITE = "site:"
#: The longest address that is parsed, and the longest site in a fingerprint; the rest of a longer one is
#: hashed.
_MAX_ADDRESS, _MAX_SITE = 2_000, 200
_SCHEME = re.compile(r"\A(?:[a-z][a-z0-9+.-]*:)?//+")
_PORT = re.compile(r":[0-9]*$")
_AGENT = re.compile(r"WordPress/[^;]*;\s*([^;\s]+)")


class Item(Struct, frozen=True):
    """The product as a site names it: by its ID, here or in another system, by its name or by its code."""

    id: str | None = None
    name: str | None = None

    def fits(self, product: NamedProduct | None) -> bool:
        """Whether this is the product; if the site names none, every product fits."""
        if self.id is None and self.name is None:
            return True
        if product is None:
            return False
        if self.id is not None:
            return self.id in (str(product.id), product.external_id, product.code)
        name = html.unescape(self.name or "").strip().casefold()
        return name in ((product.name or "").casefold(), product.code)


def parse_site(address: str) -> str | None:
    """Return the site at an address, such as ``example.com/shop``: in lower case, without scheme, user,
    ``www.``, port, query and last slash, with the host in ASCII. The address may be URL-encoded twice, or be
    any name: programs other than sites send one. None if nothing remains.
    """
    text = address[:_MAX_ADDRESS]
    for _ in range(2):
        text = unquote(text) if "%" in text else text
    text = "".join(filter(str.isprintable, text)).strip().lower().replace("\\", "/")
    text = re.split(r"[?#]", _SCHEME.sub("", text), maxsplit=1)[0]
    host, _, path = text.partition("/")
    host = _to_ascii(_PORT.sub("", host.rpartition("@")[2]).rstrip(".").removeprefix("www."))
    folders = [one for one in path.split("/") if one not in ("", ".")]
    site = "/".join([host, *folders])
    if len(site) > _MAX_SITE:
        digest = hashlib.sha256(site.encode(errors="surrogatepass")).hexdigest()[:32]
        site = f"{site[: _MAX_SITE - 33]}~{digest}"
    return site if host else None


def site_of_agent(agent: str) -> str:
    """Return the address in the ``User-Agent`` of WordPress; "" for any other."""
    found = _AGENT.match(agent)
    return "" if found is None else found[1]


def host_of(fingerprint: str | None) -> str | None:
    """Return the host of a site from its fingerprint; None for another device."""
    if fingerprint is None or not fingerprint.startswith(SITE):
        return None
    return fingerprint[len(SITE) :].partition("/")[0]


def is_uncounted(terms: Terms, fingerprint: str | None) -> bool:
    """Whether a site takes no place, because of its host."""
    host = host_of(fingerprint)
    return host is not None and any(fnmatchcase(host, one) for one in terms.uncounted_hosts)


def find_moved(known: Iterable[Activation], fingerprint: str | None) -> Activation | None:
    """Return the site that loses its place to one on the same host: the one activated first."""
    host = host_of(fingerprint)
    held = [one for one in known if one.deactivated_at is None and one.is_counted]
    moved = [one for one in held if host is not None and host_of(one.fingerprint) == host]
    return min(moved, key=lambda one: (one.created_at, one.id), default=None)


def _to_ascii(host: str) -> str:
    """Return the host in punycode, or unchanged if it is invalid."""
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        return host
