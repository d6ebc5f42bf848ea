"""Sign-in with a company's accounts: requests to an OpenID provider, and the checks of its answers.

OpenID Connect Core 1.0 and Discovery 1.0, authorization code flow with PKCE (RFC 7636) and the issuer in the
answer (RFC 9207). No token of the provider is stored.
"""

import hashlib
import hmac
import secrets
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote_plus, urlencode

import msgspec

from keywright.config.groups import Provider
from keywright.config.values import parse_issuer
from keywright.identity.model import Role

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

#: The provider's timeout, in seconds, and the largest answer, in bytes.
TIMEOUT, MAX_BYTES = 5.0, 512 * 1024
#: How long a provider's documents are cached, and how long a failure is, in seconds.
KEPT, FAILED_FOR = 3600.0, 15.0
#: Signatures only: with HS256, a public key would serve as a password.
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
#: How far the provider's clock may be off, and how old a token may be, in seconds.
_CLOCKS_APART, _MAX_AGE = 60, 600
_MAX_KEYS, _MAX_TEXT = 100, 255
_WELL_KNOWN = "/.well-known/openid-configuration"

Answer = TypeVar("Answer")


#: The reason when a browser without an attempt returns from a provider.
NO_ATTEMPT = "this browser has not started a sign-in"


class NotBelieved(Exception):
    """A provider cannot be used, or its answer is rejected; the text is the reason, for the log."""


class Metadata(msgspec.Struct, frozen=True):
    """The provider's metadata (OpenID Connect Discovery 1.0, section 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class Attempt(msgspec.Struct, frozen=True):
    """A sign-in that a browser has started, and that only this browser can finish. ``target`` is where it
    goes afterwards, ``kept`` the form that was kept for it.
    """

    issuer: str
    redirect_uri: str
    state: str
    nonce: str
    verifier: str
    begun_at: int
    target: str = ""
    kept: str = ""


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str
    access_token: str = ""


class _Keys(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class _Header(msgspec.Struct, frozen=True):
    typ: str = "JWT"


class _Claims(msgspec.Struct, frozen=True):
    """The claims that are checked (OpenID Connect Core 1.0, section 3.1.3.7)."""

    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    iat: float
    nonce: str
    azp: str | None = None
    nbf: float = 0.0


class Account(msgspec.Struct, frozen=True):
    """A provider's account: its subject, a display name, its verified address, and its role."""

    subject: str
    name: str
    email: str | None
    role: Role | None


def begin(provider: Provider, redirect_uri: str, now: datetime, target: str, kept: str) -> Attempt:
    """Start an attempt, with 256 random bits each against forged, replayed and stolen answers."""
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return Attempt(provider.issuer, redirect_uri, state, nonce, verifier, int(now.timestamp()), target, kept)


def authorization_url(provider: Provider, metadata: Metadata, attempt: Attempt) -> str:
    """Return the provider's URL at which the user signs in."""
    digest = hashlib.sha256(attempt.verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": provider.scopes,
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    address = metadata.authorization_endpoint
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def check_answer(attempt: Attempt, metadata: Metadata, answer: Mapping[str, list[str]], now: datetime) -> str:
    """Check the answer that the browser passes on, and return the code in it. Raises ``NotBelieved``."""
    if any(len(values) != 1 for values in answer.values()):
        raise NotBelieved("a parameter is missing or sent twice")
    state, issuer = answer.get("state", [""])[0], answer.get("iss", [""])[0]
    if not hmac.compare_digest(state.encode(), attempt.state.encode()):
        raise NotBelieved("the state belongs to another sign-in")
    if not -_CLOCKS_APART <= now.timestamp() - attempt.begun_at < _MAX_AGE:
        raise NotBelieved("it took too long")
    is_required = metadata.authorization_response_iss_parameter_supported
    if (issuer or is_required) and issuer != attempt.issuer:
        raise NotBelieved("the answer is from another issuer")
    if "error" in answer:
        raise NotBelieved("the provider refused the sign-in")
    return answer.get("code", [""])[0]


class Client:
    """A client for one provider at a time, which caches its metadata and keys. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._metadata: tuple[str, float, Metadata | NotBelieved] | None = None
        self._keys: tuple[str, float, KeySet] | None = None

    def discover(self, issuer: str) -> Metadata:
        """Return the provider's metadata. Raises ``NotBelieved``."""
        with self._lock:
            kept = self._metadata
            if kept is None or kept[0] != issuer or kept[1] < monotonic():
                kept = self._metadata = _discover(issuer)
        if isinstance(kept[2], NotBelieved):
            raise NotBelieved(str(kept[2]))
        return kept[2]

    def finish(self, provider: Provider, attempt: Attempt, code: str, now: datetime) -> Account:
        """Redeem a code, and return the account. Raises ``NotBelieved``."""
        metadata = self.discover(provider.issuer)
        tokens = _redeem(provider, metadata, attempt, code)
        payload = self._verify(metadata, tokens.id_token)
        claims = check_claims(payload, provider, attempt, now)
        if metadata.userinfo_endpoint and tokens.access_token and not _find(claims, provider.roles_claim):
            more = _ask(dict[str, Any], metadata.userinfo_endpoint, token=tokens.access_token)
            if more.get("sub") != claims["sub"]:
                raise NotBelieved("the information is about another subject")
            claims = more | claims
        return read_account(claims, provider)

    def _verify(self, metadata: Metadata, token: str) -> bytes:
        """Return the payload of a signed token. Fetch the keys again if it names an unknown one."""
        from joserfc.errors import InvalidKeyIdError

        # Strangers cannot trigger the second request: the token comes from the provider itself.
        for max_age in (KEPT, 0.0):
            try:
                return _verify(token, self._get_keys(metadata.jwks_uri, max_age))
            except InvalidKeyIdError:
                continue
        raise NotBelieved("the token names an unknown key")

    def _get_keys(self, url: str, max_age: float) -> "KeySet":
        with self._lock:
            if self._keys is None or self._keys[0] != url or self._keys[1] <= monotonic() - max_age:
                self._keys = (url, monotonic(), _read_keys(_ask(_Keys, url)))
            return self._keys[2]


def _discover(issuer: str) -> tuple[str, float, Metadata | NotBelieved]:
    try:
        found = _ask(Metadata, f"{issuer.rstrip('/')}{_WELL_KNOWN}")
        if found.issuer != issuer:
            raise NotBelieved(f"the provider calls itself {found.issuer[:200]!r}")
        for url in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            _require_safe(url)
    except NotBelieved as problem:
        return issuer, monotonic() + FAILED_FOR, problem
    return issuer, monotonic() + KEPT, found


def _require_safe(url: str) -> None:
    try:
        parse_issuer(url.partition("?")[0])
    except ValueError:
        raise NotBelieved("an address of the provider is not https") from None
    if not url.isprintable() or " " in url:
        # The URL is sent in a header.
        raise NotBelieved("an address of the provider cannot be used")


def _redeem(provider: Provider, metadata: Metadata, attempt: Attempt, code: str) -> _Tokens:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier,
    }
    login = None
    if provider.client_secret is None:
        form["client_id"] = provider.client_id
    elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
        # RFC 6749, section 2.3.1
        login = quote_plus(provider.client_id), quote_plus(provider.client_secret)
    else:
        form |= {"client_id": provider.client_id, "client_secret": provider.client_secret}
    return _ask(_Tokens, metadata.token_endpoint, form=form, login=login)


def _ask(
    kind: type[Answer],
    url: str,
    *,
    form: dict[str, str] | None = None,
    login: tuple[str, str] | None = None,
    token: str | None = None,
) -> Answer:
    """Return the provider's answer. No redirects are followed, no proxies of the environment used, and
    nothing is decompressed.
    """
    import httpx

    _require_safe(url)
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    end, body = monotonic() + TIMEOUT, b""
    try:
        with (
            # The system's certificates: a company may have a CA of its own.
            httpx.Client(timeout=TIMEOUT, trust_env=False, verify=_certificates(url)) as client,
            client.stream(
                "GET" if form is None else "POST", url, data=form, headers=headers, auth=login or None
            ) as answer,
        ):
            for part in answer.iter_raw():
                body += part
                if len(body) > MAX_BYTES or monotonic() > end:
                    raise NotBelieved("an answer of the provider is too long, or takes too long")
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, UnicodeError) as problem:
        raise NotBelieved(f"the provider cannot be reached: {type(problem).__name__}") from None
    if answer.status_code != 200:
        raise NotBelieved(f"the provider answers {answer.status_code}")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError):
        raise NotBelieved("an answer of the provider is invalid") from None


def _certificates(url: str) -> ssl.SSLContext:
    is_encrypted = url.startswith("https:")
    return ssl.create_default_context() if is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _read_keys(found: _Keys) -> "KeySet":
    """Return the public keys for signatures; skip other keys, and unreadable ones."""
    import warnings

    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, KeySet

    keys = []
    for one in found.keys[:_MAX_KEYS]:
        if one.get("kty") not in ("RSA", "EC", "OKP") or one.get("use", "sig") != "sig":
            continue
        try:
            with warnings.catch_warnings(action="error"):
                keys.append(JWKRegistry.import_key(one))
        except (JoseError, ValueError, TypeError, Warning):
            continue
    if not keys:
        raise NotBelieved("the provider has no key for signatures")
    return KeySet(keys)


def _verify(token: str, keys: "KeySet") -> bytes:
    """Return the payload of a token that one of these keys has signed. URLs and keys in it are ignored."""
    from joserfc import jws
    from joserfc.errors import InvalidKeyIdError, JoseError

    registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    try:
        found = jws.deserialize_compact(token, keys, registry=registry)
        header = msgspec.convert(found.headers(), _Header)
    except InvalidKeyIdError:
        raise
    except (JoseError, ValueError, TypeError, msgspec.ValidationError) as problem:
        raise NotBelieved(f"the token's signature is invalid: {type(problem).__name__}") from None
    if header.typ.upper() != "JWT":
        raise NotBelieved("the token is of another type")
    return found.payload


def check_claims(payload: bytes, provider: Provider, attempt: Attempt, now: datetime) -> dict[str, Any]:
    """Return the claims of a verified token, if it is for this attempt. Raises ``NotBelieved``."""
    try:
        claims = msgspec.json.decode(payload, type=_Claims)
        everything = msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise NotBelieved("a claim is missing or invalid") from None
    audience = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    second = now.timestamp()
    checks = {
        "the token is from another issuer": claims.iss == provider.issuer == attempt.issuer,
        "the token is for another client": provider.client_id in audience,
        "the token was issued to another client": claims.azp == provider.client_id
        or (claims.azp is None and len(audience) == 1),
        "the token has expired": second < claims.exp + _CLOCKS_APART,
        "the token is not valid yet": max(claims.nbf, claims.iat) <= second + _CLOCKS_APART,
        "the token is old": second - claims.iat < _MAX_AGE + _CLOCKS_APART,
        "the nonce does not match": hmac.compare_digest(claims.nonce.encode(), attempt.nonce.encode()),
        "the subject cannot be used": 0 < len(claims.sub) <= _MAX_TEXT and claims.sub.isprintable(),
        "the mail address is not verified": _is_true(everything.get("email_verified", True)),
    }
    for reason, is_right in checks.items():
        if not is_right:
            raise NotBelieved(reason)
    return everything


def _is_true(value: object) -> bool:
    # Some providers send a string.
    return value in (True, "true")


def read_account(claims: Mapping[str, Any], provider: Provider) -> Account:
    """Return the account with these claims, with a verified address only. Raises ``NotBelieved``."""
    is_verified = claims.get("email_verified")
    if is_verified is not None and not _is_true(is_verified):
        raise NotBelieved("the mail address is not verified")
    email = _text(claims, "email") if is_verified else None
    name = email or _text(claims, "preferred_username") or _text(claims, "name") or claims["sub"]
    return Account(claims["sub"], name, email, _choose_role(_find(claims, provider.roles_claim), provider))


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    is_usable = isinstance(value, str) and value.isprintable() and 0 < len(value.strip()) <= _MAX_TEXT
    return str(value).strip() if is_usable else None


def _find(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts in a claim, whose name may be a path."""
    found: Any = claims.get(name)
    if found is None:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    values = found if isinstance(found, list) else [found]
    return [one for one in values if isinstance(one, str)]


def _choose_role(values: list[str], provider: Provider) -> Role | None:
    """Return the highest role that one of these values grants."""
    return next((Role(role) for role, wanted in provider.roles if set(wanted) & set(values)), None)
