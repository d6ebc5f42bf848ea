"""The five routes of a noun: create, list, get, update and delete."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from keywright.core.nouns import ListQuery, Noun
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lists, schemas
from keywright.http.v3.answers import created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import Route


class Texts(NamedTuple):
    """The description of each route, for the documents."""

    create: str
    delete: str
    get: str = ""
    list: str = "Newest first."
    update: str = "Omitted members keep their values."


class Shown(NamedTuple):
    """How an item is shown, if not as it is stored: the type of the answer, a function that converts to it,
    and values that replace members which change although the item does not, so that its ``ETag`` stays the
    same.
    """

    gives: Any
    show: Callable[[Any], Struct]
    volatile: Mapping[str, Any] = MappingProxyType({})


def crud_routes(
    noun: Noun,
    texts: Texts,
    *,
    example: Mapping[str, Any],
    change: Mapping[str, Any],
    refusals: Mapping[str, tuple[str, ...]],
    shown: Shown | None = None,
    check: Callable[[Call, Any], None] = lambda _call, _fields: None,
) -> tuple[Route, ...]:
    """The routes of a noun, at ``/products`` and the like. ``example`` and ``change`` are the bodies of
    example calls, ``refusals`` the problem codes by method; ``check`` may refuse fields, given the call and
    its settings.
    """
    name, path = noun.name, f"/{noun.name}s"
    shown = shown or Shown(noun.model, lambda stored: stored)
    one, gives, calls = f"{path}/{{{name}_id}}", shown.gives, _Calls(noun, shown, check)

    def route(method: str, verb: str, handler: Any, text: str, **more: Any) -> Route:
        at = path if verb in ("create", "list") else one
        plural = "s" if verb == "list" else ""
        right = Right.READ if method == "GET" else Right.WRITE
        needs_all = not noun.product_column or (noun.product_column == "id" and method != "GET")
        return Route(
            *(method, at, right, handler),
            operation=f"{verb}_{name}{plural}",
            text=text,
            refusals=refusals.get(method, ()),
            needs_all_products=needs_all,
            **more,
        )

    new: dict[str, Any] = {"body": noun.new, "gives": gives, "status": 201, "example": example}
    page: dict[str, Any] = {"query": noun.query, "gives": schemas.Page[gives]}  # type: ignore[valid-type]
    changed: dict[str, Any] = {"body": noun.fields, "gives": gives, "example": change}
    return (
        route("POST", "create", calls.create, f"Create a {name}.\n\n{texts.create}", **new),
        route("GET", "list", calls.list_page, f"List {name}s.\n\n{texts.list}", **page),
        route(
            "GET", "get", calls.get, f"Get a {name}.\n\n{texts.get or f'Returns one {name}.'}", gives=gives
        ),
        route("PATCH", "update", calls.update, f"Change a {name}.\n\n{texts.update}", **changed),
        route("DELETE", "delete", calls.delete, f"Delete a {name}.\n\n{texts.delete}", status=204),
    )


class _Calls:
    """The handlers of the routes."""

    def __init__(self, noun: Noun, shown: Shown, check: Callable[[Call, Any], None]) -> None:
        self._noun = noun
        self._show, self._volatile = shown.show, shown.volatile
        self._check = check
        self._id = f"{noun.name}_id"

    async def create(self, call: Call, body: Struct) -> Answer:
        def write(one: Any) -> Answer:
            path = f"{call.root}/{self._noun.name}s/{one.id}"
            return created(self._show(one), path, etag=self._etag(one))

        self._check(call, body)

        return await call.change(self._noun.create(**_about(call), fields=body), write)

    async def list_page(self, call: Call, query: ListQuery) -> Answer:
        paging, only = lists.read_paging(call), call.only_product_id
        asked = self._noun.list(paging=paging, where=query, only_product_id=only)
        return await call.ask(asked, lambda page: lists.answer_items(call, page, self._show))

    async def get(self, call: Call) -> Answer:
        asked = self._noun.get(id=call.path[self._id], only_product_id=call.only_product_id)
        return await call.ask(asked, self._write)

    async def update(self, call: Call, body: Struct) -> Answer:
        self._check(call, body)
        precondition = call.precondition(self._etag)
        command = self._noun.update(
            **_about(call), id=call.path[self._id], fields=body, precondition=precondition
        )
        return await call.change(command, self._write)

    async def delete(self, call: Call) -> Answer:
        precondition = call.precondition(self._etag)
        command = self._noun.delete(**_about(call), id=call.path[self._id], precondition=precondition)
        return await call.change(command, no_content)

    def _etag(self, one: Any) -> bytes:
        return etag_of(self._show(one), **self._volatile)

    def _write(self, one: Any) -> Answer:
        return ok(self._show(one), etag=self._etag(one))


def _about(call: Call) -> dict[str, Any]:
    return {"context": call.context, "only_product_id": call.only_product_id}
