"""Requests to change or to read, as they wait at the desk: everything that is known about one call,
read once at the edge (the clock included), so that deciding needs nothing from outside.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from keywright.model import Claim, LicenseFilter, NameKind, Origin, Permissions, Role


class Retry(msgspec.Struct, frozen=True):
    """The caller may send this call again: ``scope`` names the call (32 bytes), ``request_digest``
    what it asked for, and ``write_answer`` turns an outcome into the status and body to be kept. Without
    ``keeps_refusals``, only a success is kept: a refusal changed nothing, and is decided again.
    """

    scope: bytes
    request_digest: bytes
    write_answer: Callable[[Any], tuple[int, bytes]]
    keeps_refusals: bool = True


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request to change something. ``by`` is the number of the API key or user who asks."""

    now: datetime
    origin: Origin
    by: int | None = None
    retry: Retry | None = None

    @property
    def api_key_id(self) -> int | None:
        """The number of the API key that asks; None for a user of the pages."""
        return None if self.origin.actor.startswith("user:") else self.by


class LicenseCommand(Command, frozen=True, kw_only=True):
    """A request to change the license with this key.

    With ``only_product_id``, licenses of other products do not exist for the caller.
    """

    key: str
    only_product_id: int | None = None


class Activate(LicenseCommand, frozen=True, kw_only=True):
    """Take a new place."""

    label: str | None = None
    meta_data: Mapping[str, str] | None = None


class Reactivate(LicenseCommand, frozen=True, kw_only=True):
    """Take back the place with this token."""

    token: str


class Deactivate(LicenseCommand, frozen=True, kw_only=True):
    """Give up the place with this token."""

    token: str


class DeactivateAll(LicenseCommand, frozen=True, kw_only=True):
    """Give up every place."""


class CreateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Make a license with this key."""

    status: int
    order_id: int | None = None
    product_id: int | None = None
    user_id: int | None = None
    expires_at: datetime | None = None
    valid_for_days: int | None = None
    times_activated_max: int | None = None


class UpdateLicense(LicenseCommand, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``License``."""

    changes: Mapping[str, Any]


class DeleteLicense(LicenseCommand, frozen=True, kw_only=True):
    """Delete the license and its activations."""


class ForgetAnswers(Command, frozen=True, kw_only=True):
    """Delete the answers that were kept for repeated calls before this moment."""

    before: datetime


class ForgetEvents(Command, frozen=True, kw_only=True):
    """Delete some events that happened before this moment (None: none is too old), or find licenses that may
    have too many; with a license, delete some of those that it has too many.
    """

    before: datetime | None = None
    license_id: int | None = None


class CreateGenerator(Command, frozen=True, kw_only=True):
    """Make a generator; ``is_weak_allowed`` lets keys through that could be guessed."""

    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: int | None = None
    separator: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    expires_in_days: int | None = None
    is_weak_allowed: bool = False


class UpdateGenerator(Command, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``Generator``."""

    generator_id: int
    changes: Mapping[str, Any]
    is_weak_allowed: bool = False


class DeleteGenerator(Command, frozen=True, kw_only=True):
    """Delete the generator; its licenses stay."""

    generator_id: int


class GenerateLicenses(Command, frozen=True, kw_only=True):
    """Make ``amount`` licenses with the generator, all or none."""

    generator_id: int
    amount: int
    status: int
    order_id: int | None = None
    product_id: int | None = None
    user_id: int | None = None


class ShowKey(LicenseCommand, frozen=True, kw_only=True):
    """Somebody looks at the whole license key."""


class CreateUser(Command, frozen=True, kw_only=True):
    """Make a user; with ``only_first``, only as long as there is none."""

    name: str
    role: Role
    password_hash: str
    only_first: bool = False


class ChangeUser(Command, frozen=True, kw_only=True):
    """Change what is not None. A new password, and being disabled, end the user's sessions, except that with
    the hash ``but_session``.
    """

    user_id: int
    role: Role | None = None
    is_disabled: bool | None = None
    password_hash: str | None = None
    but_session: bytes | None = None


class StartSession(Command, frozen=True, kw_only=True):
    """Sign a user in. With ``password_hash``, only if that is the user's still. Users who have a second
    factor need a ``code`` of their app, or a recovery code.
    """

    user_id: int
    token_hash: bytes
    password_hash: str | None = None
    code: str | None = None


class EnableSecondFactor(Command, frozen=True, kw_only=True):
    """Let the user have a second factor, whose app shows ``code`` now, and recovery codes with these hashes.
    The session with the hash ``session`` goes on as ``new_session``; the user's others end.
    """

    user_id: int
    secret: str
    code: str
    code_hashes: tuple[bytes, ...]
    session: bytes
    new_session: bytes


class DisableSecondFactor(Command, frozen=True, kw_only=True):
    """Turn the user's second factor off, with a code. Without one, it is somebody else who does that, and the
    user's sessions end; otherwise that with the hash ``session`` goes on as ``new_session``.
    """

    user_id: int
    code: str | None = None
    session: bytes | None = None
    new_session: bytes | None = None


class RenewRecoveryCodes(Command, frozen=True, kw_only=True):
    """Let the user have recovery codes with these hashes instead of those there were."""

    user_id: int
    code: str
    code_hashes: tuple[bytes, ...]


class SeeSession(Command, frozen=True, kw_only=True):
    """Somebody who is signed in has come by."""

    token_hash: bytes


class EndSession(Command, frozen=True, kw_only=True):
    """Sign out."""

    token_hash: bytes


class RefuseSignIn(Command, frozen=True, kw_only=True):
    """Somebody could not sign in under this name."""

    name: str


class SaveName(Command, frozen=True, kw_only=True):
    """Call a number of the vendor's shop by this name; None takes the name away."""

    kind: NameKind
    number: int
    name: str | None


class IssueApiKey(Command, frozen=True, kw_only=True):
    """Make an API key that is known by these hashes; ``access.new_secrets`` makes them."""

    name: str
    permissions: Permissions
    consumer_key_hash: str
    secret_hash: bytes
    hint: str
    product_id: int | None = None


class RevokeApiKey(Command, frozen=True, kw_only=True):
    """End an API key at once and for good."""

    api_key_id: int


class Note(Command, frozen=True, kw_only=True):
    """Write down, as an event of this name, what was done outside the database: a backup was made."""

    name: str
    details: Mapping[str, Any] | None = None


class ExtendLicense(LicenseCommand, frozen=True, kw_only=True):
    """Let the license be good for so many days after its present expiry; or after ``now``."""

    days: int
    is_from_now: bool = False


class RaiseLimit(LicenseCommand, frozen=True, kw_only=True):
    """Allow so many places more."""

    places: int


class ForgetAddresses(Command, frozen=True, kw_only=True):
    """Forget from where these places (the license's number, the token) were taken, if they were given up
    before this moment; and the addresses of some earlier events.
    """

    before: datetime
    places: tuple[tuple[int, str], ...] = ()


class EraseCustomer(Command, frozen=True, kw_only=True):
    """Erase some of what tells of the customer with this number of the vendor's shop."""

    user_id: int


class StartJob(Command, frozen=True, kw_only=True):
    """Have long work done in the background; ``jobs.start`` makes this. ``total`` is None where nobody has
    counted.
    """

    kind: str
    parameters: Mapping[str, Any]
    total: int | None = None


class CancelJob(Command, frozen=True, kw_only=True):
    """Do no more of a job; what is done stays done."""

    job_id: int


class ClaimJob(Command, frozen=True, kw_only=True):
    """Find a job on which the claim is ``over``, and keep others from it for a while."""

    claimed_by: str
    over: tuple[Claim, ...]


class JobCommand(Command, frozen=True, kw_only=True):
    """What only they may say of a job who have claimed it."""

    job_id: int
    claimed_by: str


class HoldJob(JobCommand, frozen=True, kw_only=True):
    """Keep others from the job for another while; or with ``is_over``, let them have it."""

    is_over: bool = False


class FailJob(JobCommand, frozen=True, kw_only=True):
    """Give a job up; ``said`` says why, in plain words."""

    said: str


class JobStep(JobCommand, frozen=True, kw_only=True):
    """What comes next in a job that stands at ``position``; with ``is_last``, it is done then."""

    position: int
    is_last: bool


class GenerateStep(JobStep, frozen=True, kw_only=True):
    """Make some more licenses."""

    generate: GenerateLicenses


class ChangeStep(JobStep, frozen=True, kw_only=True):
    """Change some more licenses, up to ``last_id``: the number of each, and what is asked of it; None where
    there is none.
    """

    changes: tuple[tuple[int, LicenseCommand | None], ...]
    last_id: int


class ExportStep(JobStep, frozen=True, kw_only=True):
    """Keep another piece of a file, which tells of ``amount`` licenses up to ``last_id``."""

    piece: bytes
    amount: int
    last_id: int


class FetchFile(Command, frozen=True, kw_only=True):
    """Somebody takes the file that a job has made, with all the license keys in it."""

    job_id: int


class ForgetPieces(Command, frozen=True, kw_only=True):
    """Delete some of what this job has made."""

    job_id: int


class ForgetJobs(Command, frozen=True, kw_only=True):
    """Delete some of the jobs that ended before this moment."""

    before: datetime


class Follow(Command, frozen=True, kw_only=True):
    """Bring what follows the events nearer to them: at most ``limit`` events are read, or as much of what was
    there before following began.
    """

    limit: int


class Tally(Command, frozen=True, kw_only=True):
    """Keep what was counted since the last time: how many validations there were, which license keys met
    their limit how often, when which API key was last used, and how many calls came through a proxy that is
    not trusted.
    """

    validations: int = 0
    forwarded_blindly: int = 0
    refused: Mapping[str, int] = {}
    used_api_keys: Mapping[int, datetime] = {}


def license_commands(command: Command) -> tuple[LicenseCommand, ...]:
    """What a command asks of single licenses: itself, or what a step of a job is made of."""
    if isinstance(command, LicenseCommand):
        return (command,)
    if isinstance(command, ChangeStep):
        return tuple(one for _, one in command.changes if one is not None)
    return ()


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A request to read."""


class Validate(Query, frozen=True, kw_only=True):
    """Report the license with all its activations, or with the active one that has this token."""

    key: str
    token: str | None = None
    only_product_id: int | None = None


class FindLicenses(Query, frozen=True, kw_only=True):
    """The next ``limit`` matching licenses after this id, oldest first: a list read piece by piece."""

    where: LicenseFilter
    after_id: int
    limit: int


class ListLicenses(Query, frozen=True, kw_only=True):
    """Page ``page`` (from 1) of the matching licenses, oldest first, and how many match."""

    where: LicenseFilter
    page: int
    per_page: int


class GetGenerator(Query, frozen=True, kw_only=True):
    """The generator with this id."""

    generator_id: int


class ListGenerators(Query, frozen=True, kw_only=True):
    """Every generator, oldest first."""


class FindApiKey(Query, frozen=True, kw_only=True):
    """The API key in force with this hashed consumer key, or None."""

    consumer_key_hash: str


class CheckStore(Query, frozen=True, kw_only=True):
    """Whether the database answers."""
