"""The landing page, the API reference and the documentation.

Each page is rendered, and its code imported, at its first request, and then cached, to keep startup fast.
"""

import asyncio
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from keywright import __version__
from keywright.config import Settings
from keywright.core.errors import NotFound
from keywright.core.errors.problems import PROBLEMS
from keywright.http.answer import to_response
from keywright.http.v3.answers import describe_problem, is_admitted, write_problem

_JSON = "application/json; charset=UTF-8"
#: Content that is the same for every reader may be cached.
_CACHED = "public, max-age=300"
#: Scripts of any origin may read a document, for example to generate a client in a browser.
_OF_DOCUMENTS = {"Cache-Control": _CACHED, "Access-Control-Allow-Origin": "*"}
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
#: The placeholder in cached pages for the server's URL as the reader knows it.
_BASE = b"http://KEYWRIGHT"


class Documents:
    """The routes of the landing page, the API reference and the documentation."""

    def __init__(self, settings: Settings, has_admin: Callable[[Scope], bool]) -> None:
        """``has_admin``: whether the address that a request came in at serves the admin pages."""
        self._settings = settings
        self._has_admin = has_admin
        #: A search reads all documents: only one runs at a time, so that programs' calls do not have to wait.
        self._searching = asyncio.Semaphore(1)
        self.routes = [
            Route("/", self._landing),
            Route("/openapi/v2", self._reference),
            Route("/openapi/v2.json", self._document),
            Route("/openapi/v3", self._reference_v3),
            Route("/openapi/v3.json", self._document_v3),
            Route("/openapi/v3.yaml", self._document_v3_in_yaml),
            # Other URLs at which people look for the documents.
            Route(f"/{settings.v3_root}/openapi.json", self._document_v3),
            Route(f"/{settings.v3_root}/openapi.yaml", self._document_v3_in_yaml),
            Route("/openapi.json", self._document_v3),
            Route("/llms.txt", self._list_documents),
            Route("/.well-known/security.txt", self._answer_security),
            Route("/docs", self._answer_search),
            Route("/docs/{name:path}", _answer_document),
            Route("/problems", _answer_problems),
            Route("/problems/{code}", _answer_problem),
        ]

    async def _landing(self, request: Request) -> Response:
        """Answer with the landing page."""
        if "rest_route" in request.query_params:
            # A WordPress REST call to an interface that Keywright does not have.
            raise HTTPException(404)
        return _html(await asyncio.to_thread(_landing, has_admin=self._has_admin(request.scope)))

    async def _reference(self, request: Request) -> Response:
        """Answer with the reference of v2."""
        page = await asyncio.to_thread(_reference, self._settings)
        return _html(page.replace(_BASE, self._find_base(request)))

    async def _document(self, _request: Request) -> Response:
        """Answer with the OpenAPI 3.1 document of v2."""
        return Response(await asyncio.to_thread(_document, self._settings), media_type=_JSON)

    async def _reference_v3(self, request: Request) -> Response:
        """Answer with the reference of v3."""
        page = await asyncio.to_thread(_reference_v3, self._settings)
        return _html(page.replace(_BASE, self._find_base(request)), has_script=True)

    async def _document_v3(self, _request: Request) -> Response:
        """Answer with the OpenAPI 3.1 document of v3."""
        document = await asyncio.to_thread(_document_v3, self._settings)
        return Response(document, media_type=_JSON, headers=_OF_DOCUMENTS)

    async def _document_v3_in_yaml(self, _request: Request) -> Response:
        """Answer with the OpenAPI 3.1 document of v3 in YAML (RFC 9512)."""
        document = await asyncio.to_thread(_document_v3_in_yaml, self._settings)
        return Response(document, media_type="application/yaml", headers=_OF_DOCUMENTS)

    async def _answer_security(self, request: Request) -> Response:
        """Answer with the contact for reporting vulnerabilities (RFC 9116)."""
        contact = self._settings.security_contact
        if contact is None:
            raise HTTPException(404)
        expires = (datetime.now(UTC) + timedelta(days=180)).strftime("%Y-%m-%dT00:00:00Z")
        text = f"Contact: {contact}\nExpires: {expires}\nPreferred-Languages: en\n"
        return PlainTextResponse(text, headers={"Cache-Control": _CACHED})

    async def _list_documents(self, request: Request) -> Response:
        """Answer with the list of documents for language models (llms.txt)."""
        from keywright.http.openapi import library

        text = await asyncio.to_thread(library.write_llms, self._find_base(request).decode())
        return PlainTextResponse(text, headers=_OF_DOCUMENTS)

    async def _answer_search(self, request: Request) -> Response:
        """Answer with the results of a search, or without a query with the index of documents."""
        from keywright.http.openapi import library, page

        question = request.query_params.get("q", "")[: library.MAX_QUESTION].strip()
        if not question:
            index = await asyncio.to_thread(library.render, library.INDEX)
            return _html(index, cache=_CACHED, has_form=True)
        async with self._searching:
            found = await asyncio.to_thread(library.search, question)
        text = page.render("document.html", title="Search", name="", html="", question=question, found=found)
        return _html(text.encode(), has_form=True)

    def _find_base(self, request: Request) -> bytes:
        """Return the server's URL as the reader knows it."""
        host = request.headers.get("host", "")
        base = f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else "http://127.0.0.1:8000"
        return (self._settings.public_url or base).encode()


@lru_cache(maxsize=2)
def _landing(*, has_admin: bool) -> bytes:
    from keywright.http.openapi import page

    return page.render("landing.html", has_admin=has_admin, version=__version__).encode()


@lru_cache(maxsize=1)
def _reference(settings: Settings) -> bytes:
    from keywright.http.openapi import v2

    return v2.read_page(settings, _BASE.decode()).encode()


@lru_cache(maxsize=1)
def _document(settings: Settings) -> bytes:
    from keywright.http.openapi import v2

    return v2.read_document(settings).encode()


@lru_cache(maxsize=1)
def _reference_v3(settings: Settings) -> bytes:
    from keywright.http.openapi import v3_page

    return v3_page.render_reference(settings, _BASE.decode()).encode()


@lru_cache(maxsize=1)
def _document_v3(settings: Settings) -> bytes:
    from keywright.http.openapi.v3_document import build

    return json.dumps(build(settings), ensure_ascii=False, separators=(",", ":")).encode()


@lru_cache(maxsize=1)
def _document_v3_in_yaml(settings: Settings) -> bytes:
    from keywright.http.openapi.v3_document import write_yaml

    return write_yaml(json.loads(_document_v3(settings))).encode()


async def _answer_document(request: Request) -> Response:
    """Answer with a document, as a page or in Markdown, or with an image."""
    from keywright.http.openapi import library

    name = request.path_params["name"]
    if name.startswith("images/") and (image := library.find_image(name.removeprefix("images/"))) is not None:
        return FileResponse(image, headers={"Cache-Control": _CACHED})
    documents = await asyncio.to_thread(library.read_documents)
    if (plain := name.removesuffix(".md")) not in documents:
        raise HTTPException(404)
    if plain != name:
        return PlainTextResponse(
            documents[plain].text, media_type="text/markdown; charset=utf-8", headers=_OF_DOCUMENTS
        )
    return _html(await asyncio.to_thread(library.render, name), cache=_CACHED, has_form=True)


async def _answer_problems(request: Request) -> Response:
    """Answer with the list of problem codes."""
    if _wants_json(request):
        return _json({code: describe_problem(code) for code in PROBLEMS})
    from keywright.http.openapi.v3_page import render_problems

    return _html((await asyncio.to_thread(render_problems)).encode(), cache=_CACHED)


async def _answer_problem(request: Request) -> Response:
    """Answer with the page about a problem code."""
    code = request.path_params["code"]
    if code not in PROBLEMS:
        return await _answer_no_problem(request)
    if _wants_json(request):
        return _json(describe_problem(code))
    from keywright.http.openapi.v3_page import render_problem

    return _html((await asyncio.to_thread(render_problem, code)).encode(), cache=_CACHED)


async def _answer_no_problem(request: Request) -> Response:
    """Answer 404 for an unknown problem code."""
    if _wants_json(request):
        return to_response(write_problem(NotFound("such problem code")))
    from keywright.http.openapi.v3_page import render_no_problem

    return _html((await asyncio.to_thread(render_no_problem)).encode(), status=404)


def _wants_json(request: Request) -> bool:
    accept = request.headers.get("accept", "*/*").encode()
    return is_admitted(accept, "application/json") and not is_admitted(accept, "text/html")


def _json(value: object) -> Response:
    return Response(
        json.dumps(value, ensure_ascii=False), media_type=_JSON, headers={"Cache-Control": _CACHED}
    )


def _html(
    page: bytes,
    *,
    has_script: bool = False,
    has_form: bool = False,
    cache: str = "no-store",
    status: int = 200,
) -> Response:
    from keywright.http.openapi.page import security_policy

    headers = {
        "Content-Security-Policy": security_policy(has_script=has_script, has_form=has_form),
        "Referrer-Policy": "no-referrer",
        "Cache-Control": cache,
    }
    return HTMLResponse(page, status, headers=headers)
