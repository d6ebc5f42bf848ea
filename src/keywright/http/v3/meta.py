"""The interface itself, and the key that calls it."""

from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import schemas
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import Route


async def get_me(call: Call) -> Answer:
    """Get the calling API key.

    Its ID, name and permissions: programs call it to test their credentials.
    """
    caller = call.caller
    assert caller is not None  # noqa: S101
    return ok(
        schemas.Me(caller.api_key_id, caller.name, caller.permissions, caller.product_id, caller.expires_at)
    )


ROUTES = (Route("GET", "/me", Right.API_KEY, get_me, gives=schemas.Me),)
