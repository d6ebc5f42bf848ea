"""Connections to shops."""

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from keywright.core.fields import Id, Time, about, copy_as
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body
from keywright.http.v3.route import Route
from keywright.provisioning.shops import model
from keywright.provisioning.shops.commands import (
    GetConnection,
    ListConnections,
    RemoveConnection,
    TakeOverSales,
)
from keywright.provisioning.shops.fields import (
    EXTERNAL_ID,
    METADATA,
    ConnectionFields,
    NewConnection,
    to_add,
    to_update,
)
from keywright.provisioning.shops.model import (
    Does,
    Mode,
    OnCancel,
    OpenedConnection,
    QuantityRule,
    Shop,
)

_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105


class MappedProduct(Struct):
    """What a sale of one of the shop's products does."""

    product: Annotated[str, about("A price, variation, product or SKU; `*` matches any other.", "price_1Pro")]
    policy_id: Annotated[Id | None, about("The policy for its licenses; null if it makes none.", 3)]
    policy_ids: Annotated[list[Id], about("All policies; each unit makes one license from each.", [3])]
    does: Annotated[Does, about("Whether a sale makes licenses, renews a license, or upgrades one.", "make")]
    quantity: Annotated[
        QuantityRule, about("Whether a quantity makes several licenses, or one for more devices.", "keys")
    ]


class Connection(Struct, kw_only=True):
    """A connection to a shop, which sends its events here."""

    id: Annotated[Id, about("The connection's ID.", 1)]
    shop: Annotated[Shop, about("The shop.", "stripe")]
    name: Annotated[str, about("The name shown in the admin pages.", "Stripe, Europe")]
    path: Annotated[str, about("The path on this server to which the shop sends its events.", "/in/stripe/1")]
    mode: Annotated[Mode, about("Whether live or test events make licenses.", "live")]
    has_api_key: Annotated[bool, about("Whether it has a key for the shop's API.", True)]
    mapping: Annotated[list[MappedProduct], about("What a sale of each product of the shop does.")]
    url: Annotated[str | None, about("The shop's URL, if it is self-hosted.", None)]
    paid_states: Annotated[list[str], about("The order states in which licenses are made.", [])]
    sends_mail: Annotated[bool, about("Whether buyers' keys are mailed to them.", True)]
    mail_template: Annotated[str | None, about("The mail's template, if not the default.", None)]
    external_id_name: Annotated[str | None, about(EXTERNAL_ID, "client_reference_id")]
    metadata_names: Annotated[list[str], about(METADATA, ["campaign"])]
    on_cancel: Annotated[OnCancel, about("When the licenses of a canceled subscription end.", "paid_until")]
    missing_topics: Annotated[
        list[str] | None, about("Required events that the shop is not set up to send; null if unknown.", [])
    ]
    last_event_at: Annotated[Time | None, about("When the last event was received.", None)]
    failures: Annotated[int, about("How many events in a row are unmatched.", 0)]
    created_at: Annotated[Time, about("When the connection was added.", "2026-11-22T08:54:00Z")]
    updated_at: Annotated[Time, about("When the connection was last changed.", "2026-11-22T08:54:00Z")]
    secret: Annotated[
        str | UnsetType, about("The secret with which the shop signs; shown only in this answer.", _SECRET)
    ] = UNSET


class RemovedConnection(Body):
    """The removed connection whose sales are taken over."""

    connection_id: Annotated[Id, about("The removed connection.", 1)]


class TakenOver(Struct):
    """The result of taking over sales."""

    licenses: Annotated[int, about("The number of licenses taken over.", 1204)]


class Connections(Struct):
    """All connections."""

    items: Annotated[list[Connection], about("The connections, by ID.")]


def show(connection: model.Connection, secret: str | UnsetType = UNSET) -> Connection:
    """The connection as v3 shows it."""
    return copy_as(
        Connection,
        connection,
        path=f"/in/{connection.shop.value}/{connection.id}",
        mapping=[copy_as(MappedProduct, one, policy_ids=one.all_policy_ids) for one in connection.mapping],
        secret=secret,
    )


def _etag(connection: model.Connection) -> bytes:
    # Events that arrive, and the topics that the shop sends, do not change the version of the connection.
    shown = show(connection)
    shown.last_event_at, shown.failures, shown.missing_topics = None, 0, None
    return etag_of(shown)


def _write(connection: model.Connection) -> Answer:
    return ok(show(connection), etag=_etag(connection))


async def add_connection(call: Call, body: NewConnection) -> Answer:
    """Add a connection to a shop.

    Afterwards, configure a webhook in the shop, at this server's address with the `path` of the answer. The
    `secret` is shown only in this answer.
    """

    def write(opened: OpenedConnection) -> Answer:
        shown = show(opened.connection, opened.secret)
        path = f"{call.root}/connections/{opened.connection.id}"
        return created(shown, path, etag=_etag(opened.connection))

    return await call.change(to_add(call.context, body), write)


async def list_connections(call: Call) -> Answer:
    """List the connections.

    Returns all of them, without pagination.
    """
    return await call.ask(ListConnections(), lambda found: ok(Connections([show(one) for one in found])))


async def get_connection(call: Call) -> Answer:
    """Get a connection.

    Returns the connection without its secrets.
    """
    return await call.ask(GetConnection(connection_id=call.path["connection_id"]), _write)


async def update_connection(call: Call, body: ConnectionFields) -> Answer:
    """Change a connection.

    Members that are not sent keep their values. `mapping` replaces the whole mapping. An `api_key` of null
    removes the key.
    """
    number, precondition = call.path["connection_id"], call.precondition(_etag)
    return await call.change(to_update(call.context, number, body, precondition), _write)


async def remove_connection(call: Call) -> Answer:
    """Remove a connection.

    Deletes the events that it received; licenses remain.
    """
    command = RemoveConnection(
        context=call.context,
        connection_id=call.path["connection_id"],
        precondition=call.precondition(_etag),
    )
    return await call.change(command, no_content)


async def take_over_sales(call: Call, body: RemovedConnection) -> Answer:
    """Take over the sales of a removed connection.

    Use this after you have removed a connection and added it again: orders are then not fulfilled twice, and
    renewals and refunds reach the existing licenses.
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
