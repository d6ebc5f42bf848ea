"""Downloads in the portal: the releases that a license covers, and its update tokens."""

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

#: How many releases a page shows.
_RELEASES = 20
#: What a browser names, the name of the system, and its word in files; the first that fits.
_SYSTEMS = (
    ("Android", "Android", "android"),
    ("iPhone|iPad", "iOS", "ios"),
    ("Windows", "Windows", "windows"),
    ("Macintosh|Mac OS X", "macOS", "macos"),
    ("Linux|CrOS|X11", "Linux", "linux"),
)
#: Browsers on a Mac name Intel, whatever it has.
_PROCESSORS = (
    ("aarch64|ARM64", "arm64"),
    ("Win64|WOW64|x86_64", "x86_64"),
)
_NAMES = {word: name for _pattern, name, word in _SYSTEMS}


class System(NamedTuple):
    """What a browser runs on: its operating system and processor; None is unknown."""

    platform: str | None = None
    arch: str | None = None

    def fits(self, file: ReleaseFile) -> bool:
        """Whether a file runs there; one whose processor is not known may."""
        is_platform = file.platform is None or to_usual_word(file.platform) == self.platform
        return is_platform and (None in (file.arch, self.arch) or to_usual_word(file.arch or "") == self.arch)


def read_system(user_agent: str) -> System:
    """What a browser reports that it runs on."""
    text = user_agent[:400]
    platform = next((word for pattern, _name, word in _SYSTEMS if re.search(pattern, text)), None)
    arch = next((word for pattern, word in _PROCESSORS if re.search(pattern, text)), None)
    return System(platform, None if platform == "macos" else arch)


class ShownFile(NamedTuple):
    """A file with the address of its download."""

    name: str
    system: str
    size: int | None
    sha256: str | None
    url: str


class ShownRelease(NamedTuple):
    """A release, with the files for the reader's system and the others."""

    version: str
    channel: str
    released_at: datetime | None
    notes: str | None
    own: Sequence[ShownFile]
    others: Sequence[ShownFile]


def show_downloads(
    tx: ReadTransaction, license: License, request: PortalRequest, limit: int, below: int = 0
) -> tuple[list[ShownRelease], int | None]:
    """So many of the releases that the license covers, the newest first, below a rank (0: all); and the rank
    below which there are more.
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
    """What a license of the customer covers, and its update tokens."""
    license = request.ask(lambda tx: find_own(tx, request))
    known = request.ask(lambda tx: tokens.list_live(tx, license.id, request.now))
    return _render(request, license, f"/licenses/{license.id}", tokens=known, has_tokens=True)


def list_with_key(request: PortalRequest) -> Response:
    """What the license of the key covers."""
    return _render(request, request.license, "/license", tokens=(), has_tokens=False)


def _render(request: PortalRequest, license: License, back: str, **values: Any) -> Response:
    below = min(parse_number(request.http.query_params.get("below", "")) or 0, MAX_ID)
    shown, more = request.ask(lambda tx: show_downloads(tx, license, request, _RELEASES, below))
    is_disabled = license.status == Status.DISABLED
    return request.render(
        "downloads.html", releases=shown, below=more, back=back, is_disabled=is_disabled, **values
    )


def make_token(request: PortalRequest) -> Response:
    """Make an update token, and show it this once."""
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
        # A token that has ended before.
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
