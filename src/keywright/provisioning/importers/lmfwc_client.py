"""A client for the v2 API of *License Manager for WooCommerce*, which Keywright implements, too.

The plugin returns errors with status 200 or 500, as web pages, or after a minute: each is raised as one of
two exceptions with a message.
"""

import base64
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from tempfile import SpooledTemporaryFile
from threading import Timer
from typing import IO, Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from keywright.core.parsing import parse_shop_address

#: Larger answers are stored in an unnamed temporary file.
_MAX_IN_MEMORY = 16 * 1024**2
_MAX_BYTES = 2 * 1024**3
_CHUNK = 256 * 1024
#: The delays of the commands before each retry, in seconds.
RETRY_DELAYS = (1.0, 4.0)


class ShopUnavailable(Exception):
    """The plugin did not answer, or another program did; the text states what happened."""

    def __init__(self, problem: str, *, is_final: bool = False) -> None:
        super().__init__(problem)
        #: Whether a retry would have the same result.
        self.is_final = is_final


class ShopRefusal(Exception):
    """The plugin answered with an error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Answer(NamedTuple):
    """The body of a successful answer, and the number of pages if it is one of several."""

    body: IO[bytes]
    pages: int | None


class Limits(NamedTuple):
    """The timeouts for the next bytes and for a whole answer, in seconds; the maximum size of an answer, in
    bytes; and the delays before retries.
    """

    idle: float = 120.0
    total: float = 1800.0
    size: int = _MAX_BYTES
    delays: Sequence[float] = RETRY_DELAYS


class LmfwcClient:
    """A client for a shop's v2 API, with an API key that may read. Thread-safe."""

    def __init__(
        self,
        address: str,
        consumer_key: str,
        consumer_secret: str,
        limits: Limits = Limits(),  # noqa: B008
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """``address`` is the URL of the shop, or of its API, which ends in ``/v2``. Raises ``ValueError``."""
        parts = urlsplit(parse_shop_address(address))
        self.host = parts.netloc
        self._name, self._port = parts.hostname or "", parts.port
        self._path = parts.path if parts.path.endswith("/v2") else f"{parts.path}/wp-json/lmfwc/v2"
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        credentials = base64.b64encode(f"{consumer_key}:{consumer_secret}".encode()).decode()
        self._headers = {
            "Authorization": f"Basic {credentials}",
            "Accept": "application/json",
            "User-Agent": "Keywright",
        }
        self._limits, self._pause = limits, pause

    def get_license(self, key: str) -> dict[str, Any]:
        """Return the license with this key. Raises ``ShopRefusal`` or ``ShopUnavailable``."""
        license = self.get(f"licenses/{quote(key, safe='')}")
        if not isinstance(license, dict):
            raise ShopUnavailable("its answer is not a license")
        return license

    def get(self, path: str) -> Any:
        """Return the data of an answer. Raises ``ShopRefusal`` or ``ShopUnavailable``."""
        with self.open(path) as answer:
            return read_data(answer.body)

    @contextmanager
    def open(self, path: str) -> Iterator[Answer]:
        """Open the answer to a request, with retries. Raises ``ShopRefusal`` or ``ShopUnavailable``."""
        delays = [*self._limits.delays]
        with SpooledTemporaryFile(_MAX_IN_MEMORY) as file:
            while True:
                try:
                    pages = self._ask(path, file)
                    break
                except ShopUnavailable as problem:
                    if problem.is_final or not delays:
                        raise
                    self._pause(delays.pop(0))
            yield Answer(file, pages)

    def _ask(self, path: str, file: IO[bytes]) -> int | None:
        """Write the body of the answer to the file; return the number of pages."""
        connection = self._make_connection()
        try:
            connection.connect()
            with _deadline(connection.sock, self._limits.total):
                connection.request("GET", f"{self._path}/{path}", headers=self._headers)
                with connection.getresponse() as response:
                    self._read_body(response, file)
        except ssl.SSLCertVerificationError as problem:
            text = f"its certificate cannot be verified: {problem.verify_message}"
            raise ShopUnavailable(text, is_final=True) from None
        except TimeoutError:
            raise ShopUnavailable(f"it has not answered for {self._limits.idle:.0f} s") from None
        except (OSError, HTTPException) as problem:
            raise ShopUnavailable(f"it cannot be reached ({_describe(problem)})") from None
        finally:
            connection.close()
        _require_success(response, file)
        pages = response.headers.get("X-WP-TotalPages", "")
        return int(pages) if pages.isdecimal() else None

    def _make_connection(self) -> HTTPConnection:
        if self._tls is None:
            return HTTPConnection(self._name, self._port, timeout=self._limits.idle)
        return HTTPSConnection(self._name, self._port, timeout=self._limits.idle, context=self._tls)

    def _read_body(self, response: HTTPResponse, file: IO[bytes]) -> None:
        file.seek(0)
        file.truncate()
        while chunk := response.read1(_CHUNK):
            if file.tell() + len(chunk) > self._limits.size:
                raise ShopUnavailable("its answer is too large", is_final=True)
            file.write(chunk)


def read_data(file: IO[bytes]) -> Any:
    """Decode the data of an answer. Raises ``ShopRefusal`` for an error with status 200."""
    file.seek(0)
    answer = _decode(file.read())
    data = answer.get("data") if isinstance(answer, dict) else None
    if isinstance(data, dict) and isinstance(errors := data.get("errors"), dict) and errors:
        code, texts = next(iter(errors.items()))
        raise ShopRefusal(200, str(code), str(texts[0] if isinstance(texts, list) and texts else texts))
    if not isinstance(answer, dict) or not answer.get("success"):
        raise ShopUnavailable("its answer is not from the plugin")
    return data


def _require_success(response: HTTPResponse, file: IO[bytes]) -> None:
    """Raise ``ShopRefusal`` or ``ShopUnavailable`` unless the answer is a success in JSON."""
    status = response.status
    if 300 <= status < 400:
        # The path may contain a license key.
        target = urlsplit(response.headers.get("Location", ""))
        help = f" to {target.scheme}://{target.netloc}: give that address" if target.netloc else ""
        raise ShopUnavailable(f"it redirects{help}", is_final=True)
    if status < 300 and _is_whole_object(file):
        return
    if 400 <= status < 500 and status != 429 and _is_whole_object(file):
        file.seek(0)
        answer = _decode(file.read())
        if isinstance(answer.get("code"), str):
            raise ShopRefusal(status, answer["code"], str(answer.get("message")))
    file.seek(0)
    kind = " and a web page" if file.read(1024).lstrip().startswith(b"<") else ""
    raise ShopUnavailable(f"it answered with status {status}{kind or ' and no data of the plugin'}")


def _is_whole_object(file: IO[bytes]) -> bool:
    """Whether the body starts and ends like a JSON object."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 1024))
    end = file.read().rstrip()
    file.seek(0)
    return file.read(1024).lstrip().startswith(b"{") and end.endswith(b"}")


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise ShopUnavailable("its answer is not JSON") from None


@contextmanager
def _deadline(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Shut the connection down after so many seconds: bytes may arrive one by one, without a timeout."""

    def hang_up() -> None:
        # The connection may be closed at this moment.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _describe(problem: Exception) -> str:
    return (isinstance(problem, OSError) and problem.strerror) or type(problem).__name__
