"""What WordPress shows about a plugin: texts, images, requirements, and why there is no package."""

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
#: The names of images in the metadata of a product.
_ICONS = {"1x": "icon_1x", "2x": "icon_2x", "svg": "icon_svg"}
_BANNERS = {"high": "banner_high", "low": "banner_low"}
#: Old MySQL databases (utf8mb3) cannot store characters beyond the Basic Multilingual Plane.
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
#: The maximum length of a changelog, in characters.
_MAX_CHANGES = 20_000
_markdown = MarkdownIt("commonmark", {"html": False})


def describe(product: NamedProduct) -> dict[str, str]:
    """The texts in a product's metadata."""
    kept = {} if product.metadata is None else msgspec.json.decode(product.metadata)
    return {name: value for name, value in kept.items() if isinstance(value, str)}


def pictures(about: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The URLs of images by size; "" for each that is missing."""
    return {size: about.get(name, "") for size, name in names.items()}


def icons_of(about: Mapping[str, str]) -> dict[str, str]:
    """The URLs of the icons that exist."""
    return {size: url for size, url in pictures(about, _ICONS).items() if url}


def banners_of(about: Mapping[str, str]) -> dict[str, str]:
    """The URLs of the banners; "" for each that is missing."""
    return pictures(about, _BANNERS)


def sections_of(product: NamedProduct, shown: Iterable[Known]) -> dict[str, str]:
    """The sections of a product's page, as HTML: its description and changelog."""
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
    """Render Markdown to HTML; HTML in it is escaped."""
    return str(_markdown.render(notes))


def encode_astral(text: str) -> str:
    """Replace characters beyond the Basic Multilingual Plane by character references."""
    return _ASTRAL.sub(lambda one: f"&#x{ord(one[0]):x};", text)


def requirement(newest: Known | None, name: str) -> str:
    """The minimum version of something that a release requires; "" if there is none."""
    return "" if newest is None else newest.release.requires.get(name, "")


def tested_with(newest: Known | None) -> str:
    """The newest WordPress that the release was tested with, from its metadata; "" if unknown."""
    return "" if newest is None else str((newest.release.metadata or {}).get("tested", ""))


def message_of(decision: Decision) -> str:
    """The reason why no package is offered; "" if there is none to report."""
    return next((_MESSAGES[one] for one in decision.codes if one in _MESSAGES), "")


def message_of_wrong(name: str) -> str:
    """EDD's message for a key of another product, which some clients look for."""
    return f"License key is not valid for {name}".strip()


def date_of(newest: Known | None) -> str:
    """The time when a release was published; "" if it was not."""
    at = None if newest is None else newest.release.released_at
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"
