"""Calls over HTTP, with the standard library alone."""

from __future__ import annotations

import json
import os
from time import sleep
from typing import Any

from .errors import Refused, Unreachable

#: More than any answer has, in bytes.
_MAX_ANSWER = 1_000_000
#: In seconds; a server that asks for more patience gets it from the caller.
_MAX_WAIT = 20.0
_TO_BE_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


class Server:
    """A Keywright server. Proxies come from the environment; ``ca_file`` holds a CA bundle of one's own."""

    def __init__(self, url: str, timeout: float, ca_file: str | None, user_agent: str) -> None:
        self._url, self._timeout, self._ca_file = url.rstrip("/"), timeout, ca_file
        self._user_agent = user_agent
        self._opener: Any = None

    def post(self, path: str, body: dict[str, Any], *, accept: str, attempts: int = 3) -> str:
        """The text of a good answer. One Idempotency-Key serves all attempts.

        Raises Refused for a problem that the server names, and Unreachable for all else.
        """
        sent = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": os.urandom(16).hex()}
        return self._call(path, sent, {**headers, "Accept": accept}, attempts)

    def get(self, path: str) -> str:
        """The text of a document. Raises as ``post`` does."""
        return self._call(path, None, {"Accept": "application/json"}, 2)

    def _call(self, path: str, body: bytes | None, headers: dict[str, str], attempts: int) -> str:
        for attempt in range(1, attempts + 1):
            try:
                return self._try(path, body, headers)
            except Unreachable as error:
                # Spread, so that programs which lost a server together do not come back together.
                wait = max(error.retry_after or 0, 2.0**attempt * (0.25 + os.urandom(1)[0] / 512))
                if attempt == attempts or wait > _MAX_WAIT:
                    raise
                sleep(wait)
        raise AssertionError("never")

    def _try(self, path: str, body: bytes | None, headers: dict[str, str]) -> str:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        address = self._url + path
        request = Request(address, body, {**headers, "User-Agent": self._user_agent})  # noqa: S310
        try:
            with self._open()(request, timeout=self._timeout) as answer:
                return str(answer.read(_MAX_ANSWER).decode(errors="replace"))
        except HTTPError as error:
            with error:
                raise _to_error(error.code, error.headers.get("Retry-After"), _read(error)) from None
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable(f"The license server cannot be reached: {error}") from None

    def _open(self) -> Any:
        if self._opener is None:
            import ssl
            from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

            class NoRedirects(HTTPRedirectHandler):
                # A license key goes nowhere else.
                def redirect_request(self, *_: Any) -> None:
                    return None

            context = ssl.create_default_context(cafile=self._ca_file)
            self._opener = build_opener(HTTPSHandler(context=context), NoRedirects).open
        return self._opener


def _read(error: Any) -> Any:
    try:
        return json.loads(error.read(_MAX_ANSWER))
    except (OSError, ValueError, RecursionError):
        return None


def _to_error(status: int, retry_after: str | None, problem: Any) -> Unreachable | Refused:
    """Only a problem that the server names is a refusal; a proxy's page is an outage."""
    wait = float(retry_after) if retry_after and retry_after.isdecimal() else None
    if not isinstance(problem, dict) or not isinstance(problem.get("code"), str) or status in _TO_BE_RETRIED:
        return Unreachable(f"The license server answers with status {status}.", wait)
    return Refused(problem["code"], str(problem.get("detail") or problem["code"]), status, wait)
