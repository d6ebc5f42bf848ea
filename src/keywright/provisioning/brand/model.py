"""The vendor's brand."""

import msgspec


class FooterLink(msgspec.Struct, frozen=True):
    """A link at the end of every page and mail, such as an imprint."""

    text: str
    url: str


class Brand(msgspec.Struct, frozen=True):
    """The look of the portal and of mails. ``color`` is ``#rrggbb``; ``logo`` an image in base64, of the type
    ``logo_type``.
    """

    name: str | None = None
    color: str | None = None
    logo: str | None = None
    logo_type: str | None = None
    links: tuple[FooterLink, ...] = ()


class Palette(msgspec.Struct, frozen=True):
    """The brand's color where it can be read: of links, and of buttons with their text, on a light page and
    on a dark one.
    """

    link: str
    button: str
    button_text: str
    dark_link: str
    dark_button: str
    dark_button_text: str
