"""How Keywright says no over HTTP: one table from the error to status, code and sentence.

Shipped programs match on these sentences; they are part of the contract (§4).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from keywright.core import errors as e
from keywright.core.parsing import write_time
from keywright.http.v2.wire import encode


class Problem(NamedTuple):
    """A status, a code, and a sentence; ``{e.key}`` and the like are the error's own facts."""

    status: int
    code: str
    sentence: str


#: Another sentence for an error, where an operation says it in its own words.
Sayings = Mapping[type[e.KeywrightError], str]

NO_SAYINGS: Sayings = MappingProxyType({})

_DATA = "lmfwc_rest_data_error"
_AUTHENTICATION = "lmfwc_rest_authentication_error"
_INVALID = "rest_invalid_param"
_NO_ROUTE = "rest_no_route"
_NO_ROUTE_SENTENCE = "No route was found matching the URL and request method."
_INTERNAL = "Something went wrong on our side. The request was not carried out."
_UNAVAILABLE = "The service is not available right now. Please try again."
_FATE_UNKNOWN = "It is not known whether the request was carried out. Please look, or try again."

PROBLEMS: dict[type[e.KeywrightError], Problem] = {
    e.UnknownLicense: Problem(404, _DATA, "License Key: {e.key} could not be found."),
    e.LicenseExpired: Problem(
        404, "lmfwc_rest_license_expired", "The license Key expired on {expires_at} (UTC)."
    ),
    e.LicenseInactive: Problem(404, "lmfwc_rest_license_inactive", "License Key: {e.key} is inactive."),
    e.LicenseDisabled: Problem(404, "lmfwc_rest_license_inactive", "License Key: {e.key} is disabled."),
    e.LimitReached: Problem(404, _DATA, "License Key: {e.key} reached maximum activation count."),
    e.NothingActive: Problem(404, _DATA, "License Key: {e.key} has not been activated yet."),
    e.InvalidLicenseKey: Problem(404, _DATA, "License key is invalid."),
    e.LicenseKeyTaken: Problem(404, _DATA, "This license key already exists."),
    e.InvalidStatus: Problem(404, _DATA, "License Key status is invalid"),
    e.NothingToChange: Problem(404, _DATA, "No parameters were provided."),
    e.FieldNotWritable: Problem(404, _DATA, "The license key could not be updated."),
    e.NoLicenses: Problem(404, _DATA, "No License Keys available"),
    e.UnknownToken: Problem(404, _DATA, "Activation Token: {e.token} could not be found."),
    e.AlreadyActivated: Problem(404, _DATA, "Activation Token: {e.token} is already activated."),
    e.TokenNotActive: Problem(
        404, _DATA, "Activation Token: {e.token} could not be found or is deactivated."
    ),
    e.UnknownGenerator: Problem(404, _DATA, "Generator with ID: {e.generator_id} could not be found."),
    e.NoGenerators: Problem(404, _DATA, "No Generators available"),
    e.GeneratorFieldMissing: Problem(
        404, _DATA, "The Generator {field_in_words} is missing from the request."
    ),
    e.GeneratorFieldInvalid: Problem(404, _DATA, "Generator {e.field} is invalid."),
    e.GeneratorFieldNotInteger: Problem(404, _DATA, "Generator {e.field} must be an absolute integer."),
    e.GeneratorTooWeak: Problem(400, _INVALID, "Invalid parameter(s): charset, chunks, chunk_length"),
    e.InvalidParameters: Problem(400, _INVALID, "Invalid parameter(s): {names}"),
    e.BodyNotAnObject: Problem(400, _INVALID, "Invalid parameter(s): {names}"),
    e.IdempotencyKeyReused: Problem(
        422,
        "idempotency_key_reused",
        "This Idempotency-Key was used before with other parameters. Use a new one.",
    ),
    e.IdempotencyKeyBusy: Problem(
        409,
        "idempotency_key_busy",
        "The first request with this Idempotency-Key is still running. Please try again.",
    ),
    e.CredentialsMissing: Problem(401, _AUTHENTICATION, "Consumer key or secret is missing."),
    e.CredentialsInvalid: Problem(401, _AUTHENTICATION, "Consumer key or secret is invalid."),
    e.NoReadPermission: Problem(401, _AUTHENTICATION, "The API key provided does not have read permissions."),
    e.NoWritePermission: Problem(
        401, _AUTHENTICATION, "The API key provided does not have write permissions."
    ),
    e.RateLimited: Problem(429, "rate_limited", "Too many failed requests. Please try again later."),
    e.TooManyChanges: Problem(
        429, "rate_limited", "Too many activations in a short time. Please try again later."
    ),
    e.NoSuchAddress: Problem(404, _NO_ROUTE, _NO_ROUTE_SENTENCE),
    e.MethodNotAllowed: Problem(405, _NO_ROUTE, _NO_ROUTE_SENTENCE),
    e.PrefetchRefused: Problem(
        403, "rest_forbidden", "A prefetch must not change anything. Send an ordinary request."
    ),
    e.MalformedRequest: Problem(400, "bad_request", "The request is not well-formed HTTP."),
    e.BodyIncomplete: Problem(400, "bad_request", "The request body did not arrive completely."),
    e.MalformedJson: Problem(400, "rest_invalid_json", "Invalid JSON body passed."),
    e.MalformedForm: Problem(400, "rest_invalid_form", "Invalid form body passed."),
    e.BodyTooLarge: Problem(413, "rest_body_too_large", "The request body is too large."),
    e.AddressTooLong: Problem(414, "rest_uri_too_long", "The address is too long."),
    e.EncodedBody: Problem(
        415,
        "rest_unsupported_encoding",
        "Compressed request bodies are not accepted. Send the body as it is.",
    ),
    e.HeadersTooLarge: Problem(431, "rest_headers_too_large", "The request headers are too large."),
    e.RequestTooSlow: Problem(408, "rest_request_timeout", "The request took too long to arrive."),
    e.Fault: Problem(500, "internal_server_error", _INTERNAL),
    e.RejectedByDatabase: Problem(500, "internal_server_error", _INTERNAL),
    e.QueueFull: Problem(503, "service_unavailable", "Too many requests are waiting. Please try again."),
    e.WaitedTooLong: Problem(503, "service_unavailable", _UNAVAILABLE),
    e.ShuttingDown: Problem(503, "service_unavailable", _UNAVAILABLE),
    e.StoreUnavailable: Problem(503, "service_unavailable", _UNAVAILABLE),
    e.SecretMissing: Problem(503, "service_unavailable", _UNAVAILABLE),
    e.TookTooLong: Problem(503, "service_unavailable", _UNAVAILABLE),
    e.StoreBusy: Problem(503, "service_unavailable", _UNAVAILABLE),
    e.StoreConflict: Problem(503, "service_unavailable", _UNAVAILABLE),
    e.LockTimeout: Problem(503, "service_unavailable", _UNAVAILABLE),
    e.FateUnknown: Problem(503, "service_unavailable", _FATE_UNKNOWN),
}

Headers = tuple[tuple[bytes, bytes], ...]

#: What is still to come of such a request is not waited for.
CLOSE = (b"connection", b"close")
_CHALLENGE = (b"www-authenticate", b'Basic realm="Keywright", charset="UTF-8"')


def write(error: e.KeywrightError, sayings: Sayings) -> tuple[int, bytes]:
    """The status and the body that say this error."""
    status, code, sentence = PROBLEMS.get(type(error), PROBLEMS[e.Fault])
    message = sayings.get(type(error), sentence).format(e=error, **_facts(error))
    data: dict[str, Any] = {"status": status}
    if isinstance(error, e.InvalidParameters):
        data["params"] = error.reasons
    data["errors"] = {code: [message]}
    data["error_data"] = {code: {"status": status}}
    return status, encode({"success": False, "code": code, "message": message, "data": data})


def headers(error: e.KeywrightError) -> Headers:
    """The headers that go with this error."""
    match error:
        case e.CredentialsMissing() | e.CredentialsInvalid():
            return (_CHALLENGE,)
        case e.MethodNotAllowed():
            return ((b"allow", ", ".join(error.allowed).encode()),)
        case e.RateLimited() | e.Unavailable():
            return ((b"retry-after", b"%d" % error.retry_after),)
        case e.RequestTooSlow() | e.BodyTooLarge() | e.BodyIncomplete():
            return (CLOSE,)
        case e.IdempotencyKeyBusy():
            return ((b"retry-after", b"1"),)
    return ()


def _facts(error: e.KeywrightError) -> dict[str, str]:
    """Facts of the error that a sentence writes in another form."""
    match error:
        case e.LicenseExpired():
            return {"expires_at": write_time(error.expires_at)}
        case e.InvalidParameters():
            return {"names": ", ".join(error.reasons)}
        case e.GeneratorFieldMissing():
            return {"field_in_words": error.field.replace("_", " ")}
    return {}
