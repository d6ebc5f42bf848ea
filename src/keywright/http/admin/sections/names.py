"""Names for the numbers of products and customers in the vendor's shop."""

from typing import NamedTuple

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import NoSuchAddress
from keywright.http.pages.inputs import Inputs, parse_number, require_id
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.provisioning.catalog.commands import SaveName
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import list_names, names_of, page_of_names_before

_PAGE_SIZE = 50


class Kind(NamedTuple):
    """A kind of thing that has names."""

    kind: NameKind
    path: str
    slug: str
    one: str
    many: str


KINDS = {
    "products": Kind(NameKind.PRODUCT, "/names", "products", "product", "Products"),
    "customers": Kind(NameKind.CUSTOMER, "/names/customers", "customers", "customer", "Customers"),
}


class Names(Section):
    """Names of products and customers. Every user may see them; users who may change licenses may change
    them.
    """

    label = "Names"
    path = "/names"
    icon = "tag"
    right = Right.LOOK

    @page("")
    def products(self, request: PageRequest) -> Response:
        """The names of products."""
        return _render_list(request, KINDS["products"])

    @page("/customers")
    def customers(self, request: PageRequest) -> Response:
        """The names of customers."""
        return _render_list(request, KINDS["customers"])

    @page("/{kind:str}/new", methods=("GET", "POST"), right=Right.CHANGE)
    def add(self, request: PageRequest) -> Response:
        """Name a number."""
        kind = _get_kind(request)
        inputs = Inputs(request.form)
        if request.is_post:
            number = inputs.require("number", parsing.parse_integer, 0)
            name = inputs.require("name", parsing.parse_name, "")
            if not inputs.errors:
                return _save(request, kind, number or 0, name)
        return _render_form(request, kind, inputs, None, request.form.get("name", ""))

    @page("/{kind:str}/{number:number}", methods=("GET", "POST"), right=Right.CHANGE)
    def rename(self, request: PageRequest) -> Response:
        """Change the name of a number."""
        kind, number = _get_kind(request), require_id(request.path_params["number"])
        inputs, name = Inputs(request.form), _get_name(request, kind, number)
        if request.is_post:
            name = inputs.require("name", parsing.parse_name, "")
            if not inputs.errors:
                return _save(request, kind, number, name)
        return _render_form(request, kind, inputs, number, name)

    @page("/{kind:str}/{number:number}/remove", methods=("GET", "POST"), right=Right.CHANGE)
    def remove(self, request: PageRequest) -> Response:
        """Remove a name; licenses keep the number."""
        kind, number = _get_kind(request), require_id(request.path_params["number"])
        name = _get_name(request, kind, number)
        if request.is_post:
            request.change(SaveName(context=request.context, kind=kind.kind, number=number, name=None))
            return request.redirect(kind.path, f"The {kind.one} {number} has no name now.")
        return request.confirm(
            f"Remove the name {name}?",
            [f"The {kind.one} {number} is then shown by its number. Licenses do not change."],
            button="Remove it",
            back=kind.path,
        )


def _get_kind(request: PageRequest) -> Kind:
    kind = KINDS.get(request.path_params["kind"])
    if kind is None:
        raise NoSuchAddress
    return kind


def _get_name(request: PageRequest, kind: Kind, number: int) -> str:
    """The name of a number. Raises ``NoSuchAddress`` if it has none."""
    name = request.ask(lambda tx: names_of(tx, kind.kind, [number])).get(number)
    if name is None:
        raise NoSuchAddress
    return name


def _save(request: PageRequest, kind: Kind, number: int, name: str) -> Response:
    request.change(SaveName(context=request.context, kind=kind.kind, number=number, name=name))
    return request.redirect(kind.path, f"The {kind.one} {number} is now called {name}.")


def _render_list(request: PageRequest, kind: Kind) -> Response:
    number = parse_number(request.query.get("after", ""))
    after = -1 if number is None else number
    names = request.ask(lambda tx: list_names(tx, kind.kind, after=after, limit=_PAGE_SIZE + 1))
    shown = dict(list(names.items())[:_PAGE_SIZE])
    return request.render(
        "names/list.html",
        kind=kind,
        kinds=KINDS,
        names=shown,
        has_names=bool(shown) or (after >= 0 and _has_names(request, kind)),
        is_first=after < 0,
        previous=None if after < 0 else _previous_page(request, kind, after),
        next=max(shown) if len(names) > len(shown) else None,
    )


def _has_names(request: PageRequest, kind: Kind) -> bool:
    return bool(request.ask(lambda tx: list_names(tx, kind.kind, after=-1, limit=1)))


def _previous_page(request: PageRequest, kind: Kind, after: int) -> int:
    """The number after which the previous page begins; -1 is the first page."""
    return request.ask(lambda tx: page_of_names_before(tx, kind.kind, number=after, limit=_PAGE_SIZE))


def _render_form(request: PageRequest, kind: Kind, inputs: Inputs, number: int | None, name: str) -> Response:
    return request.render(
        "names/edit.html",
        kind=kind,
        number=number,
        name=name,
        errors=inputs.errors,
    )
