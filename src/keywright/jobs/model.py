"""Jobs and claims on them."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class JobState(StrEnum):
    """How far long work has come."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    #: The user who ordered it may not do that any more.
    STOPPED = "stopped"


class Job(msgspec.Struct, frozen=True):
    """Long work, done in steps: ``done`` of ``total`` (None while nobody has counted), ``refused`` of which
    met a refusal; ``position`` is where the next step begins, ``messages`` says, line by line, why it failed
    and what it skipped.
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


class Claim(msgspec.Struct, frozen=True):
    """The worker on an unfinished job, as its row says. Each step, and each moment in which the job is held,
    changes it.
    """

    job_id: int
    claimed_by: str | None
    claimed_until: datetime | None
    position: int
