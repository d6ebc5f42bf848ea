"""What is wrong with a call: who makes it, and how it is written."""

from keywright.core.errors.root import KeywrightError


class AccessDenied(KeywrightError):
    """Who is calling is not known, or may not do this."""

    code = "access.denied"


class CredentialsMissing(AccessDenied):
    """The call needs an API key, and has none or half of one."""

    code = "access.credentials_missing"


class CredentialsInvalid(AccessDenied):
    """No API key in force has this consumer key and consumer secret."""

    code = "access.credentials_invalid"


class NoReadPermission(AccessDenied):
    """The API key may not do this."""

    code = "access.no_read_permission"


class NoWritePermission(AccessDenied):
    """The API key may not change anything."""

    code = "access.no_write_permission"


class RateLimited(AccessDenied):
    """Too many unknown license keys, wrong credentials or malformed requests came from this address.

    ``retry_after`` is whole seconds to wait.
    """

    code = "access.rate_limited"

    def __init__(self, retry_after: int) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


class TooManyChanges(RateLimited):
    """Too many activations of this license, or from this address, have succeeded."""

    code = "access.too_many_changes"


class BadRequest(KeywrightError):
    """The request does not name something that can be done."""

    code = "request.bad"


class NoSuchAddress(BadRequest):
    """Nothing exists at this address; a `/` in a key must be written `%2F`."""

    code = "request.no_such_address"


class MethodNotAllowed(BadRequest):
    """The address has other methods, which `Allow` lists.

    ``allowed`` are these methods.
    """

    code = "request.method_not_allowed"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(allowed)
        self.allowed = allowed


class PrefetchRefused(BadRequest):
    """The call is a browser's prefetch, which must not change anything."""

    code = "request.prefetch_refused"


class MalformedRequest(BadRequest):
    """The bytes that came are not well-formed HTTP."""

    code = "request.malformed"


class BodyIncomplete(BadRequest):
    """The caller disconnected before the whole body had come."""

    code = "request.body_incomplete"


class MalformedJson(BadRequest):
    """The content type of the body is JSON, but the body is not JSON."""

    code = "request.malformed_json"


class MalformedForm(BadRequest):
    """The query or the body is not a form, or has over 1,000 fields."""

    code = "request.malformed_form"


class BodyTooLarge(BadRequest):
    """The body is over the limit: 1 MiB, a setting; 64 KiB without an API key that may read or write."""

    code = "request.body_too_large"


class AddressTooLong(BadRequest):
    """Path and query are over 8 KiB."""

    code = "request.address_too_long"


class HeadersTooLarge(BadRequest):
    """The request line and headers are over 32 KiB."""

    code = "request.headers_too_large"


class RequestTooSlow(BadRequest):
    """The request's headers or its body did not arrive within 10 seconds."""

    code = "request.too_slow"


class EncodedBody(BadRequest):
    """The body is compressed."""

    code = "request.encoded_body"
