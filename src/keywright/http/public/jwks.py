"""The installation's public keys as a JSON Web Key Set (RFC 7517), for vendors' own servers."""

from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from keywright.core.command import Context, Origin
from keywright.core.errors import KeywrightError
from keywright.http.answer import ErrorWriter, to_response
from keywright.http.signatures import Signatures

PATH = "/.well-known/jwks.json"
_TYPE = "application/jwk-set+json"
#: A vendor's server may cache the key set for an hour, and a script of any origin may read it.
_HEADERS = {"Cache-Control": "public, max-age=3600", "Access-Control-Allow-Origin": "*"}
_NOBODY = Origin("keywright", "", "")


class Jwks:
    """The route of the key set."""

    def __init__(self, signatures: Signatures, write_error: ErrorWriter) -> None:
        self._signatures = signatures
        self._write_error = write_error
        self.routes = [Route(PATH, self._answer)]

    async def _answer(self, _request: Request) -> Response:
        now = datetime.now(UTC).replace(microsecond=0)
        try:
            keys = await self._signatures.list_public_keys(Context(now, _NOBODY))
        except KeywrightError as error:
            return to_response(self._write_error(error))
        return Response(msgspec.json.encode({"keys": keys}), media_type=_TYPE, headers=_HEADERS)
