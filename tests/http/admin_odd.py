"""Keywright with pages in which things go wrong; run as a program, it takes what ``keywright`` takes."""

import sys
from collections.abc import Iterator
from threading import Event
from time import time

from starlette.responses import Response

from keywright.cli import main
from keywright.core import errors as e
from keywright.http.admin import app as frame
from keywright.http.pages.page import Area, Visit, page
from keywright.identity.rights import Right
from keywright.identity.store import list_users

PROGRAM = (sys.executable, "-P", __file__)
_NEVER = Event()


class Odd(Area):
    """What pages may do wrong, and what only some of them do."""

    menu_label = "Odd <script>"
    path = "/odd"
    icon = "alert"
    right = Right.LOOK

    @page("")
    def show(self, visit: Visit) -> Response:
        """What came in."""
        return visit.text(f"{visit.query.get('q', 'nothing')} {visit.address} {visit.user.name}")

    @page("/refused")
    def refused(self, visit: Visit) -> Response:
        """A refusal that nobody catches."""
        raise e.LicenseKeyTaken

    @page("/gone/{id:number}")
    def gone(self, visit: Visit) -> Response:
        """Something that is not there."""
        raise e.NoSuchAddress

    @page("/away")
    def away(self, visit: Visit) -> Response:
        """A database that is away."""
        raise e.StoreUnavailable("it said SECRET")

    @page("/broken", methods=("GET", "POST"))
    def broken(self, visit: Visit) -> Response:
        """A mistake of ours."""
        password = "SECRET"
        return visit.text(str(1 // (len(password) - 6)))

    @page("/half")
    def half(self, visit: Visit) -> Response:
        """A template that cannot be rendered."""
        return visit.page("error.html", said=None)

    @page("/administer", methods=("GET", "POST"), right=Right.ADMINISTER)
    def administer(self, visit: Visit) -> Response:
        """For administrators."""
        return visit.back("/odd", "done")

    @page("/form", methods=("GET", "POST"))
    def form(self, visit: Visit) -> Response:
        """What came in a form."""
        return visit.text(repr((visit.form.all("id"), visit.form.get("text", ""), visit.form.raw("text"))))

    @page("/confirm", methods=("GET", "POST"))
    def confirm(self, visit: Visit) -> Response:
        """Something to be confirmed."""
        if visit.is_post:
            return visit.back("/account", f"Gone: {visit.form['thing']}.")
        return visit.confirm(
            "Really <b>?", ["It goes."], button="Delete it", back="/account", hidden=[("thing", '"><i>')]
        )

    @page("/slow")
    def slow(self, visit: Visit) -> Response:
        """Takes until a moment of the clock."""
        _NEVER.wait(float(visit.query["until"]) - time())
        return visit.text("at last")

    @page("/file")
    def file(self, visit: Visit) -> Response:
        """A file of pieces, each with a look into the database."""

        def pieces() -> Iterator[bytes]:
            for number in range(3):
                yield f"{number},{len(visit.ask(list_users))}\n".encode()

        return visit.download("licenses ü.csv", pieces())


if __name__ == "__main__":
    frame.AREAS = (*frame.AREAS, Odd)
    main(sys.argv[1:])
