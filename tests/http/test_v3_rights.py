"""All routes of v3, called by all kinds of callers: who is refused, and with which code."""

from collections.abc import Iterator
from typing import Any

import pytest

from keywright.http.middleware.routing import Right
from keywright.http.v3.route import Route
from keywright.http.v3.routes import ROUTES
from keywright.identity.model import Permissions
from tests.http.v3_app import App, open_app
from tests.tables import each_row

DATABASES = ("sqlite",)
#: The rights of each kind of API key. A call without one has ``NONE`` and ``CORE``.
RIGHTS = {
    None: {Right.NONE, Right.CORE},
    Permissions.CLIENT: {Right.NONE, Right.CORE, Right.API_KEY},
    Permissions.READ: {Right.NONE, Right.CORE, Right.API_KEY, Right.READ},
    Permissions.WRITE: {Right.NONE, Right.API_KEY, Right.WRITE},
    Permissions.READ_WRITE: set(Right),
}
REFUSED = ("credentials_missing", "not_permitted")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with open_app(tmp_path_factory.mktemp("v3")) as app:
        yield app


@pytest.fixture(scope="module")
def tokens(app: App) -> dict[Any, str | None]:
    """The token of each kind of caller; ``(kind, 17)`` is for product 17 only."""
    kinds = [one for one in RIGHTS if one is not None]
    bound: dict[Any, str | None] = {(one, 17): app.issue_token(one, product_id=17) for one in kinds}
    return bound | {one: app.issue_token(one) for one in kinds} | {None: None}


def code_of(app: App, route: Route, token: str | None) -> str:
    """The problem code of a call with the route's example, which refers to nothing that exists."""
    path = route.path
    for name, is_text in route.parameters:
        path = path.replace(f"{{{name}:text}}" if is_text else f"{{{name}}}", "f" * 32 if is_text else "999")
    body = dict(route.example) if route.body is not None else None
    reply = app.ask(route.method, path, body, token=token)
    assert reply.status < 500, reply.body
    return "" if reply.status < 400 else reply.code


def label(route: Route) -> str:
    return route.operation


@each_row("route", ROUTES, ids=label)
def test_a_call_needs_the_right_of_its_route(app: App, tokens: dict[Any, str | None], route: Route) -> None:
    for kind, rights in RIGHTS.items():
        code = code_of(app, route, tokens[kind])
        if route.right in rights:
            assert code not in REFUSED, kind
        else:
            assert code == ("credentials_missing" if kind is None else "not_permitted"), kind


@each_row("route", [one for one in ROUTES if one.needs_all_products], ids=label)
def test_for_a_key_of_one_product_these_do_not_exist(
    app: App, tokens: dict[Any, str | None], route: Route
) -> None:
    for kind, rights in RIGHTS.items():
        if kind is not None and route.right in rights:
            assert code_of(app, route, tokens[kind, 17]) == "not_found", kind


def test_products_customers_and_their_data_are_for_keys_of_all_products() -> None:
    closed = {one.operation for one in ROUTES if one.needs_all_products}
    assert closed >= {one.operation for one in ROUTES if "/customers" in one.path}
    assert closed >= {"create_product", "update_product", "delete_product"}
    assert {"get_product", "list_products", "list_policies", "list_licenses"}.isdisjoint(closed)
