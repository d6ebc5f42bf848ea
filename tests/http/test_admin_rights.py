"""Rights: all pages, for all roles and without a user. New pages are included automatically."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import pytest
from starlette.responses import Response

from keywright.http.admin.app import SECTIONS
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.http.pages.site import PUBLIC
from keywright.identity.model import Right, may
from tests.databases import KINDS
from tests.http.admin_browser import ROLES, Visitor, make_users, title
from tests.server import RunningServer
from tests.tables import each_row

DATABASES = ("sqlite",)

NOT_YOURS = "Your role does not allow this"
NOT_FROM_HERE = "This form is no longer valid"


class Address(NamedTuple):
    """An address of the pages."""

    method: str
    path: str
    needed: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def addresses() -> Iterator[Address]:
    """All pages, with made-up IDs and names in their paths."""
    for section in SECTIONS:
        for one in section.pages.values():
            path = section.path.rstrip("/") + one.path or "/"
            path = re.sub(r"\{\w+:number\}", "999999", path)
            path = re.sub(r"\{\w+(:\w+)?\}", "x", path)
            for method in one.http_methods:
                yield Address(method, path, str(one.right))


ALL = sorted(addresses())
SIGNED_OUT = "signed out"
OF_EVERYONE = re.compile(r"/(invitation|setup|sign-in|sign-out|theme)\b")
OF_ADMINISTRATORS = re.compile(
    r"/(api-keys|mail-templates|portal|settings|signing-keys|system|users|webhooks)\b"
    r"|/connections/(new|999999/(edit|remove|take-over))$|/customers/999999/erase$|/mails/held$"
    r"|/policies/(new|preview|999999/(archive|delete|edit|unarchive|undo))$"
)
#: Forms that readers may send; they change none of the vendor's data.
OF_READERS = re.compile(r"/(account|find)\b|/licenses/(views|999999/try)\b")


@pytest.fixture(scope="module")
def visitors(server: RunningServer) -> Iterator[dict[str, Visitor]]:
    """A browser for each role, and one without a user."""
    make_users(server)
    made = {name: Visitor(server) for name in (SIGNED_OUT, *ROLES)}
    for name in ROLES:
        made[name].sign_in(name)
    yield made
    for one in made.values():
        one.http.close()


def test_the_pages_are_found() -> None:
    paths = {one.path for one in ALL}
    assert {"/", "/sign-in", "/sign-out", "/setup", "/account", "/account/password"} <= paths


def needed(address: Address) -> str:
    """The right that a page must require: a page with a form requires that of the form."""
    if OF_EVERYONE.match(address.path):
        return PUBLIC
    if OF_ADMINISTRATORS.match(address.path):
        return Right.ADMINISTER
    is_form = any((one.method, one.path) == ("POST", address.path) for one in ALL)
    changes = (is_form and not OF_READERS.match(address.path)) or address.path == "/licenses/deleted"
    return Right.CHANGE if changes else Right.LOOK


def test_readers_look_support_changes_and_the_rest_is_for_administrators() -> None:
    assert [str(one) for one in ALL if one.needed != needed(one)] == []


@pytest.mark.parametrize("who", [SIGNED_OUT, *ROLES])
@each_row("address", ALL, ids=str)
def test_a_page_is_open_to_its_rights_alone(visitors: dict[str, Visitor], address: Address, who: str) -> None:
    visitor = visitors[who]
    # With a wrong token, nothing is changed; but rights are checked first.
    form = {"data": {"csrf_token": "wrong"}} if address.method == "POST" else {}
    answer = visitor.http.request(address.method, f"/admin{address.path}", **form)  # type: ignore[arg-type]
    is_allowed = address.needed == PUBLIC or (who in ROLES and may(ROLES[who], Right(address.needed)))
    if not is_allowed and who == SIGNED_OUT:
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/admin/sign-in")
    elif not is_allowed:
        assert (answer.status_code, title(answer)) == (403, NOT_YOURS)
    elif address.method == "POST":
        assert (answer.status_code, title(answer)) == (403, NOT_FROM_HERE)
    else:
        assert title(answer) not in (NOT_YOURS, NOT_FROM_HERE)
        assert answer.status_code in (200, 303, 404) or address.path in ("/setup", "/invitation")
        assert (
            not answer.headers.get("location", "").startswith("/admin/sign-in")
            or who == SIGNED_OUT
            or (address.path in ("/setup", "/invitation"))
        )


@pytest.mark.parametrize("who", ROLES)
def test_the_menu_shows_what_can_be_opened(visitors: dict[str, Visitor], who: str) -> None:
    page_of_theirs = visitors[who].get("/account").text
    menu = page_of_theirs[page_of_theirs.index('aria-label="Main menu"') : page_of_theirs.index("</nav>")]
    entries = re.findall(r'href="/admin([^"]*)"', menu)
    assert entries == [
        section.path
        for section in SECTIONS
        if section.in_menu and any(may(ROLES[who], Right(str(one.right))) for one in section.pages.values())
    ]
    for path in entries:
        answer = visitors[who].get(path)
        assert answer.status_code == 200
        assert 'aria-current="page"' in answer.text


def test_every_entry_of_the_menu_has_a_group_an_icon_of_its_own_and_a_page() -> None:
    entries = [section for section in SECTIONS if section.in_menu]
    icons = [section.icon for section in entries]
    groups = [name for name, _ in groupby(section.group for section in entries)]
    assert groups == ["", "Licensing", "Activity", "Connections", "Settings"]
    # The buttons below the menu have these icons.
    assert sorted({*icons, "sun", "moon", "system"}) == sorted([*icons, "sun", "moon", "system"])
    for section in entries:
        assert section.icon != Section.icon
        assert "" in {one.path for one in section.pages.values()}


def test_a_page_without_a_right_cannot_even_be_written() -> None:
    with pytest.raises(TypeError, match=r"Careless\.show is a page without a right"):

        class Careless(Section):
            @page("")
            def show(self, request: PageRequest) -> Response:
                return request.text("everything")


@pytest.mark.databases(*KINDS)
@each_row("number", [0, 2**63 - 2, 2**63, 10**40, "9" * 3_000])
def test_there_is_no_page_about_a_number_that_nothing_has(ada: Visitor, number: object) -> None:
    """Forms that undo or free something redirect to its page, which shows the reason for a refusal."""
    # A neighbor's license may belong to the customer 0 or the product 0 of a shop, which then have a page.
    shown = ("/customers/", "/products/") if number == 0 else ()
    for one in (one for one in ALL if "999999" in one.path and not one.path.startswith(shown)):
        path = one.path.replace("999999", str(number))
        status = (ada.get(path) if one.method == "GET" else ada.post(path)).status_code
        leads_back = re.search(r"/(free|restore|undo)\b", path) is not None
        assert status == 404 or (leads_back and status in (303, 409)), (one, status)
