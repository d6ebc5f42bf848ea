"""HTML put together from Python: what is text gets escaped, what is HTML already does not."""

import base64
import hashlib
import html
import re
from functools import lru_cache
from pathlib import Path

_VOID = frozenset({"br", "hr", "input", "link", "meta"})
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")


class Html(str):
    """A piece of HTML."""

    __slots__ = ()


def element(tag: str, /, *inner: str, **attributes: str) -> Html:
    """An element. ``class_`` writes the attribute ``class``, and ``data_label`` ``data-label``."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for key, value in attributes.items()
    )
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{joined(*inner)}</{tag}>")


def joined(*parts: str) -> Html:
    """The pieces one after another."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in parts))


def inline(text: str) -> Html:
    """A text with `code` and **strong** words in it."""
    parts: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        parts.append(text[end : found.start()])
        parts.append(element("code", found[1]) if found[1] else element("strong", found[2]))
        end = found.end()
    return joined(*parts, text[end:])


def prose(text: str) -> Html:
    """Paragraphs, separated by empty lines; ``## `` begins a heading."""
    blocks = [block.strip() for block in text.split("\n\n") if block.strip()]
    return joined(
        *(
            element("h3", inline(block[3:])) if block.startswith("## ") else element("p", inline(block))
            for block in blocks
        )
    )


def page(title: str, body: str) -> Html:
    """A whole page; its style is in it, and needs ``security_policy`` to be let in."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", Html(_style())),
    )
    return Html(f"<!doctype html>\n{element('html', head, body, lang='en')}\n")


@lru_cache(maxsize=1)
def security_policy() -> str:
    """The Content-Security-Policy of a page: its own style, and nothing else from anywhere."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@lru_cache(maxsize=1)
def _style() -> str:
    return Path(__file__).with_name("page.css").read_text(encoding="utf-8")
