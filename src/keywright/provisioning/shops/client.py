"""Ask a shop's API over HTTP."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from keywright.core.errors import ShopRefused, ShopUnavailable
from keywright.core.retry_after import parse_retry_after
from keywright.provisioning.shops.model import ApiAccess, ShopApi

if TYPE_CHECKING:
    import httpx

#: How long one question may take, in seconds, and how many bytes its answer may have.
TIMEOUT = 10.0
MAX_BYTES = 4 * 1024**2
#: These statuses may be others in a while.
_PASSING = frozenset({408, 409, 425, 429})


class HttpApi:
    """The API of one shop. Redirects are not followed: the API key goes to no other host."""

    def __init__(self, client: "httpx.Client", timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
        """See ``ShopApi``."""
        import httpx

        try:
            status, body, retry_after = self._ask(path.removeprefix("/"), parameters)
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise ShopUnavailable(type(problem).__name__) from None
        if status in _PASSING or status >= 500:
            raise ShopUnavailable(f"{status} for {path}", parse_retry_after(retry_after, datetime.now(UTC)))
        if status != 200:
            raise ShopRefused(f"{status} for {path}")
        try:
            return msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            # A page that says that the site is being maintained, say.
            raise ShopUnavailable(f"no JSON for {path}") from None

    def _ask(self, path: str, parameters: Mapping[str, str | int] | None) -> tuple[int, bytes, str]:
        """The status, the body and ``Retry-After``. Each wait for bytes has a timeout, and so has the whole
        answer.
        """
        end = monotonic() + self._timeout
        with self._client.stream("GET", path, params=parameters) as answer:
            body = bytearray()
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ShopRefused(f"an answer of more than {MAX_BYTES} bytes for {path}")
                if monotonic() > end:
                    raise ShopUnavailable(f"no whole answer within {self._timeout:g} seconds")
            return answer.status_code, bytes(body), answer.headers.get("Retry-After", "")


@contextmanager
def open_api(access: ApiAccess, *, timeout: float = TIMEOUT) -> Iterator[ShopApi]:
    """Ask this API until the end of the block."""
    import httpx

    headers = {"Accept": "application/json", "User-Agent": "Keywright"} | dict(access.headers)
    base_url = access.url.rstrip("/") + "/"
    with httpx.Client(base_url=base_url, headers=headers, timeout=timeout, trust_env=False) as client:
        yield HttpApi(client, timeout)
