"""Who may see which page: all pages there are, for everybody who may come. New ones join by themselves."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.responses import Response

from keywright.config import Settings, open_installation
from keywright.http.admin import app as frame
from keywright.http.admin.lazy_app import Door
from keywright.http.admin.sections.sign_in import Entrance, Start
from keywright.http.pages.page import EVERYBODY, Area, Visit, page
from keywright.identity.rights import Right, may
from tests.http.admin_browser import ROLES, Visitor, make_users, title
from tests.server import NO_LIMITS, RunningServer, running

DATABASES = ("sqlite",)

NOT_YOURS = "Your role does not allow this"
NOT_FROM_HERE = "This form was not sent from here"


class Address(NamedTuple):
    """A page that there is."""

    method: str
    path: str
    needed: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def addresses() -> Iterator[Address]:
    """Every page; numbers and names in its path are made up."""
    areas: list[type[Area]] = [Start, Entrance, *frame.AREAS]
    for area in areas:
        for name, needed in area.pages.items():
            method: Any = getattr(area, name)
            path = area.path.rstrip("/") + method._route_path or "/"
            path = re.sub(r"\{\w+:number\}", "999999", path)
            path = re.sub(r"\{\w+(:\w+)?\}", "x", path)
            for one in method._route_methods:
                yield Address(one, path, needed)


ALL = sorted(addresses())
NOBODY = "nobody"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("rights") / "data", **NO_LIMITS) as server:
        make_users(server)
        yield server


@pytest.fixture(scope="module")
def visitors(server: RunningServer) -> Iterator[dict[str, Visitor]]:
    """Nobody, and one of each role."""
    made = {name: Visitor(server) for name in (NOBODY, *ROLES)}
    for name in ROLES:
        made[name].sign_in(name)
    yield made
    for one in made.values():
        one.http.close()


def test_the_pages_are_found() -> None:
    paths = {one.path for one in ALL}
    assert {"/", "/sign-in", "/sign-out", "/setup", "/account", "/account/password"} <= paths


@pytest.mark.parametrize("who", [NOBODY, *ROLES])
@pytest.mark.parametrize("address", ALL, ids=str)
def test_everybody_sees_what_they_may_and_nothing_else(
    visitors: dict[str, Visitor], address: Address, who: str
) -> None:
    visitor = visitors[who]
    # Without the form's token nothing is done, but rights are looked at before that.
    form = {"data": {"csrf_token": "wrong"}} if address.method == "POST" else {}
    answer = visitor.http.request(address.method, f"/admin{address.path}", **form)  # type: ignore[arg-type]
    is_allowed = address.needed == EVERYBODY or (who in ROLES and may(ROLES[who], Right(address.needed)))
    if not is_allowed and who == NOBODY:
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/admin/sign-in")
    elif not is_allowed:
        assert (answer.status_code, title(answer)) == (403, NOT_YOURS)
    elif address.method == "POST":
        assert (answer.status_code, title(answer)) == (403, NOT_FROM_HERE)
    else:
        assert title(answer) not in (NOT_YOURS, NOT_FROM_HERE)
        assert answer.status_code in (200, 303, 404) or address.path == "/setup"
        assert (
            not answer.headers.get("location", "").startswith("/admin/sign-in")
            or who == NOBODY
            or (address.path == "/setup")
        )


@pytest.mark.parametrize("who", ROLES)
def test_the_menu_shows_what_can_be_opened(visitors: dict[str, Visitor], who: str) -> None:
    page_of_theirs = visitors[who].get("/account").text
    menu = page_of_theirs[page_of_theirs.index('aria-label="Main menu"') : page_of_theirs.index("</nav>")]
    entries = re.findall(r'href="/admin([^"]*)"', menu)
    assert entries == [
        area.path
        for area in frame.AREAS
        if area.add_to_menu and any(may(ROLES[who], Right(needed)) for needed in area.pages.values())
    ]
    for path in entries:
        answer = visitors[who].get(path)
        assert answer.status_code == 200
        assert 'aria-current="page"' in answer.text


def test_every_entry_of_the_menu_has_an_icon_and_a_page() -> None:
    for area in frame.AREAS:
        if area.add_to_menu:
            assert area.icon
            assert "" in {getattr(area, name)._route_path for name in area.pages}


def test_a_page_without_a_right_cannot_even_be_written() -> None:
    with pytest.raises(TypeError, match=r"Careless\.show is a page without a right"):

        class Careless(Area):
            @page("")
            def show(self, visit: Visit) -> Response:
                return visit.text("everything")


def test_a_page_needs_its_own_right_besides_its_areas() -> None:
    class Careful(Area):
        right = Right.LOOK

        @page("")
        def show(self, visit: Visit) -> Response:
            return visit.text("this")

        @page("/all", right=Right.ADMINISTER)
        def show_all(self, visit: Visit) -> Response:
            return visit.text("everything")

    assert Careful.pages == {"show": Right.LOOK, "show_all": Right.ADMINISTER}


def test_the_application_has_these_routes_and_no_other_gate(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with closing(open_installation(settings)) as storage:
        host: Any = frame.build(Door(settings, storage))
    (mount,) = host.routes
    areas: list[type[Area]] = [Start, Entrance, *frame.AREAS]
    ours = {
        area.path.rstrip("/") + getattr(area, name)._route_path or "/"
        for area in areas
        for name in area.pages
    }
    assert {route.path for route in mount.app.routes} == ours | {"/static/{name}"}
    assert [one.cls.__name__ for one in mount.app.user_middleware] == ["_Gate"]


def test_there_are_no_pages_but_these(visitors: dict[str, Visitor]) -> None:
    # What starlette-admin would have by itself.
    for path in (
        "/_api/user/relation-lookup",
        "/_api/user/inline-edit",
        "/api/user/action",
        "/user/list",
        "/user/create",
        "/user/import",
        "/user/export",
        "/login",
        "/logout",
        "/static/js/vendor/jquery.min.js",
        "/static/css/vendor/tabler.min.css",
        "/plugins/x",
    ):
        assert visitors["ada"].get(path).status_code == 404
        assert visitors["ada"].post(path).status_code in (404, 405)
