"""What a site of WordPress shows of a plugin: texts, pictures, requirements, and why there is no package."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from markdown_it import MarkdownIt

from keywright.licensing.activations.model import NamedProduct
from keywright.licensing.updates.model import Known
from keywright.licensing.updates.rules import Decision, UpdateCode

_MESSAGES = {
    UpdateCode.UNKNOWN_LICENSE: "No license key has been provided.",
    UpdateCode.NEWER_NOT_COVERED: "The license has to be renewed for this version.",
    UpdateCode.DISABLED: "The license is disabled.",
    UpdateCode.INACTIVE: "The license is disabled.",
    UpdateCode.NOT_ACTIVATED: "The license is not active on this site.",
    UpdateCode.FINGERPRINT_REQUIRED: "The license is not active on this site.",
}
#: What is set in the metadata of a product: pictures, and texts of its page.
_ICONS = {"1x": "icon_1x", "2x": "icon_2x", "svg": "icon_svg"}
_BANNERS = {"high": "banner_high", "low": "banner_low"}
#: MySQL of old sites keeps no character beyond the first plane.
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
#: The longest text of changes, in characters.
_MAX_CHANGES = 20_000
_markdown = MarkdownIt("commonmark", {"html": False})


def describe(product: NamedProduct) -> dict[str, str]:
    """The texts in the metadata of a product."""
    kept = {} if product.metadata is None else msgspec.json.decode(product.metadata)
    return {name: value for name, value in kept.items() if isinstance(value, str)}


def pictures(about: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Addresses of pictures; "" for those that there are not."""
    return {size: about.get(name, "") for size, name in names.items()}


def icons_of(about: Mapping[str, str]) -> dict[str, str]:
    """The icons that there are."""
    return {size: url for size, url in pictures(about, _ICONS).items() if url}


def banners_of(about: Mapping[str, str]) -> dict[str, str]:
    """The banners, "" for those that there are not."""
    return pictures(about, _BANNERS)


def sections_of(product: NamedProduct, shown: Iterable[Known]) -> dict[str, str]:
    """The texts of a product's page: what it is, and what is new, as HTML."""
    about, changes = describe(product), ""
    for one in shown:
        part = f"<h4>{one.release.version}</h4>\n{to_html(one.release.notes or '')}"
        if len(changes) + len(part) > _MAX_CHANGES:
            break
        changes += part
    description = to_html(about.get("description", product.name or ""))
    return {"description": encode_astral(description), "changelog": encode_astral(changes)}


@lru_cache(maxsize=512)
def to_html(notes: str) -> str:
    """Markdown as HTML, in which HTML is text."""
    return str(_markdown.render(notes))


def encode_astral(text: str) -> str:
    """A text whose characters beyond the first plane are references."""
    return _ASTRAL.sub(lambda one: f"&#x{ord(one[0]):x};", text)


def requirement(newest: Known | None, name: str) -> str:
    """The least version of what a release runs on."""
    return "" if newest is None else newest.release.requires.get(name, "")


def tested_with(newest: Known | None) -> str:
    """The newest WordPress that a release was tested with, as its metadata state."""
    return "" if newest is None else str((newest.release.metadata or {}).get("tested", ""))


def message_of(decision: Decision) -> str:
    """Why there is no package, in a sentence."""
    return next((_MESSAGES[one] for one in decision.codes if one in _MESSAGES), "")


def message_of_wrong(name: str) -> str:
    """The sentence of EDD for a key that is none of the product's, which some clients look for."""
    return f"License key is not valid for {name}".strip()


def date_of(newest: Known | None) -> str:
    """When a release was published."""
    at = None if newest is None else newest.release.released_at
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"
