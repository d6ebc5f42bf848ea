"""What the module of a shop does, and how its API is asked."""

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
    """Where a shop's API is, and the headers that every call to it has."""

    url: str
    headers: Mapping[str, str] = {}


class ShopApi(Protocol):
    """Asks the API of a shop. Made by ``client.open_api``; calls have a timeout, answers a largest size."""

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
        """The decoded JSON at this path below the API's address (``/v1/charges/ch_1``).

        Raises ``ShopUnavailable`` where another attempt may help (no answer, no JSON, 429, 5xx), and
        ``ShopRefused`` where not (401, 403, 404).
        """


class ShopModule(Protocol):
    """The functions of a shop's module. All are pure but those that are given an API. ``TOPICS`` are the
    events that a connection needs, for subscriptions that change, too.

    ``headers`` have lower-case names. A body may contain anything: ``read`` raises ``UnreadableEvent``
    for what is not as documented, and nothing else.
    """

    TOPICS: frozenset[str]

    def is_ping(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether this is a call that the shop sends to try the address, without a signature: it is answered
        with 200, and nothing is stored.
        """

    def verify(self, headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
        """Check the signature over the raw body, in constant time, before anything of it is parsed. Raises
        ``BadSignature``.
        """

    def read(self, headers: Mapping[str, str], body: bytes, connection: Connection) -> Sequence[ShopEvent]:
        """The events in a body, in the shop's order: most shops send one. Raises ``UnreadableEvent``."""

    def find_api(self, connection: Connection, api_key: str) -> ApiAccess | None:
        """Where to ask; None for a shop without an API, or a connection without the address that it needs."""

    def complete(self, event: ShopEvent, api: ShopApi) -> ShopEvent:
        """The event with what the webhook left out; only for events that have ``needs_api``. Raises
        ``ShopUnavailable``, ``ShopRefused``, ``UnreadableEvent``.
        """

    def list_orders(
        self, api: ShopApi, connection: Connection, since: datetime
    ) -> Iterator[ShopEvent | UnreadableOrder]:
        """An event for each order that changed since then, oldest first, each with the ``id`` that
        ``read`` gives the same event. Raises as ``complete``; an order that cannot be read stops no other.
        """

    def list_running(self, api: ShopApi, connection: Connection) -> Iterator[ShopEvent]:
        """An event for each subscription that runs, with all of its lines. Raises as ``complete``."""

    def list_topics(self, api: ShopApi, connection: Connection) -> frozenset[str] | None:
        """The events that the shop was asked to send to this connection; None where it cannot be asked.
        Raises as ``complete``.
        """


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
            # A page about maintenance of the site, for example.
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
