"""Customers. E-mail addresses must not appear in URLs, so searching is a POST."""

from typing import Annotated, Any, Literal

from msgspec import Raw, Struct, convert
from msgspec.structs import asdict, replace

from keywright.core.fields import Name, about
from keywright.core.nouns import ListQuery
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.pages.render import PORTAL
from keywright.http.v3 import lists, schemas
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.crud import Shown, Texts, crud_routes
from keywright.http.v3.fields import Body
from keywright.http.v3.route import Route
from keywright.identity.sessions import new_session_token
from keywright.maintenance.personal_data import CustomerData, LicenseData
from keywright.maintenance.personal_data_store import Erasure
from keywright.maintenance.tasks import EraseCustomer, ExportCustomer, RequireCustomerData
from keywright.provisioning.customers import CUSTOMER, Customer, CustomerFilter, Email, ListCustomers
from keywright.provisioning.portal.model import MakePortalLink, PortalLink
from keywright.provisioning.shops.commands import FindShopEventsNaming


class CustomerSearch(Body):
    """What to search for."""

    email: Annotated[
        Email | None, about("The e-mail address, in upper or lower case.", "ada@example.com")
    ] = None
    name: Annotated[Name | None, about("The full name.")] = None


class CustomerPage(ListQuery):
    """The page of the results."""

    sort: Literal["created_at", "-created_at"] = "-created_at"


class CustomerExport(Struct):
    """All data stored about a customer."""

    customer: Annotated[schemas.Customer | None, about("The customer; null if there is no record.")]
    events: Annotated[list[dict[str, Any]], about("The events about the customer.", [])]
    licenses: Annotated[
        list[dict[str, Any]], about("The licenses, each with its activations, events and other records.", [])
    ]
    mails: Annotated[list[dict[str, Any]], about("The latest 1,000 mails; their texts are not stored.", [])]
    shop_events: Annotated[
        list[dict[str, Any]],
        about("The latest 1,000 events from shops, with the data that the shop sent.", []),
    ]
    notices: Annotated[list[dict[str, Any]], about("The latest 1,000 notices to the customer.", [])]


def show(customer: Customer) -> schemas.Customer:
    """The customer as v3 shows it."""
    return convert(customer, schemas.Customer, from_attributes=True)


async def search_customers(call: Call, body: CustomerSearch, query: CustomerPage) -> Answer:
    """Search customers.

    Searches by e-mail address, ignoring case, or by full name. Both are sent in the body, because they must
    not appear in a URL.
    """
    where = CustomerFilter(email=body.email, name=body.name)
    asked = ListCustomers(paging=lists.read_paging(call), where=where)
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show))


async def export_customer(call: Call) -> Answer:
    """Export the data of a customer.

    Returns the customer, the events about them, and their licenses with full license keys, activations,
    events and other records. Works for any ID that a license names, even if no such customer exists. An
    answer has at most 1,000 licenses and 20,000 records in total; `keywright customer export` has no such
    limit.
    """
    return await call.ask(
        ExportCustomer(customer_id=call.path["customer_id"]), lambda found: ok(_show(found))
    )


async def erase_customer(call: Call) -> Answer:
    """Erase the personal data of a customer.

    Erases their name, e-mail address and metadata, the metadata of their licenses, the IP addresses, user
    agents and labels of their activations, and their traces in events. Licenses and counters remain, so that
    programs keep working. The holders of current leases remain, too: erase the customer again after these
    leases have ended. Returns the number of erased records.
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
            for name in schemas.Erased.__struct_fields__
        }
        return ok(schemas.Erased(**counts))

    return await call.change(command, write)


async def make_portal_link(call: Call) -> Answer:
    """Create a link to the customer portal.

    The link signs in anyone who opens it as this customer. It works once, within 24 hours: show it only to a
    customer who is signed in to your own site.
    """
    base = call.base_of_links()
    command = MakePortalLink(
        context=call.context, customer_id=call.path["customer_id"], token=new_session_token()
    )

    def write(link: PortalLink) -> Answer:
        url = f"{base}{PORTAL}/link/{link.token}"
        return ok(schemas.CustomerLink(url, link.expires_at), status=201)

    return await call.change(command, write)


def _show(found: CustomerData) -> CustomerExport:
    customer = None if found.customer is None else show(found.customer)
    return CustomerExport(
        customer,
        list(map(asdict, found.events)),
        [_show_license(one) for one in found.licenses],
        found.mails,
        found.shop_events,
        found.notices,
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

_TEXTS = Texts(
    create="Licenses may refer to the ID of a customer that does not exist yet: send that `id` to create "
    "the customer.",
    update="Omitted members keep their values. A new e-mail address is not verified.",
    delete="Only a customer without licenses can be deleted; to remove personal data, erase the customer.",
)

ROUTES = (
    *crud_routes(
        CUSTOMER,
        _TEXTS,
        example={"email": "ada@example.com", "name": "Ada"},
        change={"name": "Ada King"},
        refusals={
            "POST": ("already_exists",),
            "PATCH": ("already_exists", "changed_meanwhile"),
            "DELETE": ("still_in_use", "changed_meanwhile"),
        },
        shown=Shown(schemas.Customer, show),
    ),
    Route(
        "POST",
        "/customers/search",
        Right.READ,
        search_customers,
        gives=schemas.Page[schemas.Customer],
        example={"email": "ada@example.com"},
        is_read=True,
        needs_all_products=True,
    ),
    Route(
        "GET",
        f"{_ONE}/export",
        Right.READ,
        export_customer,
        gives=CustomerExport,
        refusals=("invalid",),
        needs_all_products=True,
    ),
    Route(
        "POST", f"{_ONE}/erase", Right.WRITE, erase_customer, gives=schemas.Erased, needs_all_products=True
    ),
    Route(
        "POST",
        f"{_ONE}/portal-link",
        Right.WRITE,
        make_portal_link,
        gives=schemas.CustomerLink,
        status=201,
        needs_all_products=True,
    ),
)
