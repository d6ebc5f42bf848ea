"""Connections to shops."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from keywright.core.errors import ConnectionFieldInvalid
from keywright.core.fields import Id, Name, Time, about, list_changes
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body
from keywright.http.v3.route import Route
from keywright.provisioning.shops import model
from keywright.provisioning.shops.commands import (
    AddConnection,
    GetConnection,
    ListConnections,
    RemoveConnection,
    TakeOverSales,
    UpdateConnection,
)
from keywright.provisioning.shops.event_rules import MAX_MAPPED, MAX_NAME, MAX_NAMES, MAX_POLICIES, MAX_STATES
from keywright.provisioning.shops.model import (
    Does,
    Mode,
    OnCancel,
    OpenedConnection,
    QuantityRule,
    Shop,
)

_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
_Text = Annotated[str, Meta(min_length=1, max_length=255)]
_Word = Annotated[str, Meta(min_length=1, max_length=40)]
_Policies = Annotated[list[Id], Meta(max_length=MAX_POLICIES)]


class MappedProductBody(Body):
    """What a product of the shop makes."""

    product: Annotated[
        _Text, about("A price, variation, product or SKU of the shop; `*` is any other.", "price_1Pro")
    ]
    policy_id: Annotated[Id | None, about("The policy of its licenses; null: it makes none.", 3)] = None
    policy_ids: Annotated[_Policies, about("Of a bundle: each unit makes a license of each policy.", [])] = (
        field(default_factory=list)
    )
    does: Annotated[
        Does, about("`renew` or `upgrade`: by the policy, the license that the order's `license_ref` names.")
    ] = Does.MAKE
    quantity: Annotated[
        QuantityRule, about("Whether a quantity makes `keys`, or one license for more `devices`.", "keys")
    ] = QuantityRule.KEYS


_Mapping = Annotated[list[MappedProductBody], Meta(max_length=MAX_MAPPED)]
_States = Annotated[list[_Word], Meta(max_length=MAX_STATES)]
_MetadataName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
_MetadataNames = Annotated[list[_MetadataName], Meta(max_length=MAX_NAMES)]
_EXTERNAL_ID = "The name in the metadata of a sale under which it has the buyer's `external_id`."
_METADATA = "Names in the metadata of a sale: licenses get these under `metadata.shop`."
_Url = Annotated[str, Meta(min_length=1, max_length=2000)]
_Secret = Annotated[str, Meta(min_length=1, max_length=500)]


class NewConnection(Body):
    """A connection to add."""

    shop: Annotated[Shop, about("The shop.", "stripe")]
    name: Annotated[Name, about("What the pages call it.", "Stripe, Europe")]
    mode: Annotated[Mode, about("Whether live or test events make licenses.", "live")] = Mode.LIVE
    secret: Annotated[
        _Secret | None, about("What the shop signs with; without it, one is made, and shown once.")
    ] = None
    api_key: Annotated[_Secret | None, about("A restricted key of the shop's API.")] = None
    mapping: Annotated[_Mapping, about("What each product of the shop makes.")] = field(default_factory=list)
    url: Annotated[_Url | None, about("The shop's address, where it has one of its own.")] = None
    paid_states: Annotated[_States, about("The order states that make licenses, where one may choose.")] = (
        field(default_factory=list)
    )
    sends_mail: Annotated[bool, about("Whether buyers get a mail with their keys.", True)] = True
    mail_template: Annotated[_Word | None, about("Its template, where not the usual one.")] = None
    on_cancel: Annotated[
        OnCancel, about("When the licenses of a canceled subscription end.", "paid_until")
    ] = OnCancel.PAID_UNTIL
    external_id_name: Annotated[_MetadataName | None, about(_EXTERNAL_ID, "client_reference_id")] = None
    metadata_names: Annotated[_MetadataNames, about(_METADATA)] = field(default_factory=list)


class ConnectionChanges(Body):
    """Changes to a connection, as a JSON merge patch."""

    name: Annotated[Name, about("What the pages call it.")] | UnsetType = UNSET
    mode: Annotated[Mode, about("Whether live or test events make licenses.")] | UnsetType = UNSET
    secret: Annotated[_Secret, about("What the shop signs with.")] | UnsetType = UNSET
    api_key: Annotated[_Secret, about("A restricted key of the shop's API.")] | UnsetType | None = UNSET
    mapping: Annotated[_Mapping, about("All products of the mapping.")] | UnsetType = UNSET
    url: Annotated[_Url, about("The shop's address.")] | UnsetType | None = UNSET
    paid_states: Annotated[_States, about("The order states that make licenses.")] | UnsetType = UNSET
    sends_mail: Annotated[bool, about("Whether buyers get a mail.")] | UnsetType = UNSET
    mail_template: Annotated[_Word, about("Its template.")] | UnsetType | None = UNSET
    on_cancel: Annotated[OnCancel, about("When canceled licenses end.")] | UnsetType = UNSET
    external_id_name: Annotated[_MetadataName, about(_EXTERNAL_ID)] | UnsetType | None = UNSET
    metadata_names: Annotated[_MetadataNames, about(_METADATA)] | UnsetType = UNSET


class MappedProduct(Struct):
    """What a product of the shop makes."""

    product: Annotated[str, about("A price, variation, product or SKU; `*` is any other.", "price_1Pro")]
    policy_id: Annotated[Id | None, about("The policy of its licenses; null: it makes none.", 3)]
    policy_ids: Annotated[list[Id], about("All policies; each unit makes a license of each.", [3])]
    does: Annotated[Does, about("Whether it makes licenses, or renews or upgrades one.", "make")]
    quantity: Annotated[QuantityRule, about("What a quantity makes.", "keys")]


class Connection(Struct, kw_only=True):
    """A shop that sends its events here."""

    id: Annotated[Id, about("Its ID.", 1)]
    shop: Annotated[Shop, about("The shop.", "stripe")]
    name: Annotated[str, about("What the pages call it.", "Stripe, Europe")]
    path: Annotated[str, about("Where the shop sends its events, on this server.", "/in/stripe/1")]
    mode: Annotated[Mode, about("Whether live or test events make licenses.", "live")]
    has_api_key: Annotated[bool, about("Whether it has a key of the shop's API.", True)]
    mapping: Annotated[list[MappedProduct], about("What each product of the shop makes.")]
    url: Annotated[str | None, about("The shop's address, where it has one of its own.", None)]
    paid_states: Annotated[list[str], about("The order states that make licenses.", [])]
    sends_mail: Annotated[bool, about("Whether buyers get a mail with their keys.", True)]
    mail_template: Annotated[str | None, about("Its template, where not the usual one.", None)]
    external_id_name: Annotated[str | None, about(_EXTERNAL_ID, "client_reference_id")]
    metadata_names: Annotated[list[str], about(_METADATA, ["campaign"])]
    on_cancel: Annotated[OnCancel, about("When the licenses of a canceled subscription end.", "paid_until")]
    missing_topics: Annotated[
        list[str] | None, about("Events that the shop was not asked to send; null: not known.", [])
    ]
    last_event_at: Annotated[Time | None, about("When the last event was worked off.", None)]
    failures: Annotated[int, about("How many events in a row could not be handled.", 0)]
    created_at: Annotated[Time, about("When it was added.", "2026-11-22T08:54:00Z")]
    updated_at: Annotated[Time, about("When it was last changed.", "2026-11-22T08:54:00Z")]
    secret: Annotated[str | UnsetType, about("What the shop signs with: only here.", _SECRET)] = UNSET


class RemovedConnection(Body):
    """What a connection goes on with."""

    connection_id: Annotated[Id, about("The removed connection.", 1)]


class TakenOver(Struct):
    """What a connection goes on with."""

    licenses: Annotated[int, about("How many licenses it has taken over.", 1204)]


class Connections(Struct):
    """All connections."""

    items: Annotated[list[Connection], about("The connections, by number.")]


def show(connection: model.Connection, secret: str | UnsetType = UNSET) -> Connection:
    """The connection as its answer."""
    return Connection(
        id=connection.id,
        shop=connection.shop,
        name=connection.name,
        path=f"/in/{connection.shop.value}/{connection.id}",
        mode=connection.mode,
        has_api_key=connection.has_api_key,
        mapping=[
            MappedProduct(one.product, one.policy_id, [*one.all_policy_ids], one.does, one.quantity)
            for one in connection.mapping
        ],
        url=connection.url,
        paid_states=[*connection.paid_states],
        sends_mail=connection.sends_mail,
        mail_template=connection.mail_template,
        on_cancel=connection.on_cancel,
        missing_topics=None if connection.missing_topics is None else [*connection.missing_topics],
        external_id_name=connection.external_id_name,
        metadata_names=[*connection.metadata_names],
        last_event_at=connection.last_event_at,
        failures=connection.failures,
        created_at=connection.created_at,
        updated_at=connection.updated_at,
        secret=secret,
    )


def _etag(connection: model.Connection) -> bytes:
    # The events that come, and what the shop was asked, do not make another version of it.
    shown = show(connection)
    shown.last_event_at, shown.failures, shown.missing_topics = None, 0, None
    return etag_of(shown)


def _write(connection: model.Connection) -> Answer:
    return ok(show(connection), etag=_etag(connection))


def _mapping(bodies: list[MappedProductBody]) -> tuple[model.MappedProduct, ...]:
    return tuple(map(_mapped, bodies))


def _mapped(body: MappedProductBody) -> model.MappedProduct:
    ids = body.policy_ids or [one for one in (body.policy_id,) if one is not None]
    if body.policy_id not in (None, *ids[:1]):
        raise ConnectionFieldInvalid("mapping", "must have policy_id, or policy_ids that begin with it")
    return model.MappedProduct(
        body.product, ids[0] if ids else None, body.quantity, tuple(ids[1:]), body.does
    )


async def add_connection(call: Call, body: NewConnection) -> Answer:
    """Add a connection to a shop.

    Then enter the server's address with the answer's `path` in the shop, as the address of its webhook. The
    `secret` is in this answer only.
    """
    connection = model.Connection(
        id=0,
        shop=body.shop,
        name=body.name,
        mode=body.mode,
        mapping=_mapping(body.mapping),
        url=body.url,
        paid_states=tuple(body.paid_states),
        sends_mail=body.sends_mail,
        mail_template=body.mail_template,
        on_cancel=body.on_cancel,
        external_id_name=body.external_id_name,
        metadata_names=tuple(body.metadata_names),
        created_at=call.now,
        updated_at=call.now,
    )
    command = AddConnection(
        context=call.context, connection=connection, secret=body.secret, api_key=body.api_key
    )

    def write(opened: OpenedConnection) -> Answer:
        shown = show(opened.connection, opened.secret)
        path = f"{call.root}/connections/{opened.connection.id}"
        return created(shown, path, etag=_etag(opened.connection))

    return await call.change(command, write)


async def list_connections(call: Call) -> Answer:
    """List the connections.

    All of them: there are few.
    """
    return await call.ask(ListConnections(), lambda found: ok(Connections([show(one) for one in found])))


async def get_connection(call: Call) -> Answer:
    """Get a connection.

    Without its secrets.
    """
    return await call.ask(GetConnection(connection_id=call.path["connection_id"]), _write)


async def update_connection(call: Call, body: ConnectionChanges) -> Answer:
    """Change a connection.

    What is not sent stays; `mapping` takes the place of the whole mapping. An
    `api_key` of null takes it away.
    """
    changes = list_changes(body)
    secret, api_key = changes.pop("secret", None), changes.pop("api_key", UNSET)
    if "mapping" in changes:
        changes["mapping"] = _mapping(changes["mapping"])
    changes |= {name: tuple(changes[name]) for name in ("paid_states", "metadata_names") if name in changes}
    command = UpdateConnection(
        context=call.context,
        connection_id=call.path["connection_id"],
        changes=changes,
        secret=secret,
        api_key=None if api_key is UNSET else api_key or "",
        precondition=call.precondition(_etag),
    )
    return await call.change(command, _write)


async def remove_connection(call: Call) -> Answer:
    """Remove a connection.

    With the events that it received; the licenses stay.
    """
    command = RemoveConnection(
        context=call.context,
        connection_id=call.path["connection_id"],
        precondition=call.precondition(_etag),
    )
    return await call.change(command, no_content)


async def take_over_sales(call: Call, body: RemovedConnection) -> Answer:
    """Go on with what a removed connection has sold.

    After a connection was removed and added again: its orders are not sold again, and renewals and refunds
    reach its licenses.
    """
    command = TakeOverSales(
        context=call.context, connection_id=call.path["connection_id"], removed_id=body.connection_id
    )
    return await call.change(command, lambda taken: ok(TakenOver(taken)))


_EXAMPLE: dict[str, Any] = {
    "shop": "stripe",
    "name": "Stripe, Europe",
    "secret": "whsec_from-the-dashboard",
    "api_key": "rk_live_restricted",
    "mapping": [{"product": "price_1Pro", "policy_id": 3, "quantity": "keys"}],
}
_ONE = "/connections/{connection_id}"

ROUTES = (
    Route(
        "POST",
        "/connections",
        Right.WRITE,
        add_connection,
        gives=Connection,
        status=201,
        refusals=("not_found",),
        example=_EXAMPLE,
        needs_all_products=True,
    ),
    Route("GET", "/connections", Right.READ, list_connections, gives=Connections, needs_all_products=True),
    Route("GET", _ONE, Right.READ, get_connection, gives=Connection, needs_all_products=True),
    Route(
        "PATCH",
        _ONE,
        Right.WRITE,
        update_connection,
        gives=Connection,
        refusals=("changed_meanwhile",),
        example={"mapping": [{"product": "price_1Pro", "policy_id": 3}]},
        needs_all_products=True,
    ),
    Route(
        "DELETE",
        _ONE,
        Right.WRITE,
        remove_connection,
        status=204,
        refusals=("changed_meanwhile",),
        needs_all_products=True,
    ),
    Route(
        "POST",
        f"{_ONE}/take-over",
        Right.WRITE,
        take_over_sales,
        gives=TakenOver,
        example={"connection_id": 1},
        needs_all_products=True,
    ),
)
