"""Turn what goes wrong into an answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from keywright.core.errors import (
    FateUnknown,
    Fault,
    KeywrightError,
    MethodNotAllowed,
    NoSuchAddress,
    ShuttingDown,
)
from keywright.http.answer import ErrorWriter, to_response
from keywright.http.middleware.call import Call

log = logging.getLogger(__name__)

Handler = Callable[[Request, Exception], Awaitable[Response]]


def to_keywright_error(problem: BaseException, call: Call) -> KeywrightError:
    """The error to answer the call with. An unexpected exception is logged."""
    if isinstance(problem, KeywrightError):
        return problem
    if isinstance(problem, asyncio.CancelledError):
        # The server stops and waits no longer. A call that the desk has not begun changes nothing.
        return FateUnknown() if call.is_change and call.is_begun else ShuttingDown()
    log.error("an unexpected error", exc_info=problem)
    return Fault()


def exception_handlers(write_error: ErrorWriter) -> Mapping[type[Exception], Handler]:
    """The exception handlers of a Starlette application, with answers as ``write_error`` makes them."""

    async def refuse(_request: Request, problem: Exception) -> Response:
        if isinstance(problem, HTTPException) and problem.status_code == 405:
            allowed = (problem.headers or {}).get("Allow", "")
            return to_response(write_error(MethodNotAllowed(tuple(allowed.split(", ")))))
        return to_response(write_error(NoSuchAddress()))

    async def fail(_request: Request, _problem: Exception) -> Response:
        return to_response(write_error(Fault()))

    return {HTTPException: refuse, Exception: fail}
