"""Jobs and their commands."""

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from keywright.core.command import Command, Cost, Query
from keywright.licensing.licenses.model import LicenseCommand
from keywright.provisioning.importers.model import ImportLicenses
from keywright.provisioning.policies.model import GenerateLicenses
from keywright.signing.commands import MakeLicenseFile


class JobState(StrEnum):
    """The state of a job."""

    #: A table was uploaded, but its import is not ordered yet. Workers and lists ignore it.
    DRAFT = "draft"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    #: The user or API key that ordered it is no longer allowed to.
    STOPPED = "stopped"


class Job(msgspec.Struct, frozen=True):
    """Background work in steps. ``done`` of ``total`` items (None if not counted) are processed, of which
    ``refused`` failed. ``position`` is where the next step begins; ``messages`` contains, one per line, why
    the job failed and what it skipped.
    """

    id: int
    kind: str
    state: JobState
    parameters: Mapping[str, Any]
    total: int | None
    done: int
    refused: int
    position: int
    messages: str | None
    created_at: datetime
    created_by: int
    started_at: datetime | None
    finished_at: datetime | None
    claimed_by: str | None
    claimed_until: datetime | None


class StartJob(Command, frozen=True, kw_only=True):
    """Start a job; built by ``orders.start_command``. ``total`` is None if unknown."""

    kind: str
    parameters: Mapping[str, Any]
    total: int | None = None


class ApplyPolicy(Command, frozen=True, kw_only=True):
    """Start a job that copies the named terms of a policy to its licenses; with ``overwrite``, also where
    they were set by hand.
    """

    policy_id: int
    names: tuple[str, ...]
    overwrite: bool = False
    only_product_id: int | None = None


class GetJob(Query, frozen=True, kw_only=True):
    """Get a job; with ``only_product_id``, only if it is for that product."""

    job_id: int
    only_product_id: int | None = None


class StartUpload(Command, frozen=True, kw_only=True):
    """Create a draft for a table to import; earlier drafts of the same user are discarded. ``order`` is the
    import order with what is known so far.
    """

    cost = Cost.ALONE

    order: Mapping[str, Any]


class AddToUpload(Command, frozen=True, kw_only=True):
    """Add parts to a table, keyed by the numbers of their first lines. ``total`` is the number of licenses,
    given once the table is complete.
    """

    cost = Cost.ALONE

    job_id: int
    parts_of_table: tuple[tuple[int, bytes], ...]
    total: int | None = None


class StartImport(Command, frozen=True, kw_only=True):
    """Start the import of an uploaded table."""

    job_id: int
    order: Mapping[str, Any]


class CancelJob(Command, frozen=True, kw_only=True):
    """Stop a job; completed steps are kept."""

    job_id: int


class JobCommand(Command, frozen=True, kw_only=True):
    """A command that only the worker holding the claim on the job may issue."""

    job_id: int
    claimed_by: str


class FailJob(JobCommand, frozen=True, kw_only=True):
    """End a job as failed; ``reason`` is shown to users."""

    reason: str


class JobStep(JobCommand, frozen=True, kw_only=True):
    """The step of a job at ``position``; with ``is_last``, it completes the job."""

    cost = Cost.STEP

    position: int
    is_last: bool


class GenerateStep(JobStep, frozen=True, kw_only=True):
    """Generate some more licenses."""

    generate: GenerateLicenses


class ChangeStep(JobStep, frozen=True, kw_only=True):
    """Change some more licenses, given by ID, up to ``last_id``."""

    changes: tuple[LicenseCommand, ...]
    last_id: int

    @property
    def parts(self) -> Collection[Command]:
        """The changes."""
        return self.changes

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses to change."""
        return [one.license for one in self.changes]


class ExportStep(JobStep, frozen=True, kw_only=True):
    """Store another chunk of a file: ``amount`` licenses, up to ``last_id``."""

    chunk: bytes
    amount: int
    last_id: int


class ImportStep(JobStep, frozen=True, kw_only=True):
    """Import some more licenses of a table. ``rejects`` are the unusable lines of these parts, for
    correction, and ``reasons`` why they are unusable. ``next_position`` is the last part in this step.
    """

    command: ImportLicenses
    reasons: tuple[str, ...]
    rejects: bytes
    next_position: int

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses to import."""
        return self.command.locks


class NotifyCustomers(Command, frozen=True, kw_only=True):
    """Start a job that mails a notice to the customers with an affected device. ``total`` is the number of
    customers, if counted.
    """

    notice_id: int
    total: int | None = None
    only_product_id: int | None = None


class NotifyStep(JobStep, frozen=True, kw_only=True):
    """Mail a notice to the owners of these licenses who have an affected device now, up to ``last_id``."""

    notice_id: int
    license_ids: tuple[int, ...]
    last_id: int


class FilesStep(JobStep, frozen=True, kw_only=True):
    """Make some more license files, grouped by license. ``after_device`` is the device after which the next
    step continues the last license, 0 if that license is complete; ``cut`` are the licenses with more devices
    than the job's file has room for.
    """

    files: tuple[MakeLicenseFile, ...]
    next_position: int
    after_device: int = 0
    cut: tuple[int, ...] = ()

    @property
    def parts(self) -> Collection[Command]:
        """The files."""
        return self.files

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses."""
        return {name for one in self.files for name in one.locks}


class MailFilesStep(JobStep, frozen=True, kw_only=True):
    """Mail license files to some more customers: ``mails`` are pairs of a customer ID and the numbers of
    parts of the job's file. ``unreachable`` counts customers with files but no address.
    """

    mails: tuple[tuple[int, tuple[int, ...]], ...]
    unreachable: int
    next_position: int


class FetchFile(Command, frozen=True, kw_only=True):
    """Record that a user downloads a job's file, which contains license keys."""

    job_id: int


class FetchKeys(Command, frozen=True, kw_only=True):
    """Record that the user who ordered a job downloads the license keys that it generated."""

    job_id: int


class PurgeJobFile(Command, frozen=True, kw_only=True):
    """Delete some chunks of a job's file."""

    job_id: int


class PurgeJobs(Command, frozen=True, kw_only=True):
    """Delete some of the jobs that ended before this moment."""

    before: datetime
