"""An OpenID provider for tests, in this process: honest, or as dishonest as a test wants it."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jws
from joserfc.jwk import ECKey, Key, RSAKey

CLIENT, SECRET = "keywright", "geheim:für %+&"

#: Changes the header and the claims of a token, and may choose another key or write the whole token.
Forgery = Callable[["Provider", dict[str, Any], dict[str, Any]], Any]


class Provider:
    """Signs in whoever comes, as ``claims`` describe them. ``documents`` replace answers by their path."""

    def __init__(self) -> None:
        self.key: Key = RSAKey.generate_key(2048, {"kid": "first"})
        self.keys: list[Key] = [self.key]
        self.claims: dict[str, Any] = {}
        self.information: dict[str, Any] = {}
        self.forge: Forgery | None = None
        self.documents: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        #: What the code stands for, as the browser has asked; and what the provider was asked.
        self._codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.issuer = ""

    def authorize(self, url: str) -> dict[str, str]:
        """What the browser brings back to Keywright from this address of the provider."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        return {"code": code, "state": query["state"], "iss": self.issuer}

    def answer(self, path: str, form: dict[str, str], login: str) -> tuple[int, bytes, dict[str, str]]:
        self.asked.append(path)
        if path in self.documents:
            return self.documents[path]
        if path == "/.well-known/openid-configuration":
            return _write(200, self.configuration())
        if path == "/keys":
            return _write(200, {"keys": [one.as_dict(private=False) for one in self.keys]})
        if path == "/userinfo":
            return _write(200, self.information)
        return self._redeem(form, login) if path == "/token" else _write(404, {})

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "authorization_response_iss_parameter_supported": True,
        }

    def _redeem(self, form: dict[str, str], login: str) -> tuple[int, bytes, dict[str, str]]:
        asked = self._codes.pop(form.get("code", ""), None)
        challenge = _base64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        expected = "keywright:geheim%3Af%C3%BCr+%25%2B%26"
        if (
            asked is None
            or challenge != asked["code_challenge"]
            or form["redirect_uri"] != asked["redirect_uri"]
            or login != expected
        ):
            return _write(400, {"error": "invalid_grant"})
        return _write(
            200, {"id_token": self.token(asked["nonce"]), "access_token": "a", "token_type": "Bearer"}
        )

    def token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "nonce": nonce,
            "iat": now,
            "exp": now + 300,
        } | self.claims
        header: dict[str, Any] = {
            "alg": "RS256" if isinstance(self.key, RSAKey) else "ES256",
            "kid": self.key.kid,
        }
        written = None if self.forge is None else self.forge(self, header, claims)
        if isinstance(written, str):
            return written
        return sign(header, claims, self.key if written is None else written)


def sign(header: dict[str, Any], claims: dict[str, Any], key: Any) -> str:
    registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
    return jws.serialize_compact(header, json.dumps(claims), key, registry=registry)


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    return ".".join(
        _base64(part) for part in (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    )


def other_key() -> Key:
    return ECKey.generate_key("P-256", {"kid": "first"})


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _write(status: int, document: object) -> tuple[int, bytes, dict[str, str]]:
    return status, json.dumps(document).encode(), {"content-type": "application/json"}


@contextmanager
def providing() -> Iterator[Provider]:
    """A provider on a free port of this machine, for as long as the block runs."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            form = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            fields = {name: values[0] for name, values in parse_qs(form).items()}
            kind, _, login = self.headers.get("authorization", "").partition(" ")
            decoded = base64.b64decode(login).decode() if kind == "Basic" else ""
            status, body, headers = provider.answer(urlsplit(self.path).path, fields, decoded)
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                # The client does not take all of it.
                self.close_connection = True

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
