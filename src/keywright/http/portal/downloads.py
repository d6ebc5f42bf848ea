"""Download pages: the releases that a license covers, and its update tokens."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from keywright.core.errors import NotFound, Refusal
from keywright.core.parsing import MAX_ID
from keywright.db.transaction import ReadTransaction
from keywright.http.pages.formats import _
from keywright.http.pages.forms import parse_number
from keywright.http.portal.page import Needs, Page
from keywright.http.portal.request import PortalRequest
from keywright.http.portal.views import find_own, require_own
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.updates import tokens
from keywright.licensing.updates.files import to_usual_word
from keywright.licensing.updates.model import Known, ReleaseFile
from keywright.licensing.updates.queries import list_covered
from keywright.licensing.updates.tickets import write_ticket

#: Releases per page.
_RELEASES = 20
#: A pattern for the User-Agent, the system's name, and its name in files. The first match wins.
_SYSTEMS = (
    ("Android", "Android", "android"),
    ("iPhone|iPad", "iOS", "ios"),
    ("Windows", "Windows", "windows"),
    ("Macintosh|Mac OS X", "macOS", "macos"),
    ("Linux|CrOS|X11", "Linux", "linux"),
)
#: The same for processors. Not used for macOS: browsers on a Mac always report Intel.
_PROCESSORS = (
    ("aarch64|ARM64", "arm64"),
    ("Win64|WOW64|x86_64", "x86_64"),
)
_NAMES = {word: name for _pattern, name, word in _SYSTEMS}


class System(NamedTuple):
    """The operating system and processor of a browser; None if unknown."""

    platform: str | None = None
    arch: str | None = None

    def fits(self, file: ReleaseFile) -> bool:
        """Whether a file runs on this system; an unknown processor fits."""
        is_platform = file.platform is None or to_usual_word(file.platform) == self.platform
        return is_platform and (None in (file.arch, self.arch) or to_usual_word(file.arch or "") == self.arch)


def read_system(user_agent: str) -> System:
    """Parse the system from a User-Agent header."""
    text = user_agent[:400]
    platform = next((word for pattern, _name, word in _SYSTEMS if re.search(pattern, text)), None)
    arch = next((word for pattern, word in _PROCESSORS if re.search(pattern, text)), None)
    return System(platform, None if platform == "macos" else arch)


class ShownFile(NamedTuple):
    """A file with its download URL."""

    name: str
    system: str
    size: int | None
    sha256: str | None
    url: str


class ShownRelease(NamedTuple):
    """A release with its files: those for the reader's system (``own``), and the others."""

    version: str
    channel: str
    released_at: datetime | None
    notes: str | None
    own: Sequence[ShownFile]
    others: Sequence[ShownFile]


def show_downloads(
    tx: ReadTransaction, license: License, request: PortalRequest, limit: int, below: int = 0
) -> tuple[list[ShownRelease], int | None]:
    """Return at most ``limit`` releases that the license covers, ranked below ``below`` (0: all), the newest
    first; and the value of ``below`` for the next page, None on the last.
    """
    covered = [one for one in list_covered(tx, license, request.now) if not below or one.rank < below]
    system = read_system(request.http.headers.get("user-agent", ""))
    shown = [_show_release(tx, one, license, request.now, system) for one in covered[:limit]]
    return shown, covered[limit - 1].rank if len(covered) > limit else None


def _show_release(
    tx: ReadTransaction, known: Known, license: License, now: datetime, system: System
) -> ShownRelease:
    own: list[ShownFile] = []
    others: list[ShownFile] = []
    for one in known.files:
        ticket = write_ticket(tx.key_ring, one.id, license, None, now)
        url = f"/d/{ticket}/{quote(one.name)}"
        file = ShownFile(one.name, _name_system(one), one.size, one.sha256, url)
        (own if system.fits(one) else others).append(file)
    release = known.release
    return ShownRelease(release.version, release.channel, release.released_at, release.notes, own, others)


def _name_system(file: ReleaseFile) -> str:
    platform = "" if file.platform is None else _NAMES.get(to_usual_word(file.platform), file.platform)
    return " ".join(filter(None, (platform, file.arch))) or _("All systems")


def list_own(request: PortalRequest) -> Response:
    """List the releases that the customer's license covers, and its update tokens."""
    license = request.ask(lambda tx: find_own(tx, request))
    known = request.ask(lambda tx: tokens.list_live(tx, license.id, request.now))
    return _render(request, license, f"/licenses/{license.id}", tokens=known, has_tokens=True)


def list_with_key(request: PortalRequest) -> Response:
    """List the releases that the license whose key was entered covers."""
    return _render(request, request.license, "/license", tokens=(), has_tokens=False)


def _render(request: PortalRequest, license: License, back: str, **values: Any) -> Response:
    below = min(parse_number(request.http.query_params.get("below", "")) or 0, MAX_ID)
    shown, more = request.ask(lambda tx: show_downloads(tx, license, request, _RELEASES, below))
    is_disabled = license.status == Status.DISABLED
    return request.render(
        "downloads.html", releases=shown, below=more, back=back, is_disabled=is_disabled, **values
    )


def make_token(request: PortalRequest) -> Response:
    """Create an update token, and show it once."""
    command = tokens.CreateUpdateToken

    def show(made: tokens.NewUpdateToken) -> Response:
        return request.render("update_token.html", token=made.text, license_id=made.token.license_id)

    return _change(request, command, show)


def end_token(request: PortalRequest) -> Response:
    """End an update token."""
    back = f"/licenses/{request.path_params['id']}/downloads"
    token_id = min(request.path_params["token"], MAX_ID)

    def show(_none: None) -> Response:
        return request.redirect(back, _("The update token has ended."))

    return _change(request, tokens.EndUpdateToken, show, token_id=token_id)


def _change(
    request: PortalRequest, kind: type[Any], show: Callable[[Any], Response], **fields: Any
) -> Response:
    license = request.ask(lambda tx: find_own(tx, request))
    request.take("change", str(request.customer.id))
    command = kind(context=request.context, license=license.id, precondition=require_own(request), **fields)
    try:
        done = request.change(command)
    except NotFound:
        # The token has already ended.
        done = None
    except Refusal as error:
        return request.refuse(f"/licenses/{license.id}/downloads", error)
    return show(done)


_ONE, _POST = "/licenses/{id:number}", ("POST",)
PAGES = (
    Page(f"{_ONE}/downloads", list_own, Needs.CUSTOMER),
    Page(f"{_ONE}/update-tokens", make_token, Needs.CUSTOMER, _POST),
    Page(f"{_ONE}/update-tokens/{{token:number}}/end", end_token, Needs.CUSTOMER, _POST),
    Page("/license/downloads", list_with_key, Needs.KEY),
)
