"""What is wrong with a call: who makes it, and how it is written."""

from keywright.core.errors.root import KeywrightError


class AccessDenied(KeywrightError):
    """Who is calling is not known, or may not do this."""

    code = "access.denied"


class CredentialsMissing(AccessDenied):
    """The call needs an API key and came without one, or with half of one."""

    code = "access.credentials_missing"


class CredentialsInvalid(AccessDenied):
    """No API key in force has this consumer key and consumer secret."""

    code = "access.credentials_invalid"


class NoReadPermission(AccessDenied):
    """The API key may not read."""

    code = "access.no_read_permission"


class NoWritePermission(AccessDenied):
    """The API key may not write."""

    code = "access.no_write_permission"


class RateLimited(AccessDenied):
    """Too many calls of a kind came from here; ``retry_after`` is whole seconds to wait."""

    code = "access.rate_limited"

    def __init__(self, retry_after: int) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


class TooManyChanges(RateLimited):
    """Too many places were taken, on this license or from this address."""

    code = "access.too_many_changes"


class BadRequest(KeywrightError):
    """The request does not name something that can be done."""

    code = "request.bad"


class NoSuchAddress(BadRequest):
    """Nothing lives at this address."""

    code = "request.no_such_address"


class MethodNotAllowed(BadRequest):
    """The address exists, the method does not; ``allowed`` lists those that do."""

    code = "request.method_not_allowed"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(allowed)
        self.allowed = allowed


class PrefetchRefused(BadRequest):
    """A prefetch must not change anything."""

    code = "request.prefetch_refused"


class MalformedRequest(BadRequest):
    """The bytes that came are not a well-formed HTTP request."""

    code = "request.malformed"


class BodyIncomplete(BadRequest):
    """The caller went away before the whole body had come."""

    code = "request.body_incomplete"


class MalformedJson(BadRequest):
    """The body announces JSON and is not."""

    code = "request.malformed_json"


class MalformedForm(BadRequest):
    """The body announces a form and is not."""

    code = "request.malformed_form"


class BodyTooLarge(BadRequest):
    """The body is larger than the limit."""

    code = "request.body_too_large"


class AddressTooLong(BadRequest):
    """Path and query are longer than the limit."""

    code = "request.address_too_long"


class HeadersTooLarge(BadRequest):
    """The request's headers are larger than the limit."""

    code = "request.headers_too_large"


class RequestTooSlow(BadRequest):
    """The request's headers did not arrive in time."""

    code = "request.too_slow"


class EncodedBody(BadRequest):
    """The body is compressed; bodies are taken as they are."""

    code = "request.encoded_body"
