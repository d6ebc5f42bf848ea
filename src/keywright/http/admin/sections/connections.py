"""Connections to shops, the events that shops sent, and the sales that wait for a decision."""

from itertools import zip_longest
from typing import Any

from msgspec.structs import asdict
from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import ConnectionFieldInvalid, NoSuchAddress, UnknownPolicy
from keywright.core.nouns import Paging
from keywright.db import ReadTransaction
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import N_, _, ngettext
from keywright.http.pages.forms import Inputs, parse_choice, parse_number, require_id
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.store import list_policies
from keywright.provisioning.shops import store as shop_store
from keywright.provisioning.shops.commands import (
    AddConnection,
    ListShopEvents,
    RemoveConnection,
    TakeOverSales,
    TryAgain,
    UpdateConnection,
)
from keywright.provisioning.shops.model import (
    MAKE_SECRETS,
    Connection,
    Does,
    EventState,
    MappedProduct,
    Mode,
    OnCancel,
    OpenedConnection,
    QuantityRule,
    Reason,
    Shop,
)
from keywright.provisioning.shops.sold_store import list_removed

#: The names of the shops.
SHOPS = {
    Shop.STRIPE: N_("Stripe"),
    Shop.PADDLE: N_("Paddle"),
    Shop.WOOCOMMERCE: N_("WooCommerce"),
    Shop.LEMONSQUEEZY: N_("Lemon Squeezy"),
    Shop.GENERIC: N_("Another shop (Standard Webhooks)"),
}
MODES = {Mode.LIVE: N_("Live sales"), Mode.TEST: N_("Test sales only")}
STATES = {
    EventState.WAITING: N_("waiting"),
    EventState.UNMATCHED: N_("waits for a decision"),
    EventState.DONE: N_("handled"),
    EventState.IGNORED: N_("ignored"),
}
REASONS = {
    Reason.UNREADABLE: N_("The event does not have the format that the shop documents."),
    Reason.NO_ADDRESS: N_("The event contains no e-mail address."),
    Reason.BAD_ADDRESS: N_("The event's e-mail address cannot be used."),
    Reason.UNKNOWN_PRODUCT: N_("The mapping does not contain the product."),
    Reason.UNUSABLE_POLICY: N_("The policy is archived or deleted."),
    Reason.TOO_MANY: N_("The order asks for too many licenses at once."),
    Reason.NO_QUANTITY: N_("The order has a line with a quantity below one."),
    Reason.NO_LICENSE: N_("The order names no license to renew or upgrade."),
    Reason.UNKNOWN_ORDER: N_("The sale to renew is unknown."),
    Reason.CHANGED_BY_HAND: N_("The license has since been changed by hand."),
    Reason.API_KEY_MISSING: N_("The connection needs a key for the shop's API."),
    Reason.SHOP_UNAVAILABLE: N_("The shop's API does not answer."),
    Reason.SHOP_REFUSED: N_("The shop's API refused the request."),
    Reason.FAILED: N_("An unexpected error; the server's log has the details."),
    Reason.FORGOTTEN: N_("The event's content was deleted after its retention period."),
    Reason.NOT_NEEDED: N_("Events of this kind are not needed."),
    Reason.OTHER_MODE: N_("A test event, or a live event for a test connection."),
    Reason.NOT_LICENSED: N_("No license was sold with this order."),
    Reason.ALREADY_REFUNDED: N_("The order was already refunded."),
    Reason.LIMIT_TOO_HIGH: N_("The order asks for more than a license can allow."),
    Reason.SAME_MOMENT: N_("The shop reported two quantities at the same moment; the larger counts."),
    Reason.NO_PERIOD: N_(
        "The shop has not reported how long the subscription is paid for. Check that it sends the event for "
        "this."
    ),
    Reason.PAID_NOT_HELD: N_("The customer pays for other licenses than those that exist."),
    Reason.EXTERNAL_ID_TAKEN: N_("The buyer's external ID was not changed, or belongs to another customer."),
    Reason.KEPT_BY_HAND: N_("A later expiry that was set by hand was kept."),
    Reason.ALREADY_SO: N_("The licenses already have this state."),
    Reason.OLDER: N_("A newer event from the shop takes precedence."),
    Reason.LISTED_BY_SUBSCRIPTION: N_("The subscription's own event lists its lines."),
    Reason.IN_GRACE: N_(
        "A payment failed: the licenses stay valid until the end of the paid time and the grace."
    ),
    Reason.NO_PERIOD_PAID: N_("The payment covers no period."),
    Reason.NOT_FOLLOWED: N_("Licenses are not changed by this."),
}
ON_CANCEL = {OnCancel.PAID_UNTIL: N_("when the paid time ends"), OnCancel.AT_ONCE: N_("at once")}
#: What the sale of a product does; if it makes licenses, also what a quantity means.
QUANTITIES = {
    QuantityRule.KEYS.value: N_("makes one license per unit"),
    QuantityRule.DEVICES.value: N_("makes one license with more devices"),
    Does.RENEW.value: N_("renews a license"),
    Does.UPGRADE.value: N_("upgrades a license"),
}
#: The typed fields of a connection's form.
_TYPED = ("name", "mode", "url", "paid_states", "external_id_name", "metadata_names")
#: The number of events on a page, the empty rows of the mapping, and the most rows that a form shows.
_PAGE_SIZE, _EMPTY_ROWS, MAX_ROWS = 50, 3, 100


class Connections(Section):
    """The connections. Every user may view them; users who may change licenses may retry events; only
    administrators may change connections.
    """

    label = N_("Shops")
    path = "/connections"
    group = N_("Connections")
    icon = "cart"
    right = Right.LOOK

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """The connections, and the sales that wait for a decision."""
        connections = request.ask(shop_store.list_connections)
        query = ListShopEvents(state=EventState.UNMATCHED, paging=Paging("-id", limit=_PAGE_SIZE))
        unmatched = request.ask(lambda tx: shop_store.list_events(tx, query)).items[:_PAGE_SIZE]
        return request.render(
            "connections/list.html",
            connections=connections,
            names={one.id: one.name for one in connections},
            unmatched=unmatched,
            **_TEXTS,
        )

    @page("/new", methods=("GET", "POST"), right=Right.ADMINISTER)
    def create(self, request: PageRequest) -> Response:
        """Add a connection, and show its secret."""
        inputs = Inputs(request.form)
        if request.is_post:
            shop = inputs.require("shop", parse_choice(Shop), Shop.GENERIC)
            name = inputs.read("name", parsing.parse_name) or _(SHOPS[shop])
            secret = inputs.read("secret", str)
            if not inputs.errors:
                connection = Connection(
                    id=0, shop=shop, name=name, created_at=request.now, updated_at=request.now
                )
                command = AddConnection(context=request.context, connection=connection, secret=secret)
                try:
                    return _show_secret(request, request.change(command), is_given=secret is not None)
                except ConnectionFieldInvalid as error:
                    inputs.errors[error.field] = message_for(error).sentence
        return request.render("connections/new.html", errors=inputs.errors, **_TEXTS)

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A connection with its mapping and its events, the newest first."""
        connection = _get(request)
        state = parse_state(request.query.get("state", ""))
        after = parse_number(request.query.get("after", ""))
        paging = Paging("-id", None if after is None else (after, after), _PAGE_SIZE)
        query = ListShopEvents(connection_id=connection.id, state=state, paging=paging)
        found = request.ask(lambda tx: shop_store.list_events(tx, query)).items
        return request.render(
            "connections/show.html",
            connection=connection,
            address=_address_of(request, connection),
            policies={one.id: one.name for one in request.ask(list_policies)},
            removed=request.ask(lambda tx: list_removed(tx, connection.shop)),
            events=found[:_PAGE_SIZE],
            state=state,
            is_first=after is None,
            older=found[_PAGE_SIZE - 1].id if len(found) > _PAGE_SIZE else None,
            **_TEXTS,
        )

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.ADMINISTER)
    def edit(self, request: PageRequest) -> Response:
        """Change a connection with its mapping."""
        connection, inputs = _get(request), Inputs(request.form)
        rows = _rows_of(connection)
        if request.is_post:
            changes = _read_changes(inputs, connection)
            rows = _read_rows(request)
            changes["mapping"] = _read_mapping(inputs, rows)
            secret, api_key = inputs.read("secret", str), inputs.read("api_key", str)
            if inputs.is_checked("no_api_key"):
                api_key = ""
            if not inputs.errors:
                command = UpdateConnection(
                    context=request.context,
                    connection_id=connection.id,
                    changes=changes,
                    secret=secret,
                    api_key=api_key,
                )
                try:
                    request.change(command)
                    message = _("The connection %(name)s was saved.", name=changes["name"])
                    return request.redirect(f"/connections/{connection.id}", message)
                except ConnectionFieldInvalid as error:
                    inputs.errors[error.field] = message_for(error).sentence
                except UnknownPolicy as error:
                    inputs.errors["mapping"] = message_for(error).sentence
        return request.render(
            "connections/edit.html",
            connection=connection,
            values=_values_of(request, connection),
            rows=rows,
            policies=_policy_options(request.ask(list_policies)),
            errors=inputs.errors,
            **_TEXTS,
        )

    @page("/{id:number}/remove", methods=("GET", "POST"), right=Right.ADMINISTER)
    def remove(self, request: PageRequest) -> Response:
        """Remove a connection."""
        connection = _get(request)
        if request.is_post:
            request.change(RemoveConnection(context=request.context, connection_id=connection.id))
            return request.redirect(
                "/connections", _("The connection %(name)s was removed.", name=connection.name)
            )
        return request.confirm(
            _("Remove the connection %(name)s?", name=connection.name),
            [_("Events from this shop will be refused. The licenses that it sold remain.")],
            button=_("Remove"),
            back=f"/connections/{connection.id}",
        )

    @page("/{id:number}/take-over", methods=("POST",), right=Right.ADMINISTER)
    def take_over(self, request: PageRequest) -> Response:
        """Let a connection take over the sales of a removed one."""
        number, removed = require_id(request.path_params["id"]), parse_number(request.form.get("removed", ""))
        taken = request.change(
            TakeOverSales(context=request.context, connection_id=number, removed_id=removed or 0)
        )
        message = ngettext("%(num)s license was taken over.", "%(num)s licenses were taken over.", taken)
        return request.redirect(f"/connections/{number}", message)

    @page("/{id:number}/events/{event:number}/retry", methods=("POST",), right=Right.CHANGE)
    def retry(self, request: PageRequest) -> Response:
        """Retry an event."""
        number, event = (require_id(request.path_params[name]) for name in ("id", "event"))
        is_forced = request.form.get("overwrite", "") == "yes"
        command = TryAgain(context=request.context, connection_id=number, event_id=event, overwrite=is_forced)
        request.change(command)
        back = "/connections" if request.form.get("from", "") == "list" else f"/connections/{number}"
        return request.redirect(back, _("The event will be tried again in a moment."))


def parse_state(text: str) -> EventState | None:
    """The state of events in a query; None for all."""
    return EventState(text) if text in {*EventState} else None


def _get(request: PageRequest) -> Connection:
    """The connection in the address. Raises ``NoSuchAddress``."""
    number = require_id(request.path_params["id"])

    def find(tx: ReadTransaction) -> Connection | None:
        return shop_store.find_connection(tx, number)

    connection = request.ask(find)
    if connection is None:
        raise NoSuchAddress
    return connection


def _address_of(request: PageRequest, connection: Connection) -> str:
    return f"{request.base_url}/in/{connection.shop.value}/{connection.id}"


def _show_secret(request: PageRequest, opened: OpenedConnection, *, is_given: bool) -> Response:
    # Only this response contains the secret: no redirect, cookie or log does.
    is_made_there = opened.connection.shop in MAKE_SECRETS
    return request.render(
        "connections/added.html",
        connection=opened.connection,
        address=_address_of(request, opened.connection),
        secret=None if is_given or is_made_there else opened.secret,
        is_made_there=is_made_there and not is_given,
        **_TEXTS,
    )


def _read_changes(inputs: Inputs, connection: Connection) -> dict[str, Any]:
    """The values in the form, except for the mapping and the secrets."""
    return {
        "name": inputs.require("name", parsing.parse_name, connection.name),
        "mode": inputs.require("mode", parse_choice(Mode), connection.mode),
        "url": inputs.read("url", str),
        "paid_states": tuple((inputs.read("paid_states", str) or "").replace(",", " ").split()),
        "metadata_names": _split_names(inputs.read("metadata_names", str) or ""),
        "external_id_name": inputs.read("external_id_name", str),
        "sends_mail": inputs.is_checked("sends_mail"),
        "on_cancel": inputs.read("on_cancel", parse_choice(OnCancel)) or connection.on_cancel,
    }


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _values_of(request: PageRequest, connection: Connection) -> dict[str, Any]:
    """The values that the form shows."""
    values = asdict(connection) | {"paid_states": " ".join(connection.paid_states)}
    values["metadata_names"] = ", ".join(connection.metadata_names)
    if request.is_post:
        values |= {name: request.form.raw(name) for name in _TYPED}
        values["sends_mail"] = "sends_mail" in request.form
    return values


def _effect_of(one: MappedProduct) -> str:
    return one.quantity.value if one.does is Does.MAKE else one.does.value


_Row = tuple[str, str, str, str]


def _rows_of(connection: Connection) -> list[_Row]:
    """The rows of the mapping, as texts: product, policy, effect, the other policies of a bundle."""
    return [
        (one.product, str(one.policy_id or 0), _effect_of(one), " ".join(map(str, one.more_policy_ids)))
        for one in connection.mapping
    ]


def _read_rows(request: PageRequest) -> list[_Row]:
    columns = (request.form.all(name) for name in ("product", "policy", "quantity", "more"))
    rows = zip_longest(*columns, fillvalue="")
    return [
        (product.strip(), policy, quantity, more)
        for product, policy, quantity, more in rows
        if product.strip()
    ]


def _read_mapping(inputs: Inputs, rows: list[_Row]) -> tuple[MappedProduct, ...]:
    """The mapping in the form."""
    mapping = []
    for product, policy, quantity, more in rows:
        number, *others = map(parse_number, (policy, *more.replace(",", " ").split()))
        ids = tuple(one for one in others if one)
        if number is None or quantity not in QUANTITIES or (ids and not number):
            inputs.errors["mapping"] = _("Choose a policy for each product.")
            continue
        does = Does.MAKE if quantity in {*QuantityRule} else Does(quantity)
        rule = QuantityRule(quantity) if does is Does.MAKE else QuantityRule.KEYS
        mapping.append(MappedProduct(product, number or None, rule, ids, does))
    return tuple(mapping)


def _policy_options(policies: list[Policy]) -> list[tuple[str, str]]:
    usable = [one for one in policies if one.archived_at is None]
    return [("0", _("no license")), *((str(one.id), one.name) for one in usable)]


_TEXTS: dict[str, Any] = {
    "shops": SHOPS,
    "modes": MODES,
    "states": STATES,
    "reasons": REASONS,
    "quantities": QUANTITIES,
    "effect_of": _effect_of,
    "on_cancel": ON_CANCEL,
    "empty_rows": _EMPTY_ROWS,
    "max_rows": MAX_ROWS,
}
