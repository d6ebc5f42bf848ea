"""Liveness and readiness checks."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from keywright.core.errors import KeywrightError, ShuttingDown
from keywright.db.watch import Outage
from keywright.engine.desk import Desk
from keywright.engine.health import CheckDatabase
from keywright.http.answer import Answer, ErrorWriter, to_response
from keywright.http.server.protocol import IS_LEAVING


class Health:
    """The routes that load balancers and monitors request."""

    def __init__(self, desk: Desk, writing: Outage, write_error: ErrorWriter) -> None:
        self._desk = desk
        self._writing = writing
        self._write_error = write_error
        self.routes = [Route("/healthz", self._healthz), Route("/readyz", self._readyz)]

    async def _healthz(self, _request: Request) -> Response:
        """Answer 200: the process is alive."""
        return to_response(Answer(200, b'{"status":"alive"}'))

    async def _readyz(self, request: Request) -> Response:
        """Answer 200 if the database answers and the server is not about to stop. A read-only server counts
        as ready, because it can answer queries. The schema needs no check: a server does not start on an
        unknown one.
        """
        try:
            if request.scope.get("state", {}).get(IS_LEAVING):
                raise ShuttingDown
            await self._desk.query(CheckDatabase())
        except KeywrightError as error:
            return to_response(self._write_error(error))
        is_read_only = self._writing.is_on
        return to_response(Answer(200, b'{"status":"read_only"}' if is_read_only else b'{"status":"ready"}'))
