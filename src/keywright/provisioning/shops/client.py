"""Ask a shop's API over HTTP."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Timer
from typing import TYPE_CHECKING, Any

import msgspec

from keywright.core.errors import ShopRefused, ShopUnavailable
from keywright.core.retry_after import parse_retry_after
from keywright.provisioning.shops.shop_module import ApiAccess, ShopApi

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
        """The status, the body as it came, and ``Retry-After``. Each wait for bytes has a timeout, and so has
        the whole answer, with its headers.
        """
        with (
            _deadline(self._client, self._timeout),
            self._client.stream("GET", path, params=parameters) as answer,
        ):
            body = bytearray()
            # A few bytes that are compressed can become very many.
            for chunk in answer.iter_raw():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ShopRefused(f"an answer of more than {MAX_BYTES} bytes for {path}")
            return answer.status_code, bytes(body), answer.headers.get("Retry-After", "")


@contextmanager
def _deadline(client: "httpx.Client", seconds: float) -> Iterator[None]:
    """Hang up when this takes longer: no wait for bytes is long, but they may come one by one."""
    timer = Timer(seconds, client.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def open_api(access: ApiAccess, *, timeout: float = TIMEOUT) -> Iterator[ShopApi]:
    """Ask this API until the end of the block."""
    import httpx

    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Keywright"}
    headers |= access.headers
    base_url = access.url.rstrip("/") + "/"
    with httpx.Client(base_url=base_url, headers=headers, timeout=timeout, trust_env=False) as client:
        yield HttpApi(client, timeout)
