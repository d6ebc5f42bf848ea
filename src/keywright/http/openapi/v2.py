"""The OpenAPI 3.1 document of v2, and the page about it.

The interface is frozen, and so are both files, in which ``@name@`` is a placeholder for an installation's
value. Line breaks in the document are removed from the answer.
"""

from keywright import __version__
from keywright.config import Settings
from keywright.http.openapi import page

_OPEN = "The core calls need only the license key."
_CLOSED = "On this server, the core calls need an API key, too."


def read_document(settings: Settings) -> str:
    """Return the document for an installation with these settings."""
    text = _fill("v2.json", settings).replace("\n", "")
    # The empty requirement means that the core calls work without an API key.
    return text.replace('"security":[{},', '"security":[') if settings.require_api_key else text


def read_page(settings: Settings, server: str) -> str:
    """Return the page; ``server`` is the URL of the server as callers write it."""
    credentials = "-u ck_…:cs_… " if settings.require_api_key else ""
    return _fill("v2.html", settings, server=server, credentials=credentials, style=page.read_style())


def _fill(name: str, settings: Settings, **values: str) -> str:
    root = f"/{settings.api_root}"
    values |= {
        "root": root,
        "route": f"{settings.namespace}/v2",
        "base": f"{root}/{settings.namespace}/v2",
        "core_rule": _CLOSED if settings.require_api_key else _OPEN,
        "version": __version__,
    }
    text = (page.TEMPLATES / name).read_text(encoding="utf-8")
    for placeholder, value in values.items():
        text = text.replace(f"@{placeholder}@", value)
    return text
