"""The interfaces in this process, with routes of the tests' own beside those of v3."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx
from msgspec import UNSET, Meta, Struct, UnsetType, field
from sqlalchemy import select
from starlette.types import Receive, Scope, Send

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.core.command import Command
from keywright.core.fields import Id, Parse, Time
from keywright.core.nouns import ListQuery
from keywright.core.parsing import parse_name
from keywright.db import Storage
from keywright.db.schema import events
from keywright.engine.desk import Desk
from keywright.http.answer import Answer
from keywright.http.middleware.access_log import AccessLog
from keywright.http.middleware.authentication import ApiKeyCache
from keywright.http.middleware.body import BodyReader
from keywright.http.middleware.pipeline import Middlewares, Pipeline
from keywright.http.middleware.routing import Right
from keywright.http.public.downloads import Downloads
from keywright.http.public.edd.interface import Edd
from keywright.http.public.updates import Updates
from keywright.http.signatures import Signatures
from keywright.http.v2.interface import V2
from keywright.http.v3 import lists
from keywright.http.v3.answers import created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body, ClientBody, LicenseKey
from keywright.http.v3.interface import V3
from keywright.http.v3.route import JSON_TYPE, JWT_TYPE, Route
from keywright.http.v3.routes import ROUTES
from keywright.http.v3.schemas import Me, Page
from keywright.identity.model import Permissions
from keywright.licensing.activations.model import Validate
from keywright.licensing.licenses.model import CreateLicense, Status
from keywright.provisioning.products import PRODUCT
from keywright.provisioning.store import PRODUCTS
from keywright.registry import open_executor
from tests.makers import NOW, a_storage, issue_api_key


class Order(Body):
    id: Annotated[str, Meta(max_length=20)]
    lines: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(max_length=3)] = field(default_factory=list)


class NewThing(Body):
    key: LicenseKey
    name: Annotated[str, Parse(parse_name)] | None = None
    color: Literal["red", "blue"] = "red"
    max_things: Annotated[int, Meta(ge=1, le=5)] | None = None
    expires_at: Time | None = None
    order: Order | None = None
    metadata: dict[str, Any] | None = None


class ThingChanges(Body):
    name: str | UnsetType | None = UNSET
    max_things: Id | UnsetType | None = UNSET


class Check(ClientBody):
    license_key: LicenseKey
    fingerprint: Annotated[str, Meta(min_length=8, max_length=256)] | None = None
    entitlements: list[str] = field(default_factory=list)
    built_at: Time | None = None


class ThingQuery(ListQuery):
    color: Literal["red", "blue"] | None = None
    sort: Literal["id", "-id"] = "id"


class Thing(Struct):
    """A thing."""

    id: int
    name: str | None
    seen_at: datetime | None = None


async def check(call: Call, body: Check) -> Answer:
    """Check a license.

    Reads it.
    """
    query = Validate(key=body.license_key, only_product_id=call.only_product_id)
    return await call.ask(query, lambda _: ok({"fingerprint": body.fingerprint or ""}))


async def create_thing(call: Call, body: NewThing) -> Answer:
    """Make a thing.

    It is a license.
    """

    def write(outcome: Any) -> Answer:
        one = outcome.license
        return created(Thing(one.id, body.name), f"{call.root}/things/{one.id}", etag=b'"made"')

    return await call.change(CreateLicense(context=call.context, key=body.key, status=Status.ACTIVE), write)


async def change_thing(call: Call, body: ThingChanges) -> Answer:
    """Change a thing.

    Says what it was told.
    """
    sent = {name: getattr(body, name) for name in body.__struct_fields__ if getattr(body, name) is not UNSET}
    if require_match := call.precondition(etag_of):
        require_match(Thing(call.path["thing_id"], "now"))
    return ok(sent)


async def delete_thing(_call: Call) -> Answer:
    """Delete a thing.

    It is gone.
    """
    return no_content()


async def list_things(call: Call, query: ThingQuery) -> Answer:
    """List things.

    There are seven.
    """
    after = lists.read_cursor(call, tuple[int]) or (0,)
    found = list(range(after[0] + 1, 8))[: query.limit + 1]
    total = 7 if query.count else None
    return lists.answer_page(call, found, lambda one: [one], lambda one: Thing(one, None), total=total)


async def fail(_call: Call) -> Answer:
    """Fail.

    By a fault.
    """
    raise ZeroDivisionError


OWN_ROUTES = (
    Route(
        "POST",
        "/check",
        Right.CORE,
        check,
        operation="validate",
        gives=Me,
        is_read=True,
        refusals=("expired",),
        produces=(JSON_TYPE, JWT_TYPE),
        example={"license_key": "KEY", "entitlements": ["a"]},
    ),
    Route(
        "POST",
        "/things",
        Right.WRITE,
        create_thing,
        gives=Thing,
        status=201,
        also=(200,),
        example={"key": "O'KEY \"$x\\", "max_things": 3, "order": {"id": "é", "lines": [1, 2]}, "name": None},
    ),
    Route(
        "GET", "/things", Right.READ, list_things, gives=Page[Thing], example={"color": "red", "count": True}
    ),
    Route("PATCH", "/things/{thing_id}", Right.WRITE, change_thing, gives=Thing, example={"name": None}),
    Route("DELETE", "/things/{thing_id}", Right.WRITE, delete_thing, status=204),
    Route("GET", "/fail", Right.READ, fail),
)


class Reply:
    """An answer, as the tests compare it."""

    def __init__(self, response: httpx.Response) -> None:
        self.status, self.headers, self.body = response.status_code, response.headers, response.content

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The problem code."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["code"])

    @property
    def places(self) -> list[tuple[str, str]]:
        """The wrong values: where, and their codes."""
        return [(one.get("pointer", one.get("parameter")), one["code"]) for one in self.json["errors"]]


class App:
    """Calls the application; ``token`` is that of an API key that may read and write."""

    def __init__(self, storage: Storage, **settings: Any) -> None:
        self.storage = storage
        self.settings = Settings(**settings)
        self.token = self.issue_token(Permissions.READ_WRITE)

    def issue_token(self, permissions: Permissions, **fields: Any) -> str:
        issued = issue_api_key(self.storage, "a shop", permissions, **fields)
        self.consumer = issued.consumer_key, issued.consumer_secret
        return f"kw_{issued.consumer_key[3:]}{issued.consumer_secret[3:]}"

    def do(self, *commands: Command) -> list[Any]:
        """Run commands; returns their outcomes."""
        with closing(open_executor(self.storage.clone())) as executor:
            return executor.execute(commands)

    def name_products(self, *numbers: int) -> None:
        """Products of these numbers, without an event."""
        with self.storage.write() as tx:
            for number in numbers:
                product = PRODUCT.make(id=number, name=f"Product {number}", created_at=NOW, updated_at=NOW)
                PRODUCTS.insert(tx, product)

    def events(self, prefix: str) -> list[tuple[str, Any]]:
        """The names and details of the events whose names begin so, oldest first."""
        query = select(events.c.name, events.c.details).order_by(events.c.id)
        with self.storage.read() as tx:
            found = tx.connection.execute(query.where(events.c.name.startswith(prefix))).all()
        return [(row.name, json.loads(row.details or "null")) for row in found]

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = "", **given: Any) -> Reply:
        """One call below v3, or, with two slashes, elsewhere; with ``token=None``, without an API key.
        ``body`` is sent as JSON, bytes as they are.
        """
        headers = dict(given.pop("headers", {}))
        if token is not None:
            headers.setdefault("Authorization", f"Bearer {token or self.token}")
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            given["content"] = body if isinstance(body, bytes) else json.dumps(body).encode()

        async def scenario() -> Reply:
            async with self._open() as client:
                target = path[1:] if path.startswith("//") else f"/v3{path}"
                return Reply(await client.request(method, target, headers=headers, **given))

        return asyncio.run(scenario())

    def run(self, scenario: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
        """Run a scenario of several calls in one application."""

        async def main() -> Any:
            async with self._open() as client:
                return await scenario(client)

        return asyncio.run(main())

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[httpx.AsyncClient]:
        executor = open_executor(self.storage.clone())
        desk = Desk(executor, most_waiting=100)
        body_reader, counters = BodyReader(), Counters()
        #: Those of the latest requests that were made together.
        self.counters = counters
        steps = Middlewares(
            self.settings,
            counters,
            ApiKeyCache(),
            body_reader,
            AccessLog(is_json=True, calls="all"),
            count_call=None,
        )
        signatures = Signatures(desk, self.settings.signature_alg)
        interfaces = (
            V3(self.settings, desk, signatures, (*ROUTES, *OWN_ROUTES)),
            V2(self.settings, desk),
            Downloads(self.settings, desk, self.storage.key_ring),
            Updates(self.settings, desk, self.storage.key_ring),
            Edd(self.settings, desk),
        )
        transport = httpx.ASGITransport(Pipeline(interfaces, steps, _answer_page))
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                yield client
        finally:
            body_reader.close()
            await desk.close()
            executor.close()


@contextmanager
def open_app(folder: Path, **settings: Any) -> Iterator[App]:
    """The application over a new database."""
    storage = a_storage(folder)
    try:
        yield App(storage, **settings)
    finally:
        storage.close()


async def _answer_page(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a page"})
