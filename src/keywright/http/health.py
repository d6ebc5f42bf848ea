"""The pages beside the interface: is it alive, is it ready, what can it do."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from keywright.core import errors as e
from keywright.engine.health import CheckDatabase
from keywright.http.server.protocol import IS_LEAVING
from keywright.http.v2 import messages, wire

_JSON = "application/json; charset=UTF-8"


async def healthz(_request: Request) -> Response:
    """The process is alive."""
    return _json(200, {"status": "alive"})


async def readyz(request: Request) -> Response:
    """The database answers, and the server is not about to stop; it never starts on a database whose schema
    it does not know.
    """
    try:
        if request.scope.get("state", {}).get(IS_LEAVING):
            raise e.ShuttingDown
        await request.app.state.desk.query(CheckDatabase())
    except e.KeywrightError as error:
        return _refusal(error)
    return _json(200, {"status": "ready"})


async def not_found(_request: Request, error: Exception) -> Response:
    """Whatever is not a page is answered in the interface's shape."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        return _refusal(e.MethodNotAllowed(tuple((error.headers or {}).get("Allow", "").split(", "))))
    return _refusal(e.NoSuchAddress())


async def fault(_request: Request, _error: Exception) -> Response:
    """A fault of ours, in the interface's shape."""
    return _refusal(e.Fault())


def _refusal(error: e.KeywrightError) -> Response:
    status, body = messages.write(error, {})
    headers = {name.decode(): value.decode() for name, value in messages.headers(error)}
    return Response(body, status, headers, media_type=_JSON)


def _json(status: int, content: object) -> Response:
    return Response(wire.encode(content), status, media_type=_JSON)


ROUTES = [Route("/healthz", healthz), Route("/readyz", readyz)]
HANDLERS = {HTTPException: not_found, Exception: fault}
