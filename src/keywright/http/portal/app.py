"""Assembles the portal: pages, templates and static files in one application."""

from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from keywright.config import Settings
from keywright.http.middleware.body import BodyReader
from keywright.http.pages import formats
from keywright.http.pages.formats import PORTAL_CATALOGS, Languages
from keywright.http.pages.render import PORTAL, StaticFiles, open_templates
from keywright.http.pages.runner import Runner
from keywright.http.portal import downloads, licenses, owning, sign_in
from keywright.http.portal.page import refuse, route_of
from keywright.http.portal.request import PortalSite
from keywright.http.portal.texts import write_duration

PAGES = (
    *(*licenses.PAGES, *owning.PAGES, *downloads.PAGES, *sign_in.PAGES),
    *(*licenses.PAGES_WITH_KEY, *sign_in.ACCOUNT_PAGES),
)

_HERE = Path(__file__).parent
STATIC_FOLDER = _HERE / "static"
TEMPLATES = _HERE / "templates"
_FOR_GOOD = "public, max-age=31536000, immutable"


def build_app(settings: Settings, runner: Runner, body_reader: BodyReader) -> ASGIApp:
    """Build the application. Slow: it reads and compresses the static files, so call it in a thread."""
    static_files = StaticFiles(STATIC_FOLDER, PORTAL)
    templates = open_templates(TEMPLATES)
    templates.globals.update(static=lambda name: static_files.urls[name], portal=PORTAL)
    templates.filters.update(
        iso=lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        number=formats.write_number,
        size=formats.write_size,
        moment=formats.write_moment,
        day=formats.write_day,
        ago=formats.write_ago,
        duration=write_duration,
    )
    site = PortalSite(
        settings=settings,
        runner=runner,
        templates=templates,
        languages=Languages(PORTAL_CATALOGS),
        body_reader=body_reader,
    )
    routes = [
        *(route_of(site, page) for page in PAGES),
        Route(f"{PORTAL}/static/{{name}}", static_files.serve),
        Route(f"{PORTAL}/brand.css", partial(_serve_style, site)),
        Route(f"{PORTAL}/logo", partial(_serve_logo, site)),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: partial(refuse, site)})
    app.router.redirect_slashes = False
    return app


async def _serve_style(site: PortalSite, request: Request) -> Response:
    """Serve the stylesheet with the brand's colors."""
    shown = await site.runner.run(partial(site.brand.find, site.runner))
    headers = _cache_headers(request, shown.style_url)
    return Response(shown.style, 200, headers, "text/css; charset=utf-8")


async def _serve_logo(site: PortalSite, request: Request) -> Response:
    """Serve the brand's logo."""
    shown = await site.runner.run(partial(site.brand.find, site.runner))
    if not shown.logo:
        raise HTTPException(404)
    headers = _cache_headers(request, shown.logo_url) | {"x-content-type-options": "nosniff"}
    return Response(shown.logo, 200, headers, shown.brand.logo_type)


def _cache_headers(request: Request, address: str) -> dict[str, str]:
    """Return the caching headers for the current style or logo, which belongs at ``address``.

    A page from another server may request it with the digest of another brand; the browser must not cache it
    under that address.
    """
    is_shown = f"{request.url.path}?{request.url.query}" == address
    return {"cache-control": _FOR_GOOD if is_shown else "no-store"}
