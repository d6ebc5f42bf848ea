"""Commands about long work in the background."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from keywright.core.command import Command, Cost
from keywright.jobs.model import Claim
from keywright.licensing.licenses.commands import LicenseCommand
from keywright.provisioning.generators.commands import GenerateLicenses


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
    """Give a job up; ``reason`` is shown to users."""

    reason: str


class JobStep(JobCommand, frozen=True, kw_only=True):
    """What comes next in a job that stands at ``position``; with ``is_last``, it is done then."""

    cost = Cost.STEP

    position: int
    is_last: bool


class GenerateStep(JobStep, frozen=True, kw_only=True):
    """Make some more licenses."""

    generate: GenerateLicenses


class ChangeStep(JobStep, frozen=True, kw_only=True):
    """Change some more licenses, named by their ids, up to ``last_id``."""

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
    """Keep another chunk of a file, which tells of ``amount`` licenses up to ``last_id``."""

    chunk: bytes
    amount: int
    last_id: int


class FetchFile(Command, frozen=True, kw_only=True):
    """Somebody takes the file that a job has made, with all the license keys in it."""

    job_id: int


class PurgeJobFile(Command, frozen=True, kw_only=True):
    """Delete some of what this job has made."""

    job_id: int


class PurgeJobs(Command, frozen=True, kw_only=True):
    """Delete some of the jobs that ended before this moment."""

    before: datetime
