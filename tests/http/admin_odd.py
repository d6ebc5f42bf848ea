"""Keywright with pages that fail; as a program, it takes the arguments of ``keywright``."""

import sys
from collections.abc import Iterator
from threading import Event
from time import time

from starlette.responses import Response

from keywright.cli import main
from keywright.core import errors as e
from keywright.http.admin import app
from keywright.http.pages import passwords
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.identity.store import list_users

PROGRAM = (sys.executable, "-P", __file__)
_NEVER = Event()


class Odd(Section):
    """Pages that fail, or use rare features."""

    label = "Odd <script>"
    path = "/odd"
    icon = "alert"
    right = Right.LOOK

    @page("")
    def show(self, request: PageRequest) -> Response:
        """Show the parameter, the address and the user."""
        return request.text(
            f"{request.query.get('q', 'nothing')} {request.browser.address} {request.user.name}"
        )

    @page("/refused")
    def refused(self, request: PageRequest) -> Response:
        """Raise a refusal."""
        raise e.LicenseKeyTaken

    @page("/gone/{id:number}")
    def gone(self, request: PageRequest) -> Response:
        """Raise NoSuchAddress."""
        raise e.NoSuchAddress

    @page("/away")
    def away(self, request: PageRequest) -> Response:
        """Raise a database error."""
        raise e.StoreUnavailable("it said SECRET")

    @page("/broken", methods=("GET", "POST"))
    def broken(self, request: PageRequest) -> Response:
        """Raise an unexpected error."""
        password = "SECRET"
        return request.text(str(1 // (len(password) - 6)))

    @page("/half")
    def half(self, request: PageRequest) -> Response:
        """Render a template with a missing value."""
        return request.render("error.html", message=None)

    @page("/administer", methods=("GET", "POST"), right=Right.ADMINISTER)
    def administer(self, request: PageRequest) -> Response:
        """For administrators."""
        return request.redirect("/odd", "done")

    @page("/form", methods=("GET", "POST"))
    def form(self, request: PageRequest) -> Response:
        """Show the fields of a form."""
        return request.text(
            repr((request.form.all("id"), request.form.get("text", ""), request.form.raw("text")))
        )

    @page("/confirm", methods=("GET", "POST"))
    def confirm(self, request: PageRequest) -> Response:
        """Ask for confirmation."""
        if request.is_post:
            return request.redirect("/account", f"Gone: {request.form['thing']}.")
        return request.confirm(
            "Really <b>?", ["It goes."], button="Delete it", back="/account", hidden=[("thing", '"><i>')]
        )

    @page("/slow")
    def slow(self, request: PageRequest) -> Response:
        """Respond at a given time."""
        _NEVER.wait(float(request.query["until"]) - time())
        return request.text("at last")

    @page("/file")
    def file(self, request: PageRequest) -> Response:
        """Send a file in chunks, each with a query."""

        def pieces() -> Iterator[bytes]:
            for number in range(3):
                yield f"{number},{len(request.ask(list_users))}\n".encode()

        return request.download("licenses ü.csv", pieces())


def _stop_counting_minutes() -> None:
    """Never forget sign-in attempts: on a slow machine, a minute is too short for some tests."""
    vars(passwords).update(monotonic=lambda: 0.0)


if __name__ == "__main__":
    _stop_counting_minutes()
    app.SECTIONS = (*app.SECTIONS, Odd)
    main(sys.argv[1:])
