"""What a page gets, and how pages come into being: see ``Area``."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypedDict, TypeVar, cast
from urllib.parse import quote

from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette_admin.routing import route
from starlette_admin.views import CustomView

from keywright.core.command import Command, Origin
from keywright.core.errors import Fault, KeywrightError
from keywright.db import ReadTransaction
from keywright.http.pages import flash, forms
from keywright.http.pages.error_messages import Said, say
from keywright.http.pages.forms import Form
from keywright.http.pages.session import SCRIPT, Visitor, is_form_ours
from keywright.http.pages.urls import BASE
from keywright.http.v2 import messages
from keywright.identity.model import Session, User
from keywright.identity.rights import Right, may

if TYPE_CHECKING:
    from keywright.http.admin.app import Frame

#: The right of pages that whoever has not signed in may see, too.
EVERYBODY: Final = "everybody"
#: The longest form that whoever has not signed in may send, in bytes: a password may be long.
_MOST_OF_STRANGERS = 16 * 1024
Needed = Right | Literal["everybody"]

_NOT_OURS = Said(
    403,
    "This form was not sent from here",
    "It was open for too long, or your browser keeps no cookies. Load the page again, and send it again.",
)
_ODD = Said(
    500,
    "Something went wrong",
    "This is a fault of ours. Look whether what you wanted was done; the server's log says more.",
)
_NEEDS_PIECES = Said(
    505,
    "This file is sent in pieces",
    "HTTP/1.0 knows no pieces. Ask for it with HTTP/1.1; of nginx: proxy_http_version 1.1.",
)

_NOTHING = Form()


class _Number(Convertor[int]):
    """A number in a path, ``{id:number}``; longer ones are numbers of nothing."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Method = Callable[[Any, "Visit"], Response]
Endpoint = Callable[[Any, Request], Awaitable[Response]]


class CommandFields(TypedDict):
    """What every command has."""

    now: Any
    origin: Origin
    by: int


class Visit:
    """One request for a page, in the thread that makes the page."""

    def __init__(
        self,
        frame: "Frame",
        request: Request,
        area: "Area | None" = None,
        *,
        query: Form = _NOTHING,
        form: Form = _NOTHING,
    ) -> None:
        self.visitor: Visitor = request.state.visitor
        self.now = self.visitor.now
        self.address = self.visitor.address
        #: What stands behind the ``?`` of the address.
        self.query = query
        #: What was sent; empty unless ``is_post``.
        self.form = form
        #: What the path holds, converted as the page's path says: ``visit.path["id"]``.
        self.path: Mapping[str, Any] = request.path_params
        self.is_post = request.method == "POST"
        #: Whether admin.js asks, which wants a piece of a page, or a text.
        self.is_from_script = request.headers.get("x-requested-with") == SCRIPT
        self.frame = frame
        self.request = request
        self._area = area

    @property
    def user(self) -> User:
        """Who is signed in; there is somebody on every page but those for ``EVERYBODY``."""
        if self.visitor.signed_in is None:
            raise HTTPException(403)
        return self.visitor.signed_in.user

    @property
    def session(self) -> Session:
        """Their session."""
        if self.visitor.signed_in is None:
            raise HTTPException(403)
        return self.visitor.signed_in.session

    def may(self, right: Right) -> bool:
        """Whether whoever is signed in has this right."""
        return _has(self.visitor, right)

    def ask(self, question: Callable[[ReadTransaction], Result]) -> Result:
        """What the question reads from one moment of the database."""
        return self.frame.door.ask(question)

    def change(self, command: Command) -> Any:
        """What the desk makes of the command, durable when this returns; raises refusals and faults, which
        become a page that says so where a page does not catch them.
        """
        return self.frame.door.change(command)

    def aside(self) -> AbstractContextManager[None]:
        """Let other pages be made while this one waits, or has something done that needs no interpreter."""
        return self.frame.door.turns.aside()

    def command_fields(self) -> CommandFields:
        """``now``, ``origin`` and ``by`` of every command of this visit."""
        return {"now": self.now, "origin": self.visitor.origin, "by": self.user.id}

    def page(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """The page that the template makes of this."""
        note = flash.take(self.visitor)
        html = self.frame.render(template, self, self._area, {"note": note, **context})
        response = HTMLResponse(html, status)
        flash.forget(response, self.visitor)
        return self._finished(response)

    def back(self, path: str, said: str = "", *, is_bad: bool = False) -> Response:
        """Send the browser to another page (``/licenses/7``), which says this sentence, once."""
        response = RedirectResponse(f"{BASE}{path}", 303)
        if said and not self.visitor.token:
            # The sentence is signed for one browser.
            self.visitor.take_new_token()
        if said:
            flash.leave(response, self.visitor, flash.RecordEvent(said, is_bad))
        return self._finished(response)

    def text(self, text: str, *, status: int = 200) -> Response:
        """A text for admin.js: what a button copies, for instance."""
        return self._finished(PlainTextResponse(text, status))

    def download(
        self,
        file_name: str,
        pieces: Iterable[bytes],
        *,
        media_type: str = "text/csv; charset=utf-8",
        length: int | None = None,
    ) -> Response:
        """A file to keep, sent while it is made; ``length`` is how many bytes it has, where that is known.
        Each piece may be made in another thread.
        """
        if length is None and self.request.scope["http_version"] == "1.0":
            return self.say(_NEEDS_PIECES)
        door, rest = self.frame.door, iter(pieces)

        async def made() -> AsyncIterator[bytes]:
            while (piece := await door.run(partial(next, rest, None), is_begun=True)) is not None:
                yield piece

        # RFC 6266
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(file_name, safe='')}"}
        if length is not None:
            headers["content-length"] = str(length)
        return self._finished(StreamingResponse(made(), headers=headers, media_type=media_type))

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
        """A page that says what will happen, and sends a POST to the same address when that is wanted;
        ``hidden`` goes with it, ``back`` is where one goes who thinks better of it.
        """
        return self.page(
            "confirm.html",
            title=title,
            sentences=sentences,
            button=button,
            back=back,
            is_danger=is_danger,
            hidden=hidden,
        )

    def refused(self, error: KeywrightError) -> Response:
        """A page that says the error in a sentence."""
        response = self.say(say(error))
        for name, value in messages.headers(error):
            if name in (b"retry-after", b"allow"):
                response.headers[name.decode()] = value.decode()
        return response

    def say(self, said: Said) -> Response:
        """A page with a sentence on it, in place of what was asked for."""
        if self.is_from_script:
            return self.text(said.sentence, status=said.status)
        return self.page("error.html", status=said.status, said=said)

    def _finished(self, response: Response) -> Response:
        self.visitor.write_cookies(response)
        return response


def page(
    path: str, *, methods: Sequence[str] = ("GET",), right: Needed | None = None
) -> Callable[[Method], Endpoint]:
    """Makes a method of an ``Area`` the page at this path below the area's own.

    ``right`` is what a visitor needs; without it, what the area needs. GET stands for HEAD, too. A POST has
    been sent by a form of ours when the method is called.
    """

    def decorated(method: Method) -> Endpoint:
        async def endpoint(area: "Area", request: Request) -> Response:
            return await _answer(area, request, method, right or area.right)

        endpoint.__name__ = method.__name__
        endpoint.__doc__ = method.__doc__
        endpoint.needed = right  # type: ignore[attr-defined]
        registered: Endpoint = route(path, list(methods))(endpoint)
        return registered

    return decorated


class Area(CustomView):
    """A part of the pages, with an entry in the menu unless ``add_to_menu`` is False.

    Its pages are methods that take a ``Visit`` and return what ``visit.page`` or ``visit.back`` returns,
    marked by ``@page``; they run in a thread. Each has a right, its own or the area's: without one, the
    class itself raises ``TypeError``.
    """

    right: ClassVar[Needed | None] = None
    #: The icon's name, see templates/icons.html.
    icon: str | None = None

    #: The pages, by their methods' names, that look at passwords of strangers when a form is sent.
    looks_at_passwords: ClassVar[frozenset[str]] = frozenset()

    #: Whether it is open to those who have to set up a second factor first.
    is_for_enrolling: ClassVar[bool] = False

    def knows(self, visit: Visit) -> bool:
        """Whether the browser that sends a password is known, and waits apart from strangers. In a thread."""
        return False

    #: The right of each page, by its method's name.
    pages: ClassVar[Mapping[str, Needed]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        methods = {name: getattr(cls, name) for name in dir(cls)}
        needed = {
            name: getattr(method, "needed", None) or cls.right
            for name, method in methods.items()
            if hasattr(method, "_route_path")
        }
        for name, right in needed.items():
            if right is None:
                raise TypeError(f"{cls.__name__}.{name} is a page without a right")
        cls.pages = {name: right for name, right in needed.items() if right is not None}

    async def index(self, request: Request) -> Response:
        """No page: what starlette-admin would show by itself."""
        raise HTTPException(404)

    def is_accessible(self, request: Request) -> bool:
        """Whether there is a page here that the visitor may see; each page looks at its own right besides."""
        visitor: Visitor = request.state.visitor
        return any(_may_come(self, visitor, needed) for needed in set(self.pages.values()))

    @property
    def frame(self) -> "Frame":
        """What the area is in."""
        return cast("Frame", self._admin)


def _has(visitor: Visitor, needed: Needed | None) -> bool:
    if needed == EVERYBODY:
        return True
    return isinstance(needed, Right) and visitor.role is not None and may(visitor.role, needed)


def _may_come(area: Area, visitor: Visitor, needed: Needed | None) -> bool:
    is_open = needed == EVERYBODY or area.is_for_enrolling or not visitor.has_to_enroll
    return is_open and _has(visitor, needed)


async def _answer(area: Area, request: Request, method: Method, needed: Needed | None) -> Response:
    visitor: Visitor = request.state.visitor
    if not _may_come(area, visitor, needed):
        raise HTTPException(403)
    frame = area.frame
    try:
        visit = Visit(frame, request, area, query=forms.of_query(request))
        if visit.is_post:
            limit, is_stranger = frame.door.settings.body_limit, visitor.signed_in is None
            if needed == EVERYBODY:
                limit = min(limit, _MOST_OF_STRANGERS)
            visit.form = await forms.of_body(request, frame.door.intake, limit, is_stranger=is_stranger)
            token = request.headers.get("x-csrf-token") or visit.form.get("csrf_token", "")
            if not is_form_ours(request, visitor, token):
                return await frame.say(request, _NOT_OURS)
    except KeywrightError as error:
        return await frame.refuse(request, error)
    made = partial(_made, area, method, visit, needed)
    if not (visit.is_post and method.__name__ in area.looks_at_passwords):
        return await frame.door.run(made)
    # Only a browser that shows a mark can be known; a crowd without one costs no look-up.
    is_known = bool(visitor.device_mark) and await frame.door.run(partial(area.knows, visit))
    return await frame.door.run_at_entrance(made, is_known=is_known)


def _made(area: Area, method: Method, visit: Visit, needed: Needed | None) -> Response:
    """What the page returns, or what says why it does not. In a thread."""
    try:
        if visit.is_post:
            # A form takes its time to come: whoever has sent it may have another role now, or none.
            visit.visitor.look_up(visit.frame.door)
            if not _may_come(area, visit.visitor, needed):
                raise HTTPException(403)
        return method(area, visit)
    except KeywrightError as error:
        if isinstance(error, Fault):
            log.warning("a page met a fault: %s", error.code)
        return visit.refused(error)
    except HTTPException:
        raise
    except Exception as problem:
        log.exception("a page met an error that should not be", exc_info=problem)
        return visit.say(_ODD)
