"""What was understood and declined: commands, by the rules and by what is there."""

from collections.abc import Mapping
from datetime import datetime

from keywright.core.errors.root import KeywrightError


class Refusal(KeywrightError):
    """The command was understood and declined; nothing was changed by it."""

    code = "refused"


class LicenseRefusal(Refusal):
    """A refusal about one license key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class UnknownLicense(LicenseRefusal):
    """No license has this key, or the caller may not see it."""

    code = "license.unknown"


class LicenseExpired(Refusal):
    """The license has expired.

    It was valid up to, not including, ``expires_at``.
    """

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
    """The license has no active activation."""

    code = "license.nothing_active"


class InvalidLicenseKey(Refusal):
    """The key is missing, empty or over 255 characters, or has control characters."""

    code = "license.key_invalid"


class LicenseKeyTaken(Refusal):
    """Another license has this key."""

    code = "license.key_taken"


class InvalidStatus(Refusal):
    """The status is neither the name nor the number of a status."""

    code = "license.status_invalid"


class NothingToChange(Refusal):
    """The call has no field to change."""

    code = "license.nothing_to_change"


class FieldRefusal(Refusal):
    """A refusal about one field, by its name."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


class FieldNotWritable(FieldRefusal):
    """A field is unknown or read-only; nothing was changed."""

    code = "license.field_not_writable"


class NoLicenses(Refusal):
    """No license matches."""

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
    """The activation is already active."""

    code = "activation.already_active"


class TokenNotActive(TokenRefusal):
    """This license has no activation with this token, or it is deactivated."""

    code = "activation.not_active"


class UnknownGenerator(Refusal):
    """No generator has this number."""

    code = "generator.unknown"

    def __init__(self, generator_id: int | str) -> None:
        super().__init__(generator_id)
        self.generator_id = generator_id


class NoGenerators(Refusal):
    """There are no generators."""

    code = "generator.none"


class GeneratorFieldMissing(FieldRefusal):
    """A new generator needs this field."""

    code = "generator.field_missing"


class GeneratorFieldInvalid(FieldRefusal):
    """The text is empty or too long."""

    code = "generator.field_invalid"


class GeneratorFieldNotInteger(GeneratorFieldInvalid):
    """The value is not an integer, or out of range."""

    code = "generator.field_not_integer"


class GeneratorTooWeak(Refusal):
    """The generator's keys could be guessed: they have under 64 bits of entropy.

    The caller may allow such keys.
    """

    code = "generator.too_weak"

    def __init__(self, bits: float) -> None:
        super().__init__(bits)
        self.bits = bits


class InvalidParameters(Refusal):
    """A parameter has the wrong type or size; `data.params` gives the reason.

    ``reasons`` are these reasons, by parameter.
    """

    code = "parameter.invalid"

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(dict(reasons))
        self.reasons = dict(reasons)


class BodyNotAnObject(InvalidParameters):
    """The body is JSON, but neither an object nor `[]` or `null`."""

    code = "parameter.body_not_an_object"

    def __init__(self) -> None:
        super().__init__({"body": "must be a JSON object"})


class IdempotencyKeyReused(Refusal):
    """The idempotency key was used before, with other parameters."""

    code = "idempotency.key_reused"


class IdempotencyKeyBusy(Refusal):
    """The first call with this idempotency key is still running."""

    code = "idempotency.key_busy"


class UserExists(Refusal):
    """There is a user of this name already."""

    code = "user.exists"


class UnknownUser(Refusal):
    """There is no user with this name or number, or none who may sign in."""

    code = "user.unknown"


class LastAdministrator(Refusal):
    """Nobody would be left who may administer."""

    code = "user.last_administrator"


class SetupOver(Refusal):
    """The first administrator is made already."""

    code = "user.setup_over"


class UnknownApiKey(Refusal):
    """There is no API key with this id that is still in force."""

    code = "api_key.unknown"


class NeverExpires(LicenseRefusal):
    """The license has no expiry that could be put off."""

    code = "license.never_expires"


class ExpiresLater(LicenseRefusal):
    """The license is good for longer than that already."""

    code = "license.expires_later"


class NoLimit(LicenseRefusal):
    """The license has no limit that could be raised."""

    code = "license.no_limit"


class UnknownJob(Refusal):
    """There is no job with this id."""

    code = "job.unknown"

    def __init__(self, job_id: int) -> None:
        super().__init__(job_id)
        self.job_id = job_id


class JobOver(Refusal):
    """The job has ended."""

    code = "job.over"


class TooManyJobs(Refusal):
    """So many jobs are waiting that no more are taken."""

    code = "job.too_many"


class StepOver(Refusal):
    """The step is done, or is somebody else's to do: the job has ended, or moved on, or was claimed anew."""

    code = "job.step_over"


class FileGone(Refusal):
    """The job has made no file, or the file has been forgotten."""

    code = "job.file_gone"
