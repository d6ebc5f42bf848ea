"""Refusals about users, sessions, API keys, jobs, signing keys and notices."""

from typing import Any, ClassVar

from keywright.core.errors.root import FieldError, Refusal
from keywright.core.errors.terms import InvalidTerms


class UserExists(Refusal):
    """A user with this name already exists."""

    code = "user.exists"
    problem = "already_exists"
    problem_detail = "There is already a user with this name."
    sentence = "There is already a user with this name."
    hint = "there is already a user with this name. Choose another name."
    v2 = None


class UnknownUser(Refusal):
    """No user has this name or ID, or the user may not sign in."""

    code = "user.unknown"
    problem = "not_found"
    problem_detail = "There is no such user."
    status = 404
    sentence = "There is no such user."
    hint = "there is no user with this name. `keywright user list` lists all users."
    v2 = None


class LastAdministrator(Refusal):
    """No administrator would remain."""

    code = "user.last_administrator"
    sentence = "No other administrator has a password. Make another user an administrator first."
    hint = "no administrator with a password would be left. Make another administrator first."
    v2 = None


class InvitationOver(Refusal):
    """The invitation link was used, is too old, or was replaced by another one."""

    code = "user.invitation_over"
    status = 403
    heading = "This link is no longer valid"
    sentence = "An invitation link works once and expires after three days. Ask for a new one."
    v2 = None


class CustomerSignInOver(Refusal):
    """The code or link with which a customer signs in is wrong, was used, or is too old."""

    code = "customer.sign_in_over"
    status = 403
    sentence = "This code or link is wrong or no longer valid."
    v2 = None


class PublicUrlMissing(Refusal):
    """A link that contains a secret would begin with an address from the request, which can be forged."""

    code = "link.public_url_missing"
    problem = "not_permitted"
    problem_detail = "Links need the setting public_url, the address at which browsers reach this server."
    status = 403
    sentence = (
        "Links need the setting public_url, the address at which browsers reach this server. Without it, "
        "they can be created only on this machine."
    )
    v2 = None


class TooManyViews(Refusal):
    """The user has the maximum number of saved views."""

    code = "user.too_many_views"
    sentence = "You can save at most {most} views. Delete one first."
    v2 = None
    example = (20,)

    most: int


class SetupOver(Refusal):
    """The first administrator already exists."""

    code = "user.setup_over"
    sentence = "The first administrator has already been created. Sign in instead."
    hint = (
        "there are users already, so there is no setup link any more. `keywright user create` creates "
        "another user."
    )
    v2 = None


class UnknownApiKey(Refusal):
    """No valid API key has this ID."""

    code = "api_key.unknown"
    problem = "not_found"
    problem_detail = "No valid API key has this ID."
    status = 404
    sentence = "No valid API key has this ID."
    hint = "no valid API key has this ID. `keywright apikey list` lists the API keys."
    v2 = None


class UnknownJob(Refusal):
    """No job has this ID."""

    code = "job.unknown"
    problem = "not_found"
    problem_detail = "There is no job {job_id}."
    status = 404
    sentence = "There is no such job."
    v2 = None
    example = (7,)

    job_id: int


class JobOver(Refusal):
    """The job has already ended."""

    code = "job.over"
    sentence = "The job has already ended."
    v2 = None


class JobRunning(Refusal):
    """The job has not ended yet."""

    code = "job.running"
    sentence = "The job is still running. Wait for it to end, or cancel it."
    v2 = None


class JobTakenBack(Refusal):
    """The job was undone before, or changed nothing that could be undone."""

    code = "job.taken_back"
    sentence = "There is nothing to undo: this job changed nothing, or was undone before."
    v2 = None


class KeysNotForYou(Refusal):
    """The job was started by another user."""

    code = "job.keys_not_for_you"
    status = 403
    sentence = "Only the user who started the job can download the keys that it made."
    v2 = None


class KeysFetched(Refusal):
    """The keys were downloaded before."""

    code = "job.keys_fetched"
    sentence = (
        "The keys were already downloaded, which is possible only once. Export the licenses of the job "
        "instead."
    )
    v2 = None


class TooManyJobs(Refusal):
    """The maximum number of jobs are waiting."""

    code = "job.too_many"
    problem = "busy"
    problem_detail = "Too many jobs are waiting."
    sentence = "Too many jobs are waiting. Wait for some of them to end."
    v2 = None


class StepOver(Refusal):
    """The step is done or belongs to another process: the job has ended, moved on, or was claimed again."""

    code = "job.step_over"
    sentence = "The job has already moved on."
    v2 = None


class FileGone(Refusal):
    """The job created no file, or the file was deleted."""

    code = "job.file_gone"
    status = 404
    sentence = "The job has no file, or it was deleted."
    v2 = None


_EXAMPLE_KID = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


class OfflineNotAllowed(Refusal):
    """The license's terms do not allow answers to be stored, so there is no license file."""

    code = "license.offline_not_allowed"
    problem = "offline_not_allowed"
    sentence = (
        "The license's terms do not allow offline use: they have no days offline, or limit the use by "
        "leases alone."
    )
    hint = (
        "the license's terms do not allow offline use. Change that with --offline-days, or with --max "
        "for a floating license."
    )
    v2 = None


class SigningKeyRefusal(Refusal):
    """A refusal that concerns one signing key, by its ``kid``."""

    example: ClassVar[tuple[Any, ...]] = (_EXAMPLE_KID,)

    kid: str


class UnknownSigningKey(SigningKeyRefusal):
    """No signing key has this ``kid``."""

    code = "signing_key.unknown"
    problem = "not_found"
    problem_detail = "There is no such signing key."
    status = 404
    sentence = "There is no such signing key."
    hint = "there is no signing key {kid}. `keywright signing-key show` lists them."
    v2 = None


class SigningKeyInUse(SigningKeyRefusal):
    """The key signs all answers now; it can be withdrawn after it has been replaced."""

    code = "signing_key.in_use"
    problem = "still_in_use"
    problem_detail = "This is the current signing key."
    sentence = "This is the current signing key. Create a new one first."
    hint = "this is the current signing key. Run `keywright signing-key rotate` first."
    v2 = None


class InvalidNotice(InvalidTerms):
    """A notice has values that its product does not allow, or is in the wrong state for this."""

    code = "notice.invalid"
    problem_detail = "Invalid notice: {errors_in_words}."
    example: ClassVar[tuple[Any, ...]] = (
        (FieldError("/fixed_in", "invalid", "must not be affected itself"),),
    )
