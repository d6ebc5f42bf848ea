"""WordPress: one document for plugin-update-checker 5, and for the header ``Update URI`` of WordPress itself.

Sources of the formats: YahnisElsts/plugin-update-checker@275a96a2 (``Puc/v5p7``), and
https://developer.wordpress.org/reference/hooks/update_plugins_hostname/
"""

from typing import Any
from urllib.parse import parse_qsl

import msgspec

from keywright.http import plugin_texts as texts
from keywright.http.answer import Answer
from keywright.http.update_formats import Format, UpdateRequest, header_of
from keywright.licensing.updates.queries import CheckedUpdate
from keywright.licensing.updates.versions import MAX_VERSION

_MAX_FIELDS = 100


async def answer(asked: UpdateRequest) -> Answer:
    """Answer with the newest version, always with 200, because clients compare versions. If the site may not
    have it, the package has no URL.
    """
    query = asked.call.scope["query_string"].decode("latin-1")
    sent = {} if query.count("&") >= _MAX_FIELDS else dict(parse_qsl(query))
    version = sent.get("installed_version", "")[:MAX_VERSION]
    found = await asked.check(
        is_shown=True,
        app_version=version or None,
        php_version=sent.get("php") or None,
        wp_version=sent.get("wp") or None,
    )
    headers = (*header_of(found.decision), (b"referrer-policy", b"no-referrer"))
    number = None if found.license is None else found.license.id
    package = asked.link(found) if found.path_of_file is not None else ""
    body = msgspec.json.encode(_write(found, version, package))
    return Answer(200, body, headers, license_id=number, releases=found.counted)


def _write(found: CheckedUpdate, version: str, package: str) -> dict[str, Any]:
    """Build the object with the members that both clients read."""
    product, newest = found.product, found.shown[0] if found.shown else None
    assert product is not None  # noqa: S101
    about = texts.describe(product)
    newest_version = version or "0" if newest is None else newest.release.version.removeprefix("v")
    url, slug = product.url or "", about.get("slug") or product.code or str(product.id)
    of_puc = {"download_url": package} if package else {}
    return of_puc | {
        "id": url or slug,
        "name": product.name or slug,
        "slug": slug,
        "version": newest_version,
        "new_version": newest_version,
        "url": url,
        "homepage": url,
        "details_url": url,
        "package": package,
        "author": about.get("author", ""),
        "author_homepage": about.get("author_homepage", ""),
        "requires": texts.requirement(newest, "wp"),
        "requires_php": texts.requirement(newest, "php"),
        "tested": texts.tested_with(newest),
        "last_updated": texts.date_of(newest),
        "upgrade_notice": "" if package or newest is None else texts.message_of(found.decision),
        "sections": texts.sections_of(product, found.shown),
        "icons": texts.icons_of(about),
        "banners": {size: one for size, one in texts.banners_of(about).items() if one},
        "banners_rtl": {},
        "translations": [],
    }


FORMAT = Format({"WordPress": "wordpress.json"}, 1, "wordpress.json", answer)
