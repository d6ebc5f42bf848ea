"""The API key that makes the call."""

from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import schemas
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import Route


async def get_me(call: Call) -> Answer:
    """Get the calling API key.

    Returns its ID, name and permissions. Call it to test your credentials.
    """
    caller = call.caller
    assert caller is not None  # noqa: S101
    return ok(
        schemas.Me(caller.api_key_id, caller.name, caller.permissions, caller.product_id, caller.expires_at)
    )


ROUTES = (Route("GET", "/me", Right.API_KEY, get_me, gives=schemas.Me),)
