"""Customers. Addresses of customers are never in a URL: a search is a POST."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import asdict, replace

from keywright.core.fields import ExternalId, Metadata, Name, OwnId, Parse, Time, about, list_changes
from keywright.core.metadata import read_metadata
from keywright.core.nouns import ListQuery
from keywright.core.parsing import parse_metadata
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.pages.urls import PORTAL
from keywright.http.v3 import catalog_schemas, lists, schemas
from keywright.http.v3.answers import created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body
from keywright.http.v3.route import Route
from keywright.identity.sessions import new_session_token
from keywright.maintenance.commands import EraseCustomer, ExportCustomer, RequireCustomerData
from keywright.maintenance.customer_export import CustomerData, LicenseData
from keywright.maintenance.personal_data_store import Erasure
from keywright.provisioning.customers.commands import (
    CreateCustomer,
    DeleteCustomer,
    GetCustomer,
    ListCustomers,
    UpdateCustomer,
)
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.rules import parse_email, parse_language
from keywright.provisioning.portal.commands import MakePortalLink
from keywright.provisioning.portal.model import PortalLink
from keywright.provisioning.shops.commands import FindShopEventsNaming

Email = Annotated[str, Meta(min_length=3, max_length=320), Parse(parse_email)]
#: A tag of BCP 47.
Language = Annotated[str, Meta(min_length=2, max_length=35), Parse(parse_language)]


class NewCustomer(Body):
    """A customer to make."""

    id: Annotated[OwnId | None, about("The shop's number; without one, Keywright gives one.", 311)] = None
    email: Annotated[Email | None, about("Unique, in any case.", "ada@example.com")] = None
    name: Annotated[Name | None, about("The name.", "Ada")] = None
    language: Annotated[Language | None, about("The language of mails and of the portal.", "pt-BR")] = None
    external_id: Annotated[ExternalId | None, about("Your own ID; unique.", "crm-311")] = None
    metadata: Annotated[Metadata | None, about("Anything, as a JSON object.")] = None


class CustomerChanges(Body):
    """Changes to a customer, as a JSON merge patch."""

    email: Annotated[Email, about("Unique, in any case.", "ada@example.com")] | UnsetType | None = UNSET
    name: Annotated[Name, about("The name.", "Ada")] | UnsetType | None = UNSET
    language: (
        Annotated[Language, about("The language of mails and of the portal.", "pt-BR")] | UnsetType | None
    ) = UNSET
    external_id: Annotated[ExternalId, about("Your own ID; unique.")] | UnsetType | None = UNSET
    metadata: Annotated[Metadata, about("Merged with what is there; null removes.")] | UnsetType | None = (
        UNSET
    )


class CustomerQuery(ListQuery):
    """Filters of customers."""

    external_id: Annotated[str | None, about("Only the one that you call so.")] = None
    created_after: Annotated[Time | None, about("Only those made after this moment.")] = None
    created_before: Annotated[Time | None, about("Only those made before it.")] = None
    updated_after: Annotated[Time | None, about("Only those changed after this moment.")] = None
    sort: Literal["created_at", "-created_at", "updated_at", "-updated_at"] = "-created_at"


class CustomerSearch(Body):
    """The terms of a search."""

    email: Annotated[Email | None, about("The address, in any case.", "ada@example.com")] = None
    name: Annotated[Name | None, about("The whole name.")] = None


class CustomerPage(ListQuery):
    """The page of what is found."""

    sort: Literal["created_at", "-created_at"] = "-created_at"


class CustomerExport(Struct):
    """Everything stored about a customer."""

    customer: Annotated[catalog_schemas.Customer | None, about("The customer; null where there is none.")]
    events: Annotated[list[dict[str, Any]], about("The events about the customer.", [])]
    licenses: Annotated[
        list[dict[str, Any]], about("Each license with its activations, events and other rows.", [])
    ]
    mails: Annotated[list[dict[str, Any]], about("The latest 1,000 mails; their texts are not stored.", [])]
    shop_events: Annotated[
        list[dict[str, Any]], about("The latest 1,000 events of shops, with what the shop sent.", [])
    ]


def show(customer: Customer) -> catalog_schemas.Customer:
    """The customer as its answer."""
    return catalog_schemas.Customer(
        customer.id,
        customer.email,
        customer.email_verified_at,
        customer.name,
        customer.language,
        customer.external_id,
        read_metadata(customer.metadata),
        customer.erasure_requested_at,
        customer.created_at,
        customer.updated_at,
    )


def _etag(customer: Customer) -> bytes:
    return etag_of(show(customer))


def _write(customer: Customer) -> Answer:
    return ok(show(customer), etag=_etag(customer))


async def create_customer(call: Call, body: NewCustomer) -> Answer:
    """Create a customer.

    Licenses may name a customer by its number before there is one: giving its `id` here makes the customer of
    that number.
    """
    command = CreateCustomer(
        context=call.context,
        id=body.id,
        email=body.email,
        name=body.name,
        language=body.language,
        external_id=body.external_id,
        metadata=parse_metadata(body.metadata),
    )

    def write(customer: Customer) -> Answer:
        return created(show(customer), f"{call.root}/customers/{customer.id}", etag=_etag(customer))

    return await call.change(command, write)


async def list_customers(call: Call, query: CustomerQuery) -> Answer:
    """List customers.

    The newest first.
    """
    asked = ListCustomers(
        paging=lists.read_paging(call),
        external_id=query.external_id,
        updated_after=query.updated_after,
        created_after=query.created_after,
        created_before=query.created_before,
    )
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show))


async def get_customer(call: Call) -> Answer:
    """Get a customer.

    One customer.
    """
    return await call.ask(GetCustomer(customer_id=call.path["customer_id"]), _write)


async def update_customer(call: Call, body: CustomerChanges) -> Answer:
    """Change a customer.

    What is not sent stays. Another e-mail address is not verified.
    """
    command = UpdateCustomer(
        context=call.context,
        customer_id=call.path["customer_id"],
        changes=list_changes(body),
        precondition=call.precondition(_etag),
    )
    return await call.change(command, _write)


async def delete_customer(call: Call) -> Answer:
    """Delete a customer.

    Only one whom no license names; to remove personal data, erase it.
    """
    command = DeleteCustomer(
        context=call.context, customer_id=call.path["customer_id"], precondition=call.precondition(_etag)
    )
    return await call.change(command, no_content)


async def search_customers(call: Call, body: CustomerSearch, query: CustomerPage) -> Answer:
    """Search customers.

    By e-mail address, in any case, or by their whole name, which are never in a URL.
    """
    asked = ListCustomers(paging=lists.read_paging(call), email=body.email, name=body.name)
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show))


async def export_customer(call: Call) -> Answer:
    """Export what is stored about a customer.

    The customer, the events about them, and their licenses with whole license keys, activations, events and
    other rows. Also for a number that licenses name without there being a customer. An answer has at most
    1,000 licenses and 20,000 rows of all kinds; `keywright customer export` has no such limit.
    """
    return await call.ask(
        ExportCustomer(customer_id=call.path["customer_id"]), lambda found: ok(_show(found))
    )


async def erase_customer(call: Call) -> Answer:
    """Erase what is stored about a customer.

    Their name, e-mail address and metadata, the metadata of their licenses, addresses, user agents and labels
    of their activations, and their traces in events are gone. Licenses and counters stay, so that programs
    keep working. Who holds a lease now stays until that is over and the customer is erased again. The answer
    counts what was erased.
    """
    command = EraseCustomer(context=call.context, customer_id=call.path["customer_id"])
    await call.desk.query(RequireCustomerData(customer_id=command.customer_id), call)
    steps = [Erasure()]
    after_id: int | None = 0
    while after_id is not None:
        find = FindShopEventsNaming(customer_id=command.customer_id, after_id=after_id)
        event_ids, after_id = await call.desk.query(find, call)
        if event_ids:
            step = replace(command, is_step=True, shop_event_ids=event_ids)
            steps.append(await call.desk.execute(step, call))
    while steps[-1].total or len(steps) == 1:
        steps.append(await call.desk.execute(replace(command, is_step=True), call))

    def write(last: Erasure) -> Answer:
        counts = {
            name: sum(getattr(one, name) for one in (*steps, last))
            for name in catalog_schemas.Erased.__struct_fields__
        }
        return ok(catalog_schemas.Erased(**counts))

    return await call.change(command, write)


async def make_portal_link(call: Call) -> Answer:
    """Make a link to the customer's portal.

    Whoever opens it is signed in as this customer, once, within 24 hours: show it only to a customer who is
    signed in to your own site.
    """
    base = call.base_of_links()
    command = MakePortalLink(
        context=call.context, customer_id=call.path["customer_id"], token=new_session_token()
    )

    def write(link: PortalLink) -> Answer:
        url = f"{base}{PORTAL}/link/{link.token}"
        return ok(catalog_schemas.CustomerLink(url, link.expires_at), status=201)

    return await call.change(command, write)


def _show(found: CustomerData) -> CustomerExport:
    customer = None if found.customer is None else show(found.customer)
    return CustomerExport(
        customer,
        list(map(asdict, found.events)),
        [_show_license(one) for one in found.licenses],
        found.mails,
        found.shop_events,
    )


def _show_license(found: LicenseData) -> dict[str, Any]:
    texts = ("metadata", "terms", "order_details")
    fields = asdict(found.license)
    decoded = {name: None if fields[name] is None else Raw(fields[name].encode()) for name in texts}
    return {
        "license": fields | decoded,
        "activations": found.activations,
        "events": found.events,
        **found.others,
    }


_ONE = "/customers/{customer_id}"

ROUTES = (
    Route(
        "POST",
        "/customers",
        "create_customer",
        Right.WRITE,
        create_customer,
        body=NewCustomer,
        gives=catalog_schemas.Customer,
        status=201,
        refusals=("already_exists",),
        example={"email": "ada@example.com", "name": "Ada"},
        needs_all_products=True,
    ),
    Route(
        "GET",
        "/customers",
        "list_customers",
        Right.READ,
        list_customers,
        query=CustomerQuery,
        gives=schemas.Page[catalog_schemas.Customer],
        needs_all_products=True,
    ),
    Route(
        "GET",
        _ONE,
        "get_customer",
        Right.READ,
        get_customer,
        gives=catalog_schemas.Customer,
        needs_all_products=True,
    ),
    Route(
        "PATCH",
        _ONE,
        "update_customer",
        Right.WRITE,
        update_customer,
        body=CustomerChanges,
        gives=catalog_schemas.Customer,
        refusals=("already_exists", "changed_meanwhile"),
        example={"name": "Ada King"},
        needs_all_products=True,
    ),
    Route(
        "DELETE",
        _ONE,
        "delete_customer",
        Right.WRITE,
        delete_customer,
        status=204,
        refusals=("still_in_use", "changed_meanwhile"),
        needs_all_products=True,
    ),
    Route(
        "POST",
        "/customers/search",
        "search_customers",
        Right.READ,
        search_customers,
        body=CustomerSearch,
        query=CustomerPage,
        gives=schemas.Page[catalog_schemas.Customer],
        example={"email": "ada@example.com"},
        is_read=True,
        needs_all_products=True,
    ),
    Route(
        "GET",
        f"{_ONE}/export",
        "export_customer",
        Right.READ,
        export_customer,
        gives=CustomerExport,
        refusals=("invalid",),
        needs_all_products=True,
    ),
    Route(
        "POST",
        f"{_ONE}/erase",
        "erase_customer",
        Right.WRITE,
        erase_customer,
        gives=catalog_schemas.Erased,
        needs_all_products=True,
    ),
    Route(
        "POST",
        f"{_ONE}/portal-link",
        "make_portal_link",
        Right.WRITE,
        make_portal_link,
        gives=catalog_schemas.CustomerLink,
        status=201,
        needs_all_products=True,
    ),
)
