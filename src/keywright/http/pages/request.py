"""A request for a page, in the thread that answers it."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from keywright.core.command import Command, Context
from keywright.core.errors import KeywrightError
from keywright.db import ReadTransaction
from keywright.http.answer import error_headers
from keywright.http.pages import session as flash
from keywright.http.pages.error_messages import Message, message_for
from keywright.http.pages.formats import _
from keywright.http.pages.forms import Form
from keywright.http.pages.render import BASE, theme_of
from keywright.http.pages.session import SCRIPT, BrowserSession, Flash
from keywright.http.pages.site import MenuItem, Site, has_right, may_open
from keywright.http.server.sockets import base_of_links
from keywright.identity.model import Right, Session, User

_EMPTY = Form()

Result = TypeVar("Result")


class PageRequest:
    """A request for a page of a site, with methods that build the possible responses."""

    def __init__(
        self,
        site: Site,
        request: Request,
        section_path: str | None = None,
        *,
        query: Form = _EMPTY,
        form: Form = _EMPTY,
    ) -> None:
        self.site = site
        #: Starlette's request.
        self.http = request
        self.browser: BrowserSession = request.state.browser
        self.now = self.browser.now
        self.query = query
        #: The submitted form; empty unless ``is_post``.
        self.form = form
        #: The parameters in the path, converted: ``request.path_params["id"]``.
        self.path_params: Mapping[str, Any] = request.path_params
        self.is_post = request.method == "POST"
        #: Whether admin.js sent the request; it expects a fragment of a page, or plain text.
        self.is_from_script = request.headers.get("x-requested-with") == SCRIPT
        self._section_path = section_path

    @property
    def user(self) -> User:
        """The signed-in user. Raises ``HTTPException`` 403 without one, possible only on ``PUBLIC`` pages."""
        if self.browser.signed_in is None:
            raise HTTPException(403)
        return self.browser.signed_in.user

    @property
    def session(self) -> Session:
        """The session of the signed-in user."""
        if self.browser.signed_in is None:
            raise HTTPException(403)
        return self.browser.signed_in.session

    @property
    def accepted_languages(self) -> str:
        """The browser's ``Accept-Language`` header."""
        return self.http.headers.get("accept-language", "")

    @property
    def base_url(self) -> str:
        """This server's address for programs and people: the setting, or the host that the browser called."""
        scheme = "https" if self.browser.is_secure else "http"
        return self.site.settings.public_url or f"{scheme}://{self.http.headers.get('host', '')}"

    def base_of_links(self) -> str:
        """The address of this server for links with a secret in them. Raises ``PublicUrlMissing``."""
        scheme = "https" if self.browser.is_secure else "http"
        return base_of_links(self.site.settings.public_url, scheme, self.http.headers.get("host", ""))

    @property
    def takes_pieces(self) -> bool:
        """Whether the HTTP version allows a response of unknown length. A page that changes something before
        it sends such a file checks this first.
        """
        return bool(self.http.scope["http_version"] != "1.0")

    def may(self, right: Right) -> bool:
        """Whether the user has this right."""
        return has_right(self.browser, right)

    def ask(self, question: Callable[[ReadTransaction], Result]) -> Result:
        """Read from one snapshot of the database."""
        return self.site.runner.ask(question)

    def change(self, command: Command) -> Any:
        """Submit the command and wait for its durable outcome. Raises its refusal or fault, which becomes an
        error page unless the caller handles it.
        """
        return self.site.runner.change(command)

    def release_lock(self) -> AbstractContextManager[None]:
        """Let other pages run while this one waits, or does work that does not need the interpreter."""
        return self.site.runner.lock.release()

    @property
    def context(self) -> Context:
        """The context of every command of this request."""
        return Context(self.now, self.browser.origin, self.user.id)

    def render(
        self,
        template: str,
        *,
        status: int | None = None,
        errors: Mapping[str, str] = {},
        **values: Any,
    ) -> Response:
        """The template rendered with these values. With ``errors``, messages about fields, the default status
        is 422.
        """
        page = self.site.templates.get_template(template)
        html = page.render(**self._common_values(), errors=errors, **values)
        response = HTMLResponse(html, status or (422 if errors else 200))
        flash.delete(response, self.browser)
        return self._with_cookies(response)

    def redirect(self, path: str, message: str = "", undo: str = "", *, is_error: bool = False) -> Response:
        """Redirect to another page (``/licenses/7``), which shows this message once, with a button that sends
        a form to the path ``undo``, if given.
        """
        response = RedirectResponse(f"{BASE}{path}", 303)
        if message:
            # The message is signed with the browser's token.
            self.browser.ensure_token()
            flash.save(response, self.browser, Flash(message, is_error, undo))
        return self._with_cookies(response)

    def text(self, text: str, *, status: int = 200) -> Response:
        """Plain text for admin.js, for example what a button copies."""
        return self._with_cookies(PlainTextResponse(text, status))

    def download(
        self,
        file_name: str,
        chunks: Iterable[bytes],
        *,
        media_type: str = "text/csv; charset=utf-8",
        length: int | None = None,
    ) -> Response:
        """A download, streamed while it is generated; ``length`` is its size in bytes, if known. Each chunk
        may be generated in a different thread.
        """
        if length is None and not self.takes_pieces:
            return self.refuse_pieces()
        runner, rest = self.site.runner, iter(chunks)

        async def stream() -> AsyncIterator[bytes]:
            while (chunk := await runner.run(partial(next, rest, None), is_started=True)) is not None:
                yield chunk

        # RFC 6266
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(file_name, safe='')}"}
        if length is not None:
            headers["content-length"] = str(length)
        return self._with_cookies(StreamingResponse(stream(), headers=headers, media_type=media_type))

    def refuse_pieces(self) -> Response:
        """The error page that replaces a file of unknown length where ``takes_pieces`` is false."""
        sentence = _("HTTP/1.0 has no chunked transfer. Use HTTP/1.1; for nginx: proxy_http_version 1.1.")
        return self.message_page(Message(505, _("This file is sent in chunks"), sentence))

    def confirm(
        self,
        title: str,
        sentences: Sequence[str],
        *,
        button: str,
        back: str,
        is_danger: bool = True,
        hidden: Sequence[tuple[str, str]] = (),
    ) -> Response:
        """Ask for confirmation: the button sends a POST with the ``hidden`` fields to the same address, and
        "Cancel" leads to ``back``.
        """
        return self.render(
            "confirm.html",
            title=title,
            sentences=sentences,
            button=button,
            back=back,
            is_danger=is_danger,
            hidden=hidden,
        )

    def error_page(self, error: KeywrightError) -> Response:
        """The error page for this error."""
        response = self.message_page(message_for(error))
        for name, value in error_headers(error):
            if name in (b"retry-after", b"allow"):
                response.headers[name.decode()] = value.decode()
        return response

    def message_page(self, message: Message) -> Response:
        """A page with a message instead of the requested content; for admin.js, only its sentence."""
        if self.is_from_script:
            return self.text(message.sentence, status=message.status)
        return self.render("error.html", status=message.status, message=message)

    def _common_values(self) -> dict[str, Any]:
        """The values that every template gets."""
        browser, path = self.browser, self.http.url.path
        return {
            "now": self.now,
            "form": self.form,
            "user": None if browser.signed_in is None else browser.signed_in.user,
            "menu": self._menu(),
            "may_find": may_open(browser, Right.LOOK, is_for_enrolling=False),
            "current_path": path,
            # The response to a form cannot be requested again with GET.
            "return_path": f"{BASE}{self._section_path}" if self._is_answer_to_form() else path,
            "csrf_token": browser.form_token,
            "theme": theme_of(browser.cookies),
            "flash": flash.load(browser),
        }

    def _is_answer_to_form(self) -> bool:
        return self.is_post and self._section_path is not None

    def _menu(self) -> list[tuple[MenuItem, bool]]:
        """The sections that the user may see, and whether each is the current one."""
        return [
            (item, item.path == self._section_path)
            for item in self.site.menu
            if self.browser.signed_in is not None
            and any(
                may_open(self.browser, right, is_for_enrolling=item.is_for_enrolling) for right in item.rights
            )
        ]

    def _with_cookies(self, response: Response) -> Response:
        self.browser.write_cookies(response)
        return response
