"""The examples of all routes of v3 are executed as shown in the reference."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from keywright.core.command import Context
from keywright.http.middleware.routing import Right
from keywright.http.openapi.v3_document import example_url
from keywright.http.v3.route import Route
from keywright.http.v3.routes import ROUTES
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from tests.http.v3_app import App, Reply, open_app
from tests.makers import NOW, an_origin, create_policy
from tests.tables import each_row

DATABASES = ("sqlite",)
#: Problems that an example must not cause, whatever is stored.
MALFORMED = frozenset(
    "malformed_body unknown_parameter invalid_parameter invalid not_acceptable method_not_allowed "
    "unsupported_media_type not_permitted credentials_missing credentials_invalid internal_error".split()
)
#: Creations come first, deletions last; both in the order of the table.
ORDER = {"POST": 0, "GET": 1, "PATCH": 1, "PUT": 1, "DELETE": 2}


@pytest.fixture(scope="module")
def replies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Reply]]:
    """The responses to all examples, by operation; IDs in paths are those of the created items."""
    folder: Path = tmp_path_factory.mktemp("v3")
    made: dict[str, Any] = {}
    found = {}
    with open_app(folder) as app:
        app.name_products(3, 17)
        customer = NewCustomer(id=1000000042, email="claims@example.com")
        app.do(CreateCustomer(context=Context(NOW, an_origin()), fields=customer))
        app.do(*(create_policy(product_id=17) for _ in range(5)))
        for route in sorted(ROUTES, key=lambda one: (ORDER[one.method], len(one.parameters))):
            reply = found[route.operation] = carry_out(app, route, made)
            if reply.status == 201 and not route.parameters and "id" in reply.json:
                noun = str(route.words[0]).removesuffix("s").replace("policie", "policy")
                made[f"{noun}_id"] = reply.json["id"]
        yield found


def carry_out(app: App, route: Route, made: dict[str, Any]) -> Reply:
    path = example_url(route, "")
    for name, _ in route.parameters:
        if name in made:
            path = path.replace("/17", f"/{made[name]}", 1)
    token = None if route.right in (Right.NONE, Right.CORE) else ""
    return app.ask(route.method, path, None if route.body is None else dict(route.example), token=token)


@each_row("route", ROUTES, ids=lambda one: one.operation)
def test_an_example_is_well_formed_and_its_answer_is_as_described(
    replies: dict[str, Reply], route: Route
) -> None:
    reply = replies[route.operation]
    if reply.status not in (route.status, *route.also):
        assert reply.code not in MALFORMED, reply.body
    elif route.gives is not None:
        decoded = msgspec.json.decode(reply.body, type=route.gives)
        # All members of a response are always present.
        assert msgspec.json.decode(reply.body) == msgspec.json.decode(msgspec.json.encode(decoded))
    else:
        assert reply.body == b""


def test_most_examples_succeed(replies: dict[str, Reply]) -> None:
    failed = {
        route.operation: replies[route.operation].code
        for route in ROUTES
        if replies[route.operation].status not in (route.status, *route.also)
    }
    assert len(failed) <= len(ROUTES) / 2, failed
