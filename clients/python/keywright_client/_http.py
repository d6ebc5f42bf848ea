"""Calls over HTTP, with the standard library alone."""

from __future__ import annotations

import json
import os
from time import sleep
from typing import Any

from .errors import KeywrightError, Refused, Unreachable

#: More than any answer has, in bytes.
_MAX_ANSWER = 1_000_000
#: In seconds; a server that asks for more patience gets it from the caller.
_MAX_WAIT = 20.0
_TO_BE_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


class Server:
    """A Keywright server. Proxies come from the environment; ``ca_file`` holds a CA bundle of one's own."""

    def __init__(self, url: str, timeout: float, ca_file: str | None, user_agent: str) -> None:
        self._url, self._timeout = url.rstrip("/"), timeout
        self._ca_file, self._user_agent = ca_file, user_agent

    def call(self, path: str, body: dict[str, Any] | None, accept: str, attempts: int = 3) -> str:
        """The text of a good answer: of POST, or of GET without a body. One Idempotency-Key for all attempts.

        Raises Refused for a problem that the server names, and Unreachable for all else.
        """
        headers = {"Accept": accept, "User-Agent": self._user_agent}
        content = None
        if body is not None:
            content = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
            headers.update({"Content-Type": "application/json", "Idempotency-Key": os.urandom(16).hex()})
        for attempt in range(1, attempts + 1):
            try:
                return self._try(path, content, headers)
            except Unreachable as error:
                # Spread, so that programs which lost a server together do not come back together.
                wait = max(error.retry_after, 2.0**attempt * (0.25 + os.urandom(1)[0] / 512))
                if attempt == attempts or wait > _MAX_WAIT:
                    raise
                sleep(wait)
        raise AssertionError("never")

    def _try(self, path: str, content: bytes | None, headers: dict[str, str]) -> str:
        import ssl
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            def redirect_request(self, *_: Any) -> None:
                """A license key goes nowhere else."""

        try:
            https = HTTPSHandler(context=ssl.create_default_context(cafile=self._ca_file))
            request = Request(self._url + path, content, headers)  # noqa: S310
            with build_opener(https, NoRedirects).open(request, timeout=self._timeout) as answer:
                return str(answer.read(_MAX_ANSWER).decode(errors="replace"))
        except HTTPError as error:
            with error:
                raise _to_error(error) from None
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable(f"The license server cannot be reached: {error}", "unreachable") from None


def _to_error(error: Any) -> KeywrightError:
    """Only a problem that the server names is a refusal; a proxy's page is an outage."""
    wait = error.headers.get("Retry-After") or ""
    retry_after = float(wait) if wait.isdecimal() else 0.0
    try:
        problem = json.loads(error.read(_MAX_ANSWER))
        code, detail = str(problem["code"]), str(problem.get("detail") or problem["code"])
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        code = detail = ""
    if code and error.code not in _TO_BE_RETRIED:
        return Refused(detail, code, error.code, retry_after)
    answer = f"The license server answers with status {error.code}."
    return Unreachable(answer, code or "unreachable", error.code, retry_after)
