"""Addresses that sections had before."""

from starlette.responses import Response

from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right


class OldAddresses(Section):
    """Sends the browser to where a section is now."""

    path = "/"
    in_menu = False
    right = Right.LOOK

    @page("/generators")
    def generators(self, request: PageRequest) -> Response:
        """Generators are policies."""
        return request.redirect("/policies")

    @page("/names")
    def names(self, request: PageRequest) -> Response:
        """Names were first those of products."""
        return request.redirect("/products")

    @page("/names/customers")
    def customers(self, request: PageRequest) -> Response:
        """Customers were names."""
        return request.redirect("/customers")
