"""The interface of a shop's module, and the client for a shop's API."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Timer
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from keywright.core.errors import ShopRefused, ShopUnavailable
from keywright.core.parsing import parse_retry_after
from keywright.provisioning.shops.model import Connection, ShopEvent, UnreadableOrder

if TYPE_CHECKING:
    import httpx


class ApiAccess(msgspec.Struct, frozen=True):
    """The URL of a shop's API, and the headers of every call to it."""

    url: str
    headers: Mapping[str, str] = {}


class ShopApi(Protocol):
    """The API of a shop, opened by ``open_api``; calls have a timeout, and answers a maximum size."""

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
        """Return the decoded JSON at this path below the API's URL (``/v1/charges/ch_1``).

        Raises ``ShopUnavailable`` if another attempt may help (no answer, no JSON, 429, 5xx), and
        ``ShopRefused`` otherwise (401, 403, 404).
        """


class ShopModule(Protocol):
    """The functions of a shop's module. All are pure except those that get an API. ``TOPICS`` are the events
    that a connection needs, including those for subscriptions that change.

    Names in ``headers`` are in lower case. A body may contain anything: for a body that is not as documented,
    ``read`` raises ``UnreadableEvent``, and nothing else.
    """

    TOPICS: frozenset[str]

    def is_ping(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether this is the unsigned call by which the shop tests the address: it is answered with 200, and
        nothing is stored.
        """

    def verify(self, headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
        """Check the signature over the raw body, in constant time, before the body is parsed. Raises
        ``BadSignature``.
        """

    def read(self, headers: Mapping[str, str], body: bytes, connection: Connection) -> Sequence[ShopEvent]:
        """Return the events in a body, in the shop's order; mostly one. Raises ``UnreadableEvent``."""

    def find_api(self, connection: Connection, api_key: str) -> ApiAccess | None:
        """Return the access to the API; None if the shop has no API, or the connection lacks its address."""

    def complete(self, event: ShopEvent, api: ShopApi) -> ShopEvent:
        """Return the event with what the webhook left out; only for events with ``needs_api``. Raises
        ``ShopUnavailable``, ``ShopRefused``, ``UnreadableEvent``.
        """

    def list_orders(
        self, api: ShopApi, connection: Connection, since: datetime
    ) -> Iterator[ShopEvent | UnreadableOrder]:
        """Yield an event for each order that changed since then, oldest first, with the ``id`` that ``read``
        gives it. Raises what ``complete`` does; an order that cannot be read stops no other.
        """

    def list_running(self, api: ShopApi, connection: Connection) -> Iterator[ShopEvent]:
        """Yield an event for each running subscription, with all lines. Raises what ``complete`` does."""

    def list_topics(self, api: ShopApi, connection: Connection) -> frozenset[str] | None:
        """Return the events that the shop is set up to send to this connection; None if its API does not list
        them. Raises what ``complete`` does.
        """


#: The timeout of a call, in seconds, and the maximum size of its answer, in bytes.
TIMEOUT = 10.0
MAX_BYTES = 4 * 1024**2
#: Statuses with which a call is retried later.
_PASSING = frozenset({408, 409, 425, 429})


class HttpApi:
    """The API of one shop. Redirects are not followed, so that the API key is sent to no other host."""

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
            # For example, the maintenance page of the site.
            raise ShopUnavailable(f"no JSON for {path}") from None

    def _ask(self, path: str, parameters: Mapping[str, str | int] | None) -> tuple[int, bytes, str]:
        """Return the status, the undecoded body, and ``Retry-After``. Each wait for bytes has a timeout, and
        so has the whole answer, including its headers.
        """
        with (
            _deadline(self._client, self._timeout),
            self._client.stream("GET", path, params=parameters) as answer,
        ):
            body = bytearray()
            # Undecoded: a few compressed bytes can expand to very many.
            for chunk in answer.iter_raw():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ShopRefused(f"an answer of more than {MAX_BYTES} bytes for {path}")
            return answer.status_code, bytes(body), answer.headers.get("Retry-After", "")


@contextmanager
def _deadline(client: "httpx.Client", seconds: float) -> Iterator[None]:
    """Close the client after so many seconds: a server may send byte after byte, without a single timeout."""
    timer = Timer(seconds, client.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def open_api(access: ApiAccess, *, timeout: float = TIMEOUT) -> Iterator[ShopApi]:
    """Open this API until the end of the block."""
    import httpx

    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Keywright"}
    headers |= access.headers
    base_url = access.url.rstrip("/") + "/"
    with httpx.Client(base_url=base_url, headers=headers, timeout=timeout, trust_env=False) as client:
        yield HttpApi(client, timeout)
