"""Every way Keywright can say no, as one tree.

A refusal carries the facts of the case (which key, which token, which field), never a sentence for a
particular interface and never a status code. ``code`` is stable and may be logged, counted and matched.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar


class KeywrightError(Exception):
    """The root: everything that Keywright raises on purpose."""

    code: ClassVar[str] = "error"


class Refusal(KeywrightError):
    """The command was understood and declined; nothing was changed by it."""

    code = "refused"


class LicenseRefusal(Refusal):
    """A refusal about one license key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class UnknownLicense(LicenseRefusal):
    """No license has this key (or the caller may not know that one has)."""

    code = "license.unknown"


class LicenseExpired(Refusal):
    """The license was good up to, not including, ``expires_at``."""

    code = "license.expired"

    def __init__(self, expires_at: datetime) -> None:
        super().__init__(expires_at)
        self.expires_at = expires_at


class LicenseInactive(LicenseRefusal):
    """The license's status is inactive."""

    code = "license.inactive"


class LicenseDisabled(LicenseRefusal):
    """The license's status is disabled."""

    code = "license.disabled"


class LimitReached(LicenseRefusal):
    """Every place of the license is taken."""

    code = "license.limit_reached"


class NothingActive(LicenseRefusal):
    """There is no active record to deactivate."""

    code = "license.nothing_active"


class InvalidLicenseKey(Refusal):
    """The text cannot be a license key: empty, over 255 characters, or with control characters."""

    code = "license.key_invalid"


class LicenseKeyTaken(Refusal):
    """Another license has this key already."""

    code = "license.key_taken"


class InvalidStatus(Refusal):
    """Not the name or number of a license status."""

    code = "license.status_invalid"


class NothingToChange(Refusal):
    """A change was asked for without saying what to change."""

    code = "license.nothing_to_change"


class FieldRefusal(Refusal):
    """A refusal about one field, by its name."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


class FieldNotWritable(FieldRefusal):
    """A field of the change is unknown or may not be written."""

    code = "license.field_not_writable"


class NoLicenses(Refusal):
    """The list is empty."""

    code = "license.none"


class TokenRefusal(Refusal):
    """A refusal about one activation token."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token


class UnknownToken(TokenRefusal):
    """This license has no activation with this token."""

    code = "activation.unknown"


class AlreadyActivated(TokenRefusal):
    """The activation is active; it cannot be reactivated."""

    code = "activation.already_active"


class TokenNotActive(TokenRefusal):
    """This license has no activation with this token, or it is deactivated."""

    code = "activation.not_active"


class UnknownGenerator(Refusal):
    """There is no generator with this id."""

    code = "generator.unknown"

    def __init__(self, generator_id: int | str) -> None:
        super().__init__(generator_id)
        self.generator_id = generator_id


class NoGenerators(Refusal):
    """The list is empty."""

    code = "generator.none"


class GeneratorFieldMissing(FieldRefusal):
    """A generator cannot be made without this field."""

    code = "generator.field_missing"


class GeneratorFieldInvalid(FieldRefusal):
    """This field of a generator has an impossible value."""

    code = "generator.field_invalid"


class GeneratorFieldNotInteger(GeneratorFieldInvalid):
    """This field of a generator must be a whole number."""

    code = "generator.field_not_integer"


class GeneratorTooWeak(Refusal):
    """The generator's keys could be guessed: under 64 bits of entropy, and not forced."""

    code = "generator.too_weak"

    def __init__(self, bits: float) -> None:
        super().__init__(bits)
        self.bits = bits


class InvalidParameters(Refusal):
    """Parameters of the wrong type or size: ``reasons`` says for each name what is wrong with it."""

    code = "parameter.invalid"

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(dict(reasons))
        self.reasons = dict(reasons)


class IdempotencyKeyReused(Refusal):
    """The idempotency key was used before, with other parameters."""

    code = "idempotency.key_reused"


class IdempotencyKeyBusy(Refusal):
    """The first call with this idempotency key is still running."""

    code = "idempotency.key_busy"


class UserExists(Refusal):
    """There is a user of this name already."""

    code = "user.exists"


class UnknownApiKey(Refusal):
    """There is no API key with this id that is still in force."""

    code = "api_key.unknown"


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
    """Too many failures from here; ``retry_after`` is whole seconds to wait."""

    code = "access.rate_limited"

    def __init__(self, retry_after: int) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


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


class Fault(KeywrightError):
    """Something is wrong on our side."""

    code = "fault.internal"


class Unavailable(Fault):
    """Cannot be answered now; asking again in ``retry_after`` whole seconds may succeed."""

    code = "fault.unavailable"
    retry_after: ClassVar[int] = 1


class QueueFull(Unavailable):
    """More callers are waiting than the desk takes."""

    code = "fault.queue_full"


class ShuttingDown(Unavailable):
    """The desk is closed; what it had accepted is being finished."""

    code = "fault.shutting_down"


class StoreUnavailable(Unavailable):
    """The database cannot be reached or refuses to write; nothing was acknowledged."""

    code = "fault.store_unavailable"


class StoreBusy(Unavailable):
    """Another process is writing; the lock was not free at once."""

    code = "fault.store_busy"


class StoreConflict(Unavailable):
    """The database undid the transaction because of another one, or because the connection broke; nothing
    was changed, and running it again may succeed.
    """

    code = "fault.store_conflict"


class LockTimeout(StoreConflict):
    """Another transaction holds what this one needs, and has not let go of it; nothing was changed."""

    code = "fault.lock_timeout"


class FateUnknown(Unavailable):
    """The connection broke while the change was being made durable: it may have happened or not."""

    code = "fault.fate_unknown"


class RejectedByDatabase(Fault):
    """The database itself turned a write down; the whole transaction is undone."""

    code = "fault.rejected_by_database"


class ConfigurationError(KeywrightError):
    """The settings or the data directory cannot be used; the text says what to do."""

    code = "configuration"


class StoreError(KeywrightError):
    """The database is not one that this version can use; the text says what to do."""

    code = "store"


class WorkerFailed(KeywrightError):
    """A server process ended before it was ready; the log says why."""

    code = "worker"
