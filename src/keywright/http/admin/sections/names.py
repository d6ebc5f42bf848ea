"""What a vendor calls the products and customers that its shop has numbers for."""

from typing import NamedTuple

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import NoSuchAddress
from keywright.http.pages.inputs import Inputs, number_of
from keywright.http.pages.page import Area, Visit, page
from keywright.identity.rights import Right
from keywright.provisioning.catalog.commands import SaveName
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import list_names, names_of, page_of_names_before

_ON_A_PAGE = 50
#: So many are offered where a number is typed.
_MOST_OFFERED = 200


class Kind(NamedTuple):
    """What has names."""

    kind: NameKind
    #: Where its page is.
    path: str
    one: str
    many: str


KINDS = {
    "products": Kind(NameKind.PRODUCT, "/names", "product", "Products"),
    "customers": Kind(NameKind.USER, "/names/customers", "customer", "Customers"),
}


def choices(visit: Visit, kind: NameKind) -> dict[int, str]:
    """Names to be offered where a number is typed, by number; the first of many."""
    return visit.ask(lambda tx: list_names(tx, kind, after=-1, limit=_MOST_OFFERED))


class Names(Area):
    """Names for the numbers of the shop. Everybody may look; who may change licenses may change them."""

    menu_label = "Names"
    path = "/names"
    icon = "tag"
    right = Right.LOOK

    @page("")
    def products(self, visit: Visit) -> Response:
        """The names of products."""
        return _list(visit, KINDS["products"])

    @page("/customers")
    def customers(self, visit: Visit) -> Response:
        """The names of customers."""
        return _list(visit, KINDS["customers"])

    @page("/{kind:str}/new", methods=("GET", "POST"), right=Right.CHANGE)
    def add(self, visit: Visit) -> Response:
        """Give a number a name."""
        kind = _kind(visit)
        inputs = Inputs(visit.form)
        if visit.is_post:
            number = inputs.need("number", parsing.parse_integer, 0)
            name = inputs.need("name", parsing.parse_name, "")
            if not inputs.errors:
                return _saved(visit, kind, number or 0, name)
        return _form(visit, kind, inputs, None, visit.form.get("name", ""))

    @page("/{kind:str}/{number:number}", methods=("GET", "POST"), right=Right.CHANGE)
    def rename(self, visit: Visit) -> Response:
        """Give a number another name."""
        kind, number = _kind(visit), number_of(visit.path["number"])
        inputs, name = Inputs(visit.form), _name_of(visit, kind, number)
        if visit.is_post:
            name = inputs.need("name", parsing.parse_name, "")
            if not inputs.errors:
                return _saved(visit, kind, number, name)
        return _form(visit, kind, inputs, number, name)

    @page("/{kind:str}/{number:number}/remove", methods=("GET", "POST"), right=Right.CHANGE)
    def remove(self, visit: Visit) -> Response:
        """Take the name away; the number stays where it stands."""
        kind, number = _kind(visit), number_of(visit.path["number"])
        name = _name_of(visit, kind, number)
        if visit.is_post:
            visit.change(SaveName(**visit.command_fields(), kind=kind.kind, number=number, name=None))
            return visit.back(kind.path, f"The {kind.one} {number} has no name any more.")
        return visit.confirm(
            f"Take the name {name} away?",
            [f"The {kind.one} {number} is shown by its number then. Licenses do not change."],
            button="Take it away",
            back=kind.path,
        )


def _kind(visit: Visit) -> Kind:
    kind = KINDS.get(visit.path["kind"])
    if kind is None:
        raise NoSuchAddress
    return kind


def _name_of(visit: Visit, kind: Kind, number: int) -> str:
    """The number's name. Raises ``NoSuchAddress`` where it has none."""
    name = visit.ask(lambda tx: names_of(tx, kind.kind, [number])).get(number)
    if name is None:
        raise NoSuchAddress
    return name


def _saved(visit: Visit, kind: Kind, number: int, name: str) -> Response:
    visit.change(SaveName(**visit.command_fields(), kind=kind.kind, number=number, name=name))
    return visit.back(kind.path, f"The {kind.one} {number} is called {name} now.")


def _list(visit: Visit, kind: Kind) -> Response:
    after = _number_in(visit.query.get("after", ""))
    names = visit.ask(lambda tx: list_names(tx, kind.kind, after=after, limit=_ON_A_PAGE + 1))
    shown = dict(list(names.items())[:_ON_A_PAGE])
    return visit.page(
        "names/list.html",
        kind=kind,
        kinds=KINDS,
        slug=_slug(kind),
        names=shown,
        has_some=bool(shown) or (after >= 0 and bool(_first(visit, kind))),
        is_first=after < 0,
        previous=None if after < 0 else _before(visit, kind, after),
        next=max(shown) if len(names) > len(shown) else None,
    )


def _first(visit: Visit, kind: Kind) -> dict[int, str]:
    """The name of the smallest number that has one."""
    return visit.ask(lambda tx: list_names(tx, kind.kind, after=-1, limit=1))


def _before(visit: Visit, kind: Kind, after: int) -> int:
    """After which number the page begins that comes before this one; -1 is the first page."""
    return visit.ask(lambda tx: page_of_names_before(tx, kind.kind, number=after, limit=_ON_A_PAGE))


def _form(visit: Visit, kind: Kind, inputs: Inputs, number: int | None, name: str) -> Response:
    return visit.page(
        "names/edit.html",
        status=422 if inputs.errors else 200,
        kind=kind,
        number=number,
        form=visit.form,
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
