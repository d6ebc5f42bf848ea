"""The table of v3's routes; each noun's module contributes its part."""

from keywright import __version__
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import (
    activations,
    client,
    connections,
    customers,
    events,
    jobs,
    leases,
    license_search,
    licenses,
    meta,
    notices,
    policies,
    products,
    releases,
    schemas,
    shop_events,
    signing,
    transfers,
    trials,
    updates,
    usage,
    webhooks,
)
from keywright.http.v3.answers import PAGES, ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import Route

_DOCUMENTS = schemas.Documents("/openapi/v3.json", "/openapi/v3", PAGES)


async def get_index(call: Call) -> Answer:
    """Get the index.

    Returns the version of the server, the routes of the client and management APIs, and the paths of the
    documentation.
    """
    client, management = (
        [f"{one.method} {call.root}{one.public_path}" for one in ROUTES if one.is_client is is_client]
        for is_client in (True, False)
    )
    faces = {"client": client, "management": management}
    return ok(schemas.Index("Keywright", __version__, faces, _DOCUMENTS))


_INDEX = Route("GET", "/", Right.NONE, get_index, gives=schemas.Index)

ROUTES: tuple[Route, ...] = (
    _INDEX,
    *client.ROUTES,
    *leases.ROUTES,
    *usage.ROUTES,
    *trials.ROUTES,
    *updates.ROUTES,
    *signing.ROUTES,
    *meta.ROUTES,
    *products.ROUTES,
    *releases.ROUTES,
    *notices.ROUTES,
    *policies.ROUTES,
    *jobs.ROUTES,
    *customers.ROUTES,
    *licenses.ROUTES,
    *license_search.ROUTES,
    *transfers.ROUTES,
    *activations.ROUTES,
    *events.ROUTES,
    *webhooks.ROUTES,
    *connections.ROUTES,
    *shop_events.ROUTES,
)
