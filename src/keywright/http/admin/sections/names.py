"""What a vendor calls the products and customers that its shop has numbers for."""

from typing import NamedTuple

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import NoSuchAddress
from keywright.http.pages.inputs import Inputs, number_of
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.provisioning.catalog.commands import SaveName
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import list_names, names_of, page_of_names_before

_ON_A_PAGE = 50


class Kind(NamedTuple):
    """What has names."""

    kind: NameKind
    #: Where its page is.
    path: str
    one: str
    many: str


KINDS = {
    "products": Kind(NameKind.PRODUCT, "/names", "product", "Products"),
    "customers": Kind(NameKind.CUSTOMER, "/names/customers", "customer", "Customers"),
}


class Names(Section):
    """Names for the numbers of the shop. Everybody may look; who may change licenses may change them."""

    label = "Names"
    path = "/names"
    icon = "tag"
    right = Right.LOOK

    @page("")
    def products(self, request: PageRequest) -> Response:
        """The names of products."""
        return _list(request, KINDS["products"])

    @page("/customers")
    def customers(self, request: PageRequest) -> Response:
        """The names of customers."""
        return _list(request, KINDS["customers"])

    @page("/{kind:str}/new", methods=("GET", "POST"), right=Right.CHANGE)
    def add(self, request: PageRequest) -> Response:
        """Give a number a name."""
        kind = _kind(request)
        inputs = Inputs(request.form)
        if request.is_post:
            number = inputs.need("number", parsing.parse_integer, 0)
            name = inputs.need("name", parsing.parse_name, "")
            if not inputs.errors:
                return _saved(request, kind, number or 0, name)
        return _form(request, kind, inputs, None, request.form.get("name", ""))

    @page("/{kind:str}/{number:number}", methods=("GET", "POST"), right=Right.CHANGE)
    def rename(self, request: PageRequest) -> Response:
        """Give a number another name."""
        kind, number = _kind(request), number_of(request.path_params["number"])
        inputs, name = Inputs(request.form), _name_of(request, kind, number)
        if request.is_post:
            name = inputs.need("name", parsing.parse_name, "")
            if not inputs.errors:
                return _saved(request, kind, number, name)
        return _form(request, kind, inputs, number, name)

    @page("/{kind:str}/{number:number}/remove", methods=("GET", "POST"), right=Right.CHANGE)
    def remove(self, request: PageRequest) -> Response:
        """Take the name away; the number stays where it stands."""
        kind, number = _kind(request), number_of(request.path_params["number"])
        name = _name_of(request, kind, number)
        if request.is_post:
            request.change(SaveName(context=request.context, kind=kind.kind, number=number, name=None))
            return request.redirect(kind.path, f"The {kind.one} {number} has no name any more.")
        return request.confirm(
            f"Take the name {name} away?",
            [f"The {kind.one} {number} is shown by its number then. Licenses do not change."],
            button="Take it away",
            back=kind.path,
        )


def _kind(request: PageRequest) -> Kind:
    kind = KINDS.get(request.path_params["kind"])
    if kind is None:
        raise NoSuchAddress
    return kind


def _name_of(request: PageRequest, kind: Kind, number: int) -> str:
    """The number's name. Raises ``NoSuchAddress`` where it has none."""
    name = request.ask(lambda tx: names_of(tx, kind.kind, [number])).get(number)
    if name is None:
        raise NoSuchAddress
    return name


def _saved(request: PageRequest, kind: Kind, number: int, name: str) -> Response:
    request.change(SaveName(context=request.context, kind=kind.kind, number=number, name=name))
    return request.redirect(kind.path, f"The {kind.one} {number} is called {name} now.")


def _list(request: PageRequest, kind: Kind) -> Response:
    after = _number_in(request.query.get("after", ""))
    names = request.ask(lambda tx: list_names(tx, kind.kind, after=after, limit=_ON_A_PAGE + 1))
    shown = dict(list(names.items())[:_ON_A_PAGE])
    return request.render(
        "names/list.html",
        kind=kind,
        kinds=KINDS,
        slug=_slug(kind),
        names=shown,
        has_some=bool(shown) or (after >= 0 and bool(_first(request, kind))),
        is_first=after < 0,
        previous=None if after < 0 else _before(request, kind, after),
        next=max(shown) if len(names) > len(shown) else None,
    )


def _first(request: PageRequest, kind: Kind) -> dict[int, str]:
    """The name of the smallest number that has one."""
    return request.ask(lambda tx: list_names(tx, kind.kind, after=-1, limit=1))


def _before(request: PageRequest, kind: Kind, after: int) -> int:
    """After which number the page begins that comes before this one; -1 is the first page."""
    return request.ask(lambda tx: page_of_names_before(tx, kind.kind, number=after, limit=_ON_A_PAGE))


def _form(request: PageRequest, kind: Kind, inputs: Inputs, number: int | None, name: str) -> Response:
    return request.render(
        "names/edit.html",
        status=422 if inputs.errors else 200,
        kind=kind,
        number=number,
        name=name,
        errors=inputs.errors,
    )


def _slug(kind: Kind) -> str:
    return next(slug for slug, one in KINDS.items() if one is kind)


def _number_in(text: str) -> int:
    """The number in the address; -1 for what is none."""
    try:
        number = parsing.parse_integer(text)
    except ValueError:
        return -1
    return -1 if number is None else number
