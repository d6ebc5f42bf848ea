"""Errors about calls and their parameters."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from keywright.core.errors.root import V2, KeywrightError, Refusal

_AUTHENTICATION = "lmfwc_rest_authentication_error"
_NO_ROUTE = ("rest_no_route", "No route was found matching the URL and request method.")
_NOT_ALLOWED = "Your role does not allow this"


class AccessDenied(KeywrightError):
    """The caller is unknown, or is not allowed to do this."""

    code = "access.denied"
    problem = "not_permitted"
    status = 403
    sentence = "You may not do this."


class CredentialsMissing(AccessDenied):
    """The call requires an API key, but has none, or only half of one."""

    code = "access.credentials_missing"
    problem = "credentials_missing"
    sentence = "Name and password are required."
    v2 = V2(401, _AUTHENTICATION, "Consumer key or secret is missing.")


class CredentialsInvalid(AccessDenied):
    """No valid API key has this consumer key and consumer secret."""

    code = "access.credentials_invalid"
    problem = "credentials_invalid"
    sentence = "The name or the password is wrong."
    v2 = V2(401, _AUTHENTICATION, "Consumer key or secret is invalid.")


class NoReadPermission(AccessDenied):
    """The API key does not have the permission for this."""

    code = "access.no_read_permission"
    problem = "not_permitted"
    problem_detail = "The API key may not read."
    heading = _NOT_ALLOWED
    sentence = "You may not view this."
    v2 = V2(401, _AUTHENTICATION, "The API key provided does not have read permissions.")


class NoWritePermission(AccessDenied):
    """The API key does not have the permission to change anything."""

    code = "access.no_write_permission"
    problem = "not_permitted"
    problem_detail = "The API key may not change anything."
    heading = _NOT_ALLOWED
    sentence = "You may view this, but not change it."
    v2 = V2(401, _AUTHENTICATION, "The API key provided does not have write permissions.")


class RateLimited(AccessDenied):
    """Too many unknown license keys, wrong credentials or malformed requests came from this address.

    ``retry_after`` is in whole seconds.
    """

    code = "access.rate_limited"
    problem = "too_many_requests"
    problem_detail = "Too many failed requests. Wait {seconds}."
    status = 429
    sentence = "Too many attempts failed. Please wait {seconds}."
    v2 = V2(429, "rate_limited", "Too many failed requests. Please try again later.")
    example = (12,)

    retry_after: int

    def facts(self) -> dict[str, Any]:
        """Add ``seconds``, a number with its unit."""
        noun = "second" if self.retry_after == 1 else "seconds"
        return super().facts() | {"seconds": f"{self.retry_after:,} {noun}"}


class TooManyOffers(RateLimited, Refusal):
    """The customer has reached the limit of licenses offered to others in one day."""

    code = "license.too_many_offers"
    problem_detail = "A customer may offer 3 licenses in a day. Wait {seconds}."
    sentence = "A customer may offer 3 licenses in a day. Please wait {seconds}."


class TooManyChanges(RateLimited):
    """Too many activations of this license, or from this address, succeeded."""

    code = "access.too_many_changes"
    problem = "too_many_requests"
    problem_detail = "Too many activations in a short time. Wait {seconds}."
    v2 = V2(429, "rate_limited", "Too many activations in a short time. Please try again later.")


class TooManyWaiting(RateLimited):
    """Too many calls with this API key are waiting for events."""

    code = "access.too_many_waiting"
    problem = "too_many_requests"
    problem_detail = "Too many calls with this API key are waiting for events. Try again in {seconds}."


class TooManyTrials(RateLimited):
    """Too many trials were started from this address."""

    code = "access.too_many_trials"
    problem = "too_many_requests"
    problem_detail = "Too many trials were started from this address. Wait {seconds}."


class TooManyKeptAnswers(RateLimited):
    """Too many calls with an idempotency key came from this address."""

    code = "access.too_many_kept_answers"
    problem = "too_many_requests"
    problem_detail = "Too many calls with an idempotency key in a short time. Wait {seconds}."
    v2 = V2(429, "rate_limited", "Too many calls with an idempotency key. Please try again later.")


class BadRequest(KeywrightError):
    """The request does not ask for anything that exists."""

    code = "request.bad"
    problem = "malformed_body"
    status = 400
    sentence = "The request cannot be understood."


class BadBody(BadRequest):
    """The body cannot be read."""


class NoSuchAddress(BadRequest):
    """Nothing exists at this address; a `/` in a key must be written as `%2F`."""

    code = "request.no_such_address"
    problem = "not_found"
    status = 404
    heading = "There is no such page"
    sentence = "The address may be outdated or mistyped."
    v2 = V2(404, *_NO_ROUTE)


class MethodNotAllowed(BadRequest):
    """The address does not support this method; `Allow` lists those that it supports.

    ``allowed`` are these methods.
    """

    code = "request.method_not_allowed"
    problem = "method_not_allowed"
    problem_detail = "The address supports only {methods}."
    status = 405
    sentence = "The page does not support this kind of request."
    v2 = V2(405, *_NO_ROUTE)
    example = (("GET", "POST", "OPTIONS"),)

    allowed: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """Add ``methods``, the allowed ones, separated by commas."""
        return super().facts() | {"methods": ", ".join(self.allowed)}


class PrefetchRefused(BadRequest):
    """The request is a browser's prefetch, which must not change anything."""

    code = "request.prefetch_refused"
    problem = "not_permitted"
    problem_detail = "A prefetch must not change anything."
    status = 403
    sentence = "A prefetch must not change anything."
    v2 = V2(403, "rest_forbidden", "A prefetch must not change anything. Send an ordinary request.")


class MalformedRequest(BadRequest):
    """The request is not well-formed HTTP."""

    code = "request.malformed"
    sentence = "The request is not well-formed HTTP."
    v2 = V2(400, "bad_request", "The request is not well-formed HTTP.")


class BodyIncomplete(BadBody):
    """The caller disconnected before the whole body had arrived."""

    code = "request.body_incomplete"
    problem = "malformed_body"
    problem_detail = "The body did not arrive completely."
    sentence = "The request did not arrive completely. Please send it again."
    v2 = V2(400, "bad_request", "The request body did not arrive completely.")


class MalformedJson(BadBody):
    """The body is declared as JSON, but is not valid JSON."""

    code = "request.malformed_json"
    sentence = "The request is not valid JSON."
    v2 = V2(400, "rest_invalid_json", "Invalid JSON body passed.")


class MalformedForm(BadRequest):
    """The query or the body is not a valid form, or has more than 1,000 fields."""

    code = "request.malformed_form"
    sentence = "The form is malformed, or has too many fields."
    v2 = V2(400, "rest_invalid_form", "Invalid form body passed.")


class BodyTooLarge(BadBody):
    """The body exceeds the limit: 1 MiB (a setting), or 64 KiB without an API key that may read or write."""

    code = "request.body_too_large"
    problem = "body_too_large"
    status = 413
    sentence = "The request is too large."
    v2 = V2(413, "rest_body_too_large", "The request body is too large.")


class AddressTooLong(BadRequest):
    """Path and query are longer than 8 KiB."""

    code = "request.address_too_long"
    problem = "invalid_parameter"
    problem_detail = "Path and query are longer than 8 KiB."
    status = 414
    sentence = "The address is too long."
    v2 = V2(414, "rest_uri_too_long", "The address is too long.")


class EncodedBody(BadBody):
    """The body is compressed."""

    code = "request.encoded_body"
    problem = "unsupported_media_type"
    problem_detail = "The body must not be compressed."
    status = 415
    sentence = "Compressed forms are not accepted."
    v2 = V2(
        415,
        "rest_unsupported_encoding",
        "Compressed request bodies are not accepted. Send the body as it is.",
    )


class HeadersTooLarge(BadRequest):
    """The request line and headers are larger than 32 KiB."""

    code = "request.headers_too_large"
    status = 431
    sentence = "The request's headers are too large."
    v2 = V2(431, "rest_headers_too_large", "The request headers are too large.")


class RequestTooSlow(BadRequest):
    """The headers or the body of the request did not arrive within 10 seconds."""

    code = "request.too_slow"
    problem = "malformed_body"
    problem_detail = "The body took more than 10 seconds to arrive."
    status = 408
    sentence = "The request took too long to arrive. Please send it again."
    v2 = V2(408, "rest_request_timeout", "The request took too long to arrive.")


class InvalidParameters(Refusal):
    """A parameter has the wrong type or size; `data.params` gives the reason.

    ``reasons`` are the reasons by parameter.
    """

    code = "parameter.invalid"
    problem = "invalid"
    problem_detail = "Invalid body: {reasons_by_name}."
    status = 422
    sentence = "Please correct these: {reasons_in_words}."
    hint = "{reasons_by_name}."
    v2 = V2(400, "rest_invalid_param", "Invalid parameter(s): {names}")
    example: ClassVar[tuple[Any, ...]] = (
        {"label": "must be a text of at most 255 characters, without null characters"},
    )

    reasons: Mapping[str, str]

    def facts(self) -> dict[str, Any]:
        """The reasons as strings; in ``reasons_in_words``, names have spaces."""
        pairs = self.reasons.items()
        return super().facts() | {
            "names": ", ".join(self.reasons),
            "reasons_by_name": "; ".join(f"{name}: {reason}" for name, reason in pairs),
            "reasons_in_words": "; ".join(f"{name.replace('_', ' ')} {reason}" for name, reason in pairs),
        }


class BodyNotAnObject(InvalidParameters):
    """The body is JSON, but neither an object nor `[]` or `null`."""

    code = "parameter.body_not_an_object"
    example = ()
    reasons: Mapping[str, str] = MappingProxyType({"body": "must be a JSON object"})


class IdempotencyKeyReused(Refusal):
    """The idempotency key was used before with other parameters."""

    code = "idempotency.key_reused"
    problem = "idempotency_key_reused"
    sentence = "This was already sent with other values."
    v2 = V2(
        422,
        "idempotency_key_reused",
        "This Idempotency-Key was used before with other parameters. Use a new one.",
    )


class IdempotencyKeyBusy(Refusal):
    """The first call with this idempotency key is still running."""

    code = "idempotency.key_busy"
    problem = "idempotency_key_in_use"
    heading = "Please try again in a moment"
    sentence = "This was already sent and is being processed."
    v2 = V2(
        409,
        "idempotency_key_busy",
        "The first request with this Idempotency-Key is still running. Please try again.",
    )


class CredentialsElsewhere(BadRequest):
    """The client would send the ``Authorization`` header of this download to the vendor's own server."""

    code = "request.credentials_elsewhere"
    sentence = (
        "Repeat the request without Authorization: the file is on another server, which must not receive it."
    )
    v2 = None
    problem = "malformed_body"
    problem_detail = sentence
