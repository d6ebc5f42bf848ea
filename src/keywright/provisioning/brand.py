"""The vendor's brand for the portal and mails: name, logo, color and links. Pure."""

import re

import msgspec
from msgspec import UNSET, UnsetType

from keywright.core.command import Command, Query
from keywright.core.parsing import parse_name


class FooterLink(msgspec.Struct, frozen=True):
    """A link at the end of every page and mail, such as an imprint."""

    text: str
    url: str


class Brand(msgspec.Struct, frozen=True):
    """The look of the portal and of mails. ``color`` is ``#rrggbb``, ``logo`` an image in base64 of the type
    ``logo_type``, ``reply_to`` the address to which customers reply.
    """

    name: str | None = None
    color: str | None = None
    logo: str | None = None
    logo_type: str | None = None
    links: tuple[FooterLink, ...] = ()
    reply_to: str | None = None


class Palette(msgspec.Struct, frozen=True):
    """The brand's color, legible in links, and in buttons with their text, on light and on dark pages."""

    link: str
    button: str
    button_text: str
    dark_link: str
    dark_button: str
    dark_button_text: str


MAX_LOGO_BYTES = 256 * 1024
MAX_LINKS = 6
_MAX_URL = 500
_COLOR = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})")
_URL = re.compile(r"(https?://[^\s\"'<>]+|mailto:[^\s\"'<>]+@[^\s\"'<>]+)")
#: The types of images by their first bytes. SVG is excluded: it can contain scripts.
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
#: The default color, as in ``look.css``.
_DEFAULT = "#24704b"
#: The darkest light background of text, and the lightest dark one; see ``look.css``.
_LIGHT, _DARK = (0xEF, 0xF2, 0xF0), (0x22, 0x2A, 0x26)
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)
#: The minimum contrast of text; and of a button, so that it is recognized as one.
_OF_TEXT, _OF_BUTTONS = 4.5, 1.5

_STYLE = """\
:root {{
  --link: light-dark({0.link}, {0.dark_link});
  --link-hover: light-dark({0.link}, {0.dark_link});
  --focus: light-dark({0.link}, {0.dark_link});
  --primary: light-dark({0.button}, {0.dark_button});
  --on-primary: light-dark({0.button_text}, {0.dark_button_text});
}}
"""

_Rgb = tuple[int, int, int]


def parse_color(text: str) -> str:
    """Normalize a color: ``#24704B``, ``24704b`` and ``#274`` become ``#rrggbb``. Raises ``ValueError``."""
    color = "#" + text.strip().lower().removeprefix("#")
    if not _COLOR.fullmatch(color):
        raise ValueError("must be a color such as #24704b")
    return color if len(color) == 7 else "#" + "".join(2 * one for one in color[1:])


def find_image_type(content: bytes) -> str:
    """Return the MIME type of an image. Raises ``ValueError`` for a file that cannot be a logo."""
    if len(content) > MAX_LOGO_BYTES:
        raise ValueError(f"must have at most {MAX_LOGO_BYTES // 1024} kB")
    found = next((kind for pattern, kind in _IMAGES if pattern.match(content)), None)
    if found is None:
        raise ValueError("must be a PNG, JPEG or WebP image")
    return found


def parse_links(text: str) -> tuple[FooterLink, ...]:
    """Parse links, one per line: ``Imprint https://example.com/imprint``. Raises ``ValueError``."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_LINKS:
        raise ValueError(f"must have at most {MAX_LINKS} links")
    return tuple(map(_parse_link, lines))


def _parse_link(line: str) -> FooterLink:
    words, _, url = line.rpartition(" ")
    if not words.strip() or len(url) > _MAX_URL or not _URL.fullmatch(url):
        raise ValueError("must have a text and an address such as https://example.com/imprint in each line")
    return FooterLink(parse_name(words), url)


def build_palette(color: str | None) -> Palette:
    """Make the brand's color darker or lighter until it is legible."""
    own = _parse(color or _DEFAULT)
    button = _shift(own, _LIGHT, _BLACK, _OF_BUTTONS)
    dark_button = _shift(own, _DARK, _WHITE, _OF_BUTTONS)
    return Palette(
        link=_write(_shift(own, _LIGHT, _BLACK, _OF_TEXT)),
        button=_write(button),
        button_text=_write(_text_on(button)),
        dark_link=_write(_shift(own, _DARK, _WHITE, _OF_TEXT)),
        dark_button=_write(dark_button),
        dark_button_text=_write(_text_on(dark_button)),
    )


def write_style(brand: Brand) -> str:
    """Return the style sheet with the brand's color; empty without one."""
    return "" if brand.color is None else _STYLE.format(build_palette(brand.color))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors, 1 to 21."""
    return _contrast(_parse(one), _parse(other))


def _shift(color: _Rgb, background: _Rgb, towards: _Rgb, least: float) -> _Rgb:
    """Mix the color with another one until it has this contrast."""
    for percent in range(0, 101, 2):
        red, green, blue = (
            round(own + (end - own) * percent / 100) for own, end in zip(color, towards, strict=True)
        )
        if _contrast((red, green, blue), background) >= least:
            return red, green, blue
    return towards


def _text_on(color: _Rgb) -> _Rgb:
    return _WHITE if _contrast(_WHITE, color) >= _OF_TEXT else _BLACK


def _contrast(one: _Rgb, other: _Rgb) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: _Rgb) -> float:
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4
        for one in (part / 255 for part in color)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parse(color: str) -> _Rgb:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _write(color: _Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)


class FindBrand(Query, frozen=True, kw_only=True):
    """The brand."""


class SaveBrand(Command, frozen=True, kw_only=True):
    """Save the brand. Without ``logo``, the logo is kept; None removes it."""

    name: str | None
    color: str | None
    links: tuple[FooterLink, ...]
    logo: bytes | UnsetType | None = UNSET
    reply_to: str | None = None
