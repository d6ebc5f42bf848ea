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


class BodyNotAnObject(InvalidParameters):
    """The body is JSON and no object, so that what it says has no name."""

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
