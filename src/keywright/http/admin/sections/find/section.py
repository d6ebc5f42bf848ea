"""Find anything, from the top bar of every page."""

from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.core.errors import NoSuchAddress
from keywright.db import ReadTransaction
from keywright.http.admin.sealed_text import seal_text, unseal_text
from keywright.http.admin.sections.find.groups import KINDS, Asked, Group, Hit, named_kind
from keywright.http.admin.sections.licenses import filter as license_filter
from keywright.http.pages.languages import N_
from keywright.http.pages.languages import gettext as _
from keywright.http.pages.page import Section, page
from keywright.http.pages.render import BASE, url
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.search import projector, query_parser

#: The number of hits of a group: among others, and on a page of its own.
_FEW, _PAGE_SIZE = 5, 50
_MAX_LENGTH = 255
#: The meanings of a text that say devices.
_DEVICE_MEANINGS = ("token", "address", "label")
_SEALED_FOR = b"what is found anywhere in the pages"


class GroupView(NamedTuple):
    """A group as a page shows it; ``more`` is the address of all of it, or of its next page, ``licenses`` the
    address of the list of the devices' licenses.
    """

    kind: str
    label: str
    hits: list[Hit]
    more: str
    all_words: str
    note: str
    licenses: str


class Find(Section):
    """Whatever a text may mean. It is sent in a form, and stands sealed in addresses: a customer's name must
    not be in the history of a browser.
    """

    label = N_("Find")
    path = "/find"
    in_menu = False
    right = Right.LOOK

    @page("", methods=("GET", "POST"))
    def find(self, request: PageRequest) -> Response:
        """The first hits of each group; for admin.js, as the options of the field. A page with one hit would
        be a detour.
        """
        text = request.form.raw("text").strip()[:_MAX_LENGTH] if request.is_post else ""
        groups = request.ask(lambda tx: _find_groups(tx, request, text)) if text else []
        if request.is_from_script:
            return request.render("find/options.html", groups=groups)
        hits = [hit for group in groups for hit in group.hits]
        if len(hits) == 1 and not any(group.more or group.note for group in groups):
            return request.redirect(hits[0].path.removeprefix(BASE))
        lag = request.ask(projector.lag)
        return request.render("find/results.html", groups=groups, find_text=text, lag=lag)

    @page("/{kind}")
    def find_all(self, request: PageRequest) -> Response:
        """All hits of a group, page by page."""
        kind = request.path_params["kind"]
        if kind not in KINDS:
            raise NoSuchAddress
        values = request.ask(lambda tx: _find_group(tx, request, kind))
        return request.render("find/group.html", **values)


def _find_groups(tx: ReadTransaction, request: PageRequest, text: str) -> list[GroupView]:
    views = []
    named, text = named_kind(text)
    for kind in KINDS if named is None else (named,):
        group = KINDS[kind].find(tx, Asked(text, request.now, _FEW, may=request.may))
        if group.hits or group.note:
            # All of it begins with what is shown here.
            start = None if group.hits else group.after
            views.append(_view_of(tx, kind, group, text, start))
    return views


def _find_group(tx: ReadTransaction, request: PageRequest, kind: str) -> dict[str, Any]:
    try:
        text, after = unseal_text(
            tx, request.query.get("q", ""), tuple[str, tuple[Any, ...] | None], _SEALED_FOR
        )
    except ValueError:
        raise NoSuchAddress from None
    group = KINDS[kind].find(tx, Asked(text, request.now, _PAGE_SIZE, after, request.may))
    first = "" if after is None else _address(tx, kind, text, None)
    view = _view_of(tx, kind, group, text, group.after)
    return {"group": view, "find_text": text, "first": first, "lag": projector.lag(tx)}


def _address_of_licenses(tx: ReadTransaction, text: str) -> str:
    """The list of the licenses with a device that is found so, where a filter of the list can say that."""
    meanings = [one for one in query_parser.interpret(tx, text) if one.kind in _DEVICE_MEANINGS]
    return url("/licenses", found=license_filter.seal_meaning(tx, meanings[0])) if meanings else ""


def _view_of(
    tx: ReadTransaction, kind: str, group: Group, text: str, start: tuple[Any, ...] | None
) -> GroupView:
    more = "" if group.after is None else _address(tx, kind, text, start)
    licenses = _address_of_licenses(tx, text) if kind == "devices" and group.hits else ""
    return GroupView(
        kind, _(KINDS[kind].title), group.hits, more, _(KINDS[kind].all_words), group.note, licenses
    )


def _address(tx: ReadTransaction, kind: str, text: str, after: tuple[Any, ...] | None) -> str:
    return url(f"/find/{kind}", q=seal_text(tx, (text, after), _SEALED_FOR))
