"""Jobs, and the commands about them."""

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

    #: A table was uploaded, and its import is not ordered yet. No worker sees it, and no list.
    DRAFT = "draft"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    #: The user who ordered it may no longer do that.
    STOPPED = "stopped"


class Job(msgspec.Struct, frozen=True):
    """Long work in steps: ``done`` of ``total`` (None if it was not counted), ``refused`` of which met a
    refusal; ``position`` is where the next step begins, ``messages`` states, line by line, why it failed and
    what it skipped.
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
    """Start a job; ``orders.start_command`` makes this. ``total`` is None if unknown."""

    kind: str
    parameters: Mapping[str, Any]
    total: int | None = None


class ApplyPolicy(Command, frozen=True, kw_only=True):
    """Start a job that gives the licenses of a policy these members of its terms; with ``overwrite``, also
    where they were set by hand.
    """

    policy_id: int
    names: tuple[str, ...]
    overwrite: bool = False
    only_product_id: int | None = None


class GetJob(Query, frozen=True, kw_only=True):
    """The job with this id; with ``only_product_id``, of those for that product."""

    job_id: int
    only_product_id: int | None = None


class StartUpload(Command, frozen=True, kw_only=True):
    """Keep a table for an import, as a draft; earlier drafts of the same user are over. ``order`` is that of
    an import as far as it is known.
    """

    cost = Cost.ALONE

    order: Mapping[str, Any]


class AddToUpload(Command, frozen=True, kw_only=True):
    """Add parts to a table, by the number of their first lines; ``total`` are the licenses of a table that is
    complete.
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
    """Stop a job; the steps that were done stay done."""

    job_id: int


class JobCommand(Command, frozen=True, kw_only=True):
    """A command that only the worker that has claimed the job may give."""

    job_id: int
    claimed_by: str


class FailJob(JobCommand, frozen=True, kw_only=True):
    """End a job as failed; ``reason`` is shown to users."""

    reason: str


class JobStep(JobCommand, frozen=True, kw_only=True):
    """The next step of a job at ``position``; with ``is_last``, the job is then done."""

    cost = Cost.STEP

    position: int
    is_last: bool


class GenerateStep(JobStep, frozen=True, kw_only=True):
    """Generate some more licenses."""

    generate: GenerateLicenses


class ChangeStep(JobStep, frozen=True, kw_only=True):
    """Change some more licenses, given by id, up to ``last_id``."""

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
    """Store another chunk of a file, with ``amount`` licenses up to ``last_id``."""

    chunk: bytes
    amount: int
    last_id: int


class ImportStep(JobStep, frozen=True, kw_only=True):
    """Import some more licenses of a table; ``reasons`` are why others of these lines cannot be used, and
    ``rejects`` are those lines, to be mended. ``next_position`` is the last part of the table in this step.
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
    """Start a job that mails a notice to the customers with an affected device. ``total`` is their number, if
    they were counted.
    """

    notice_id: int
    total: int | None = None
    only_product_id: int | None = None


class NotifyStep(JobStep, frozen=True, kw_only=True):
    """Mail a notice to the owners of these licenses, up to ``last_id``, who have an affected device now."""

    notice_id: int
    license_ids: tuple[int, ...]
    last_id: int


class FilesStep(JobStep, frozen=True, kw_only=True):
    """Make some more license files; those of one license follow each other. ``after_device`` is the
    device after which the last license goes on, 0 where all its files are made; ``cut`` are the licenses
    with more devices than the job's file has room for.
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
    """Mail the files of some more customers: to each, the parts of the job's file with these numbers.
    ``unreachable`` are customers with files who have no address.
    """

    mails: tuple[tuple[int, tuple[int, ...]], ...]
    unreachable: int
    next_position: int


class FetchFile(Command, frozen=True, kw_only=True):
    """Record that a user downloads the file of a job, with all its license keys."""

    job_id: int


class FetchKeys(Command, frozen=True, kw_only=True):
    """Record that the user who ordered a job downloads the license keys that it made."""

    job_id: int


class PurgeJobFile(Command, frozen=True, kw_only=True):
    """Delete some chunks of the file of a job."""

    job_id: int


class PurgeJobs(Command, frozen=True, kw_only=True):
    """Delete some of the jobs that ended before this moment."""

    before: datetime
